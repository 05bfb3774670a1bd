"""What tests of several folders share: folders of their own, and a PostgreSQL server where there is one."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from dperm.release.rigorous import bound
from dperm.release.rigorous.bound import rigorous_bound
from dperm.solvers import Solver

# Long tests of many cases: of each solver's, one case in so many is part of `make test`; the others are marked slow.
# A number that has no divisor in common with the numbers of values of a test's parameters takes them in turn.
ONE_IN = {
    "test_a_compiled_epoch_is_the_printed_algorithm": 5,
    "test_a_difference_is_that_of_two_gradients_in_every_storage": 4,
    "test_a_fit_without_noise_does_not_depend_on_where_rows_are_and_how_they_are_cut": 2,
    "test_a_loss_that_lies_about_its_slope_moves_no_answer_beyond_its_sensitivity": 17,
    "test_a_loss_that_lies_is_held_to_the_declared_difference": 2,
    "test_a_loss_that_lies_moves_a_step_by_all_that_is_declared_and_no_further": 3,
    "test_a_search_is_by_unit_from_its_parts_to_its_file": 2,
    "test_a_seeded_fit_draws_the_same_batches_and_noise_from_files_and_on_a_cluster": 2,
    "test_a_sensitivity_smaller_by_five_percent_would_be_exceeded": 7,
    "test_a_worker_that_is_killed_changes_no_result_and_takes_no_question_more": 2,
    "test_all_rows_of_a_unit_move_an_answer_no_further_than_is_declared": 2,
    "test_an_edited_entry_is_noticed": 4,
    "test_anchored_epochs_reduce_the_gap_tenfold": 4,
    "test_anchored_epochs_that_double_are_as_good_as_as_many_gradient_steps": 4,
    "test_atoms_of_a_non_smooth_problem_do_not_exceed_the_bound": 5,
    "test_differences_of_nothing_show_the_planned_noise": 3,
    "test_every_solver_stays_on_its_side": 2,
    "test_gumbel_noise_is_less_than_the_published_laplace_noise": 3,
    "test_more_budget_brings_less_excess_risk": 2,
    "test_no_hostile_row_moves_any_losses_difference_beyond_its_sensitivity": 9,
    "test_no_hostile_row_moves_any_steps_mean_beyond_its_sensitivity": 3,
    "test_no_hostile_row_moves_the_descent_further_than_declared": 3,
    "test_no_hostile_row_moves_the_difference_beyond_its_sensitivity_in_any_storage": 2,
    "test_no_hostile_row_moves_the_minimiser_further_than_declared": 2,
    "test_no_pair_of_small_tables_exceeds_the_bound": 2,
    "test_no_pair_of_small_tables_exceeds_the_gaussian_bound": 5,
    "test_no_pair_of_small_tables_exceeds_the_pure_bound": 5,
    "test_no_point_is_better_than_the_descent_step": 3,
    "test_no_row_adds_more_than_the_bound_to_a_difference": 2,
    "test_no_row_adds_more_than_the_clip": 2,
    "test_no_row_of_a_small_table_moves_the_descent_further_than_declared": 3,
    "test_no_row_of_a_small_table_moves_the_minimiser_further_than_declared": 2,
    "test_no_text_in_a_file_forges_a_line": 2,
    "test_noise_costs_a_mirror_step_no_more_than_declared": 3,
    "test_noise_is_found_beside_a_cost_that_it_does_not_change": 2,
    "test_norms_without_single_gradients_are_those_of_the_gradients": 2,
    "test_prox_contracts_as_the_strong_convexity_says": 5,
    "test_prox_lies_in_the_domain_and_minimises": 5,
    "test_prox_minimises_where_the_penalty_outweighs_the_domain": 5,
    "test_quasi_newton_steps_alone_end_with_a_short_subgradient": 5,
    "test_sampled_plans_keep_their_promise_and_waste_little": 6,
    "test_steps_in_every_storage_are_proximal_sgd": 5,
    "test_steps_over_nothing_show_the_planned_noise": 3,
    "test_the_answer_is_finite_and_in_the_domain": 5,
    "test_the_bound_by_a_draw_is_never_below_the_exact_cost": 3,
    "test_the_curve_is_the_least_over_all_lines_with_forty_digits": 3,
    "test_the_exact_privacy_curve_of_a_unit_is_the_one_that_is_charged": 2,
    "test_the_fits_that_are_counted_beforehand_are_those_in_the_ledger": 2,
    "test_the_gradient_is_the_sum_over_clipped_rows": 7,
    "test_the_linear_term_has_the_planned_noise": 4,
    "test_the_mirror_step_minimises": 3,
    "test_the_plan_is_public_and_calibrated_and_keeps_the_guarantee": 5,
    "test_the_same_seed_gives_the_stored_coefficients_and_noise": 2,
    "test_the_word_goes_from_hopeless_to_useful_as_rows_are_added": 2,
    "test_two_rows_in_a_plane_do_not_exceed_the_bound": 4,
    "test_width_and_diameter_bound_the_square_of_the_dual_norm_of_noise": 3,
    "test_without_curvature_the_bound_is_met": 2,
    "test_without_noise_it_reaches_the_optimum": 7,
    "test_without_noise_the_gap_falls_as_the_theorem_says": 4,
    "test_zero_gradients_show_the_planned_noise": 3,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark most cases of the long tests above as slow."""
    seen = Counter()
    for item in items:
        name = getattr(item, "originalname", None)
        if name in ONE_IN and item.get_closest_marker("slow") is None:
            case = (name, *(type(value) for value in item.callspec.params.values() if isinstance(value, Solver)))
            if seen[case] % ONE_IN[name]:
                item.add_marker(pytest.mark.slow)
            seen[case] += 1


