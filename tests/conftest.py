"""What tests of several folders share: folders of their own, and a PostgreSQL server where there is one."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from dperm.rigorous import bound
from dperm.rigorous.bound import rigorous_bound
from dperm.solvers import Solver

# Long tests of many cases: of each solver's, one case in so many is part of `make test`; the others are marked slow.
# A number that has no divisor in common with the numbers of values of a test's parameters takes them in turn.
ONE_IN = {
    "test_a_compiled_epoch_is_the_printed_algorithm": 5,
    "test_a_difference_is_that_of_two_gradients_in_every_storage": 4,
    "test_a_fit_without_noise_does_not_depend_on_where_rows_are_and_how_they_are_cut": 2,
    "test_a_loss_that_lies_about_its_slope_moves_no_answer_beyond_its_sensitivity": 17,
    "test_a_search_is_by_unit_from_its_parts_to_its_file": 2,
    "test_a_seeded_fit_draws_the_same_batches_and_noise_from_files_and_on_a_cluster": 2,
    "test_a_sensitivity_smaller_by_five_percent_would_be_exceeded": 7,
    "test_a_worker_that_is_killed_changes_no_result_and_takes_no_question_more": 4,
    "test_all_rows_of_a_unit_move_an_answer_no_further_than_is_declared": 2,
    "test_an_edited_entry_is_noticed": 4,
    "test_anchored_epochs_reduce_the_gap_tenfold": 4,
    "test_anchored_epochs_that_double_are_as_good_as_as_many_gradient_steps": 4,
    "test_atoms_of_a_non_smooth_problem_do_not_exceed_the_bound": 5,
    "test_differences_of_nothing_show_the_planned_noise": 3,
    "test_gumbel_noise_is_less_than_the_published_laplace_noise": 3,
    "test_more_budget_brings_less_excess_risk": 2,
    "test_no_hostile_row_moves_any_losses_difference_beyond_its_sensitivity": 9,
    "test_no_hostile_row_moves_the_difference_beyond_its_sensitivity_in_any_storage": 2,
    "test_no_pair_of_small_tables_exceeds_the_gaussian_bound": 5,
    "test_no_pair_of_small_tables_exceeds_the_pure_bound": 5,
    "test_no_row_adds_more_than_the_bound_to_a_difference": 2,
    "test_no_row_of_a_small_table_moves_the_minimiser_further_than_declared": 2,
    "test_no_text_in_a_file_forges_a_line": 2,
    "test_prox_contracts_as_the_strong_convexity_says": 5,
    "test_prox_lies_in_the_domain_and_minimises": 5,
    "test_prox_minimises_where_the_penalty_outweighs_the_domain": 5,
    "test_sampled_plans_keep_their_promise_and_waste_little": 6,
    "test_steps_in_every_storage_are_proximal_sgd": 5,
    "test_steps_over_nothing_show_the_planned_noise": 3,
    "test_the_curve_is_the_least_over_all_lines_with_forty_digits": 3,
    "test_the_exact_privacy_curve_of_a_unit_is_the_one_that_is_charged": 2,
    "test_the_fits_that_are_counted_beforehand_are_those_in_the_ledger": 2,
    "test_the_gradient_is_the_sum_over_clipped_rows": 7,
    "test_the_linear_term_has_the_planned_noise": 4,
    "test_the_same_seed_gives_the_stored_coefficients_and_noise": 2,
    "test_two_rows_in_a_plane_do_not_exceed_the_bound": 4,
    "test_without_curvature_the_bound_is_met": 2,
    "test_without_noise_it_reaches_the_optimum": 7,
    "test_without_noise_the_gap_falls_as_the_theorem_says": 4,
    "test_zero_gradients_show_the_planned_noise": 3,
}
# Of these, `make test` has as few cases as it takes for every value of every parameter; the others are marked slow.
EVERY_VALUE = {
    "test_a_bound_for_five_percent_more_noise_would_be_exceeded",
    "test_a_determinant_term_five_percent_smaller_would_be_exceeded",
    "test_a_difference_is_that_of_two_gradients_for_every_loss",
    "test_a_few_per_cent_less_noise_than_promised_for_is_caught",
    "test_a_file_of_every_solver_is_verified_by_both_derivations",
    "test_a_fit_with_private_bins_keeps_the_whole_guarantee",
    "test_a_loss_that_lies_is_held_to_the_declared_difference",
    "test_a_loss_that_lies_moves_a_step_by_all_that_is_declared_and_no_further",
    "test_a_person_with_rows_everywhere_moves_a_sum_by_no_more_than_is_declared",
    "test_a_released_range_holds_nearly_all_values_and_not_much_more",
    "test_a_row_in_single_precision_is_clipped_as_it_is_in_double_precision",
    "test_a_row_less_moves_no_other_row_of_a_linear_model_across_the_edge_of_a_bin",
    "test_a_solver_at_its_defaults_keeps_its_guarantee_on_adversarial_tables",
    "test_a_unit_moves_a_sum_by_no_more_than_is_declared_whatever_its_rows_hold",
    "test_an_event_of_a_class_that_nobody_knows_is_composed_by_its_curve",
    "test_batches_are_large_enough_for_the_noise_and_small_enough_for_the_time",
    "test_calibrated_noise_keeps_the_promise_and_the_recipe_wastes_nothing",
    "test_compiled_steps_are_proximal_sgd",
    "test_composed_on_a_grid_it_costs_no_less_than_by_itself",
    "test_curvature_bound_holds_and_is_within_five_percent",
    "test_draws_from_short_digits_have_the_exact_distribution",
    "test_dual_norm_is_the_largest_product_and_is_reached",
    "test_epsilon_and_delta_are_inverse_to_each_other",
    "test_epsilon_is_where_the_exact_sum_comes_down_to_delta",
    "test_every_direction_of_the_domain_can_be_reached",
    "test_every_solver_stays_on_its_side",
    "test_every_step_has_noise_of_its_own_and_its_own_step_size",
    "test_every_step_keeps_the_inequality_of_the_proof",
    "test_everything_together_keeps_the_guarantee_and_nearly_spends_it",
    "test_gaussian_width_is_the_mean_of_the_support_function",
    "test_hostile_rows_change_neither_the_course_nor_the_size_of_the_answer",
    "test_it_is_never_below_the_exact_epsilon",
    "test_it_is_what_is_certified_to_a_thousandth",
    "test_its_renyi_bound_is_looser",
    "test_its_renyi_divergence_bounds_its_curve",
    "test_many_are_worth_about_their_precision",
    "test_many_sampled_answers_cost_about_what_the_central_limit_says",
    "test_minkowski_norm_is_homogeneous",
    "test_more_of_it_costs_more_and_never_more_than_it_adds_up_to",
    "test_more_privacy_takes_more_noise",
    "test_no_answer_takes_it_further_than_its_steps_allow",
    "test_no_hostile_row_moves_a_score_beyond_the_sensitivity",
    "test_no_hostile_row_moves_a_steps_mean_beyond_its_sensitivity_in_any_storage",
    "test_no_hostile_row_moves_any_losses_gradient_beyond_its_sensitivity",
    "test_no_hostile_row_moves_any_steps_mean_beyond_its_sensitivity",
    "test_no_hostile_row_moves_it_beyond_its_sensitivity",
    "test_no_hostile_row_moves_the_descent_further_than_declared",
    "test_no_hostile_row_moves_the_minimiser_further_than_declared",
    "test_no_hostile_row_moves_the_sum_further_than_the_sensitivity",
    "test_no_hostile_row_moves_what_a_transformer_asks_for_further_than_declared",
    "test_no_pair_of_small_tables_exceeds_the_bound",
    "test_no_pair_of_small_tables_exceeds_the_bound_for_clipped_slopes",
    "test_no_point_is_better_than_the_descent_step",
    "test_no_row_adds_more_than_the_clip",
    "test_no_row_of_a_small_table_moves_the_descent_further_than_declared",
    "test_noise_costs_a_mirror_step_no_more_than_declared",
    "test_noise_is_found_beside_a_cost_that_it_does_not_change",
    "test_noise_that_is_two_per_cent_smaller_in_the_events_is_caught_by_both_derivations",
    "test_norms_without_single_gradients_are_those_of_the_gradients",
    "test_one_row_moves_a_sum_by_no_more_than_is_declared",
    "test_one_row_moves_counts_by_no_more_than_is_declared",
    "test_one_row_moves_one_sum_by_its_bound_at_the_most",
    "test_one_row_moves_what_is_released_by_no_more_than_is_declared",
    "test_one_row_of_a_lying_loss_does_not_outvote_three_others_about_a_vertex",
    "test_other_accountants_agree_about_it_and_never_say_less",
    "test_plans_for_units_keep_the_guarantee_with_hardly_more_noise",
    "test_points_stand_for_coefficients_in_the_domain",
    "test_printed_epochs_over_nothing_show_the_planned_noise",
    "test_projection_brings_no_two_points_further_apart",
    "test_projection_is_the_nearest_point",
    "test_projection_lands_inside_and_stays_there",
    "test_quasi_newton_steps_alone_end_with_a_short_subgradient",
    "test_random_plans_keep_their_promise_and_waste_less_than_a_percent_of_noise",
    "test_regression_is_solved_by_released_sizes_unless_the_guarantee_is_pure",
    "test_renyi_is_above_pld_for_sampled_gaussians",
    "test_rows_that_are_not_weighted_by_unit_would_be_caught",
    "test_rows_weigh_the_same_in_every_format_as_in_memory",
    "test_rows_whose_squares_vanish_are_clipped_all_the_same",
    "test_sizes_bound_every_point_and_every_pair",
    "test_skips_have_the_geometric_distribution_from_short_digits",
    "test_something_is_accepted_with_probability_exp_minus_its_exponent",
    "test_tables_that_differ_in_one_weight_only_are_no_further_apart_than_any_neighbours",
    "test_the_answer_is_finite_and_in_the_domain",
    "test_the_answer_is_within_its_tolerance_of_the_minimiser",
    "test_the_best_of_gaussian_scores_costs_no_more_than_its_curve_says",
    "test_the_bound_by_a_draw_is_never_below_the_exact_cost",
    "test_the_bound_is_the_sum_over_the_corners_and_above_their_maximum",
    "test_the_compiled_form_of_a_prox_is_the_prox",
    "test_the_descents_sensitivity_is_attained",
    "test_the_determinant_of_a_sigmoidal_loss_costs_what_its_best_tangents_cost",
    "test_the_discretised_loss_is_above_the_curve_and_hardly",
    "test_the_divergence_from_the_centre_is_bounded_and_the_bound_is_reached",
    "test_the_events_of_a_plans_noises_compose_to_exactly_the_plans_event",
    "test_the_exact_risk_on_quadratics_is_below_the_bound",
    "test_the_intercept_is_in_the_units_of_the_margin_whatever_the_row_norm",
    "test_the_kernels_come_to_the_bound_and_never_beyond",
    "test_the_map_is_strongly_convex_in_its_norm",
    "test_the_mirror_step_bears_slopes_of_any_size",
    "test_the_mirror_step_minimises",
    "test_the_norm_is_that_of_the_half_difference_body",
    "test_the_passes_over_the_rows_are_at_most_those_allowed",
    "test_the_path_has_the_numbers_of_the_proof",
    "test_the_plan_is_public_and_calibrated_and_keeps_the_guarantee",
    "test_the_trace_is_the_largest_of_a_cut_softmax",
    "test_transforms_keep_within_the_bound_of_the_proof",
    "test_two_minimisers_show_no_more_than_is_accounted_for_both_together",
    "test_what_many_samples_are_worth_is_turned_into_noise_and_rates_and_back",
    "test_width_and_diameter_bound_the_square_of_the_dual_norm_of_noise",
    "test_without_noise_small_penalties_do_not_make_a_run_endless",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark most cases of the long tests above as slow."""
    seen, families = Counter(), {}
    for item in items:
        name = getattr(item, "originalname", None)
        if item.get_closest_marker("slow") is not None:
            continue
        if name in ONE_IN:
            case = (name, *(type(value) for value in item.callspec.params.values() if isinstance(value, Solver)))
            if seen[case] % ONE_IN[name]:
                item.add_marker(pytest.mark.slow)
            seen[case] += 1
        elif name in EVERY_VALUE:
            families.setdefault((item.path, item.parent.name, name), []).append(item)
    for family in families.values():
        kept = _with_every_value(family)
        for item in family:
            if item not in kept:
                item.add_marker(pytest.mark.slow)


def _with_every_value(family):
    """Few cases in which every value of every parameter occurs, all of them about as often."""
    values = {item: [(name, repr(value)) for name, value in item.callspec.params.items()] for item in family}
    times, kept = Counter(), set()
    while True:
        best = max(
            family, key=lambda item: (sum(not times[v] for v in values[item]), -sum(times[v] for v in values[item]))
        )
        if all(times[value] for value in values[best]):
            return kept
        kept.add(best)
        times.update(values[best])


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
