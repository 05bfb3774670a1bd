"""Pitfall 31: kill -9 at every point of a fit leaves a ledger that has at least what was released."""

import multiprocessing

import pytest

from dperm import Budget, Guarantee
from ledger.killed_fits import die_at_every_line

pytestmark = pytest.mark.usefixtures("own_folders")


def died_at(share, tmp_path):
    budget = Budget.create("people", Guarantee(1e5, 1e-3), ledger=str(tmp_path / "ledger.db"))
    process = multiprocessing.get_context("spawn").Process(target=die_at_every_line, args=(budget, tmp_path, share))
    process.start()
    process.join(600)
    assert process.exitcode == 0
    files = [path for path in tmp_path.glob("*.json") if path.stem.isdigit()]
    return len(files), len(budget.account().releases) - 2


def test_a_kill_at_every_fifteenth_line_of_a_fit_never_leaves_less_spent_than_released(tmp_path):
    released, spent = died_at(15, tmp_path)
    assert spent > released > 0  # some died between the reservation and the file, one after it


@pytest.mark.slow
def test_a_kill_at_every_line_of_a_fit_never_leaves_less_spent_than_released(tmp_path):
    released, spent = died_at(1, tmp_path)
    assert spent > released > 0
