"""Processes that spend at once, and processes that are killed: the ledger never has less than was handed out."""

import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
from dp_accounting import dp_event

from dperm import Budget, BudgetExceeded, Guarantee
from privacy.ledger_behaviour import GUARANTEE, REPLACE_ONE, race

pytestmark = pytest.mark.usefixtures("own_folders")

SMALL = dp_event.GaussianDpEvent(1000.0)


def test_fifty_processes_spend_exactly_what_fits(tmp_path):
    budget = Budget.create("adult", GUARANTEE, ledger=str(tmp_path / "ledger.db"))
    said = race(budget, processes=50, releases=17)
    assert said == ["refused"] * 33 + ["reserved"] * 17
    account = budget.account()
    assert len(account.releases) == 17
    assert account.spent <= GUARANTEE.epsilon
    assert all(release.settled_at for release in account.releases)


def spend_on(budget, handed_out):
    """Reserve and settle until killed; say what was handed out."""
    with open(handed_out, "a", buffering=1) as file:
        while True:
            reservation = budget.reserve(SMALL, REPLACE_ONE)
            file.write(f"{reservation.number} {reservation.digest}\n")
            reservation.settle("done")


def test_a_ledger_survives_kills_at_random_moments(tmp_path):
    budget = Budget.create("adult", Guarantee(100.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dperm.privacy.ledger_tables"])
    rng = random.Random(0)
    for _ in range(12):
        process = context.Process(target=spend_on, args=(budget, str(tmp_path / "handed_out")))
        process.start()
        time.sleep(rng.uniform(0.1, 0.5))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        is_all_there(budget, tmp_path / "handed_out")
    assert len(budget.account().releases) > 12


def kill_at_every_line(budget, handed_out, stride):
    """Forks that are killed at one line of the ledger's code each, later and later, until one gets to its end."""
    for line in range(0, 10_000, stride):
        child = os.fork()
        if child == 0:
            sys.settrace(killer(line))
            reservation = budget.reserve(SMALL, REPLACE_ONE)
            sys.settrace(None)
            with open(handed_out, "a") as file:
                file.write(f"{reservation.number} {reservation.digest}\n")
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            sys.exit(0)
        is_all_there(budget, Path(handed_out))
    sys.exit("no fork came to its end")


def killer(line):
    left = [line]

    def trace(frame, event, _argument):
        if Path(frame.f_code.co_filename).name not in {"ledger.py", "ledger_tables.py", "witness.py", "files.py"}:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def test_a_ledger_survives_a_kill_at_every_step(tmp_path):
    budget = Budget.create("adult", Guarantee(100.0, 1e-5), ledger=str(tmp_path / "ledger.db"))
    handed_out = tmp_path / "handed_out"
    handed_out.touch()
    context = multiprocessing.get_context("forkserver")  # of a process without threads forks may be made
    process = context.Process(target=kill_at_every_line, args=(budget, str(handed_out), 1))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    assert len(handed_out.read_text().splitlines()) == 1
    assert 1 < len(budget.account().releases) < 100  # some died before their entry was on disk, some after
    is_all_there(budget, handed_out)


def is_all_there(budget, handed_out):
    known = {f"{release.number} {release.digest}" for release in budget.account().releases}
    lines = handed_out.read_text().splitlines() if handed_out.exists() else []
    assert set(lines) <= known


def reserve_in_a_worker(budget):
    try:
        budget.reserve(dp_event.GaussianDpEvent(10.0), REPLACE_ONE)
    except BudgetExceeded:
        return 0
    return 1


def test_joblib_processes_spend_from_one_budget(tmp_path):
    import joblib

    budget = Budget.create("adult", GUARANTEE, ledger=str(tmp_path / "ledger.db"))
    with joblib.parallel_config("multiprocessing", n_jobs=2):
        reserved = joblib.Parallel()(joblib.delayed(reserve_in_a_worker)(budget) for _ in range(30))
    assert 0 < sum(reserved) < 30
    assert len(budget.account().releases) == sum(reserved)
