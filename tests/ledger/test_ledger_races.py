"""Processes that spend at once, and processes that are killed: the ledger never has less than was handed out."""

import random
import signal
import time

import joblib
import pytest

from dperm import Budget, Guarantee
from ledger.behaviour import GUARANTEE, REPLACE_ONE, multiplier_of
from ledger.processes import (
    SMALL,
    check_that_all_is_there,
    kill_at_every_line,
    make_budgets,
    processes,
    race,
    spend_until_killed,
)

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def budget(tmp_path):
    return Budget.create("adult", GUARANTEE, ledger=str(tmp_path / "ledger.db"))


def test_fifty_processes_spend_exactly_what_fits(budget):
    assert race(budget, 50, multiplier_of(GUARANTEE, releases=17)) == ["refused"] * 33 + ["reserved"] * 17
    account = budget.account()
    assert len(account.releases) == 17
    assert account.spent <= GUARANTEE.epsilon
    assert all(release.is_settled for release in account.releases)


def test_many_processes_can_make_the_first_budget(tmp_path):
    assert make_budgets(str(tmp_path / "new.db"), GUARANTEE, 8) == ["made"] + ["refused"] * 7


def test_a_ledger_survives_kills_at_random_moments(budget, tmp_path):
    rng = random.Random(0)
    for _ in range(12):
        process = processes().Process(target=spend_until_killed, args=(budget, tmp_path / "handed_out"))
        process.start()
        before, end = len(budget.account().releases), time.monotonic() + rng.uniform(0.05, 0.4)
        # Who only looks sees no damage while another one writes. On a busy machine the first entry takes a while.
        while len(budget.account().releases) == before or time.monotonic() < end:
            assert process.is_alive()
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        check_that_all_is_there(budget, tmp_path / "handed_out")
    assert len(budget.account().releases) >= 12


def test_a_ledger_survives_a_kill_at_every_step(budget, tmp_path):
    process = processes().Process(target=kill_at_every_line, args=(budget, tmp_path / "handed_out"))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert len((tmp_path / "handed_out").read_text().splitlines()) == 1
    assert len(budget.account().releases) > 2  # some died after their entry was on disk


def test_joblib_processes_spend_from_one_budget(tmp_path):
    budget = Budget.create("adult", Guarantee(1.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    for backend in ("loky", "threading"):
        with joblib.parallel_config(backend, n_jobs=2):
            joblib.Parallel()(joblib.delayed(budget.reserve)(SMALL, REPLACE_ONE) for _ in range(10))
    assert len(budget.account().releases) == 20