@pytest.fixture(scope="session", autouse=True)
def each_bound_once():
    """`verify` of the same events takes its ball arithmetic from the first time: many tests do it over and over."""
    kept = {}

    def remembered(*question):
        name = repr(question)
        if name not in kept:
            kept[name] = rigorous_bound(*question)
        return kept[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bound, "rigorous_bound", remembered)  # where `verify` looks for it; others have imported it
        yield


@pytest.fixture
def own_folders(tmp_path, monkeypatch):
    """Ledgers and witnesses go to a folder of the test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("DPERM_LEDGER", raising=False)


@pytest.fixture(scope="session")
def postgresql_server():
    """The URL, up to the name of a database, of a server that lives as long as the tests; skips where there is none."""
    pytest.importorskip("psycopg")
    control = _postgresql_program("pg_ctl")
    # The server refuses to run as root, and its user must be able to reach the folder.
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="dperm-postgresql-", dir="/tmp"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    password = folder / "password"
    password.write_text("secret-of-tests")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c max_connections=60"
    options += " -c fsync=off"  # the processes that tests kill lose nothing by it, only a machine would
    authenticated = ["-A", "scram-sha-256", "-U", "tester", f"--pwfile={password}"]
    try:
        if as_user:
            shutil.chown(folder, "postgres")
            shutil.chown(password, "postgres")
        _run([*as_user, _postgresql_program("initdb"), "-D", folder / "data", "-N", *authenticated])
        _run([*as_user, control, "-D", folder / "data", "-l", folder / "log", "-w", "-o", options, "start"])
    except (OSError, LookupError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"PostgreSQL is there but does not start: {error}")
    yield f"postgresql+psycopg://tester:secret-of-tests@127.0.0.1:{port}"
    _run([*as_user, control, "-D", folder / "data", "-m", "immediate", "-w", "stop"])
    shutil.rmtree(folder, ignore_errors=True)


def _run(command):
    # Not captured: a server that goes on running would keep the pipe open.
    subprocess.run(command, check=True, timeout=120, cwd="/tmp", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _postgresql_program(name):
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[4]))
    program = found[-1] if found else shutil.which(name)
    if program is None:
        pytest.skip(f"PostgreSQL's {name} is not installed")
    return program
