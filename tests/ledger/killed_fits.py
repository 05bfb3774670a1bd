"""Fits that die: what the processes of test_killed_fits.py run."""

import os
import signal
import sys

import numpy as np
import pandas as pd

from dperm import Budget, Classes, Number, PrivateLogisticRegression, Schema, files
from dperm.files import content, model_file
from dperm.kernel import noise, oracle
from dperm.ledger import budget as ledger
from dperm.ledger import tables as ledger_tables
from dperm.mechanisms.range import answer as ranges
from dperm.models import base, classifier
from dperm.plan import fit_plan, options, statement, transaction
from dperm.rows import arrays, encoding
from dperm.solvers import DPGD
from ledger.processes import tracer

# The steps of a fit from the first check to the file, but not the arithmetic in between.
_TRACED = {
    module.__file__
    for module in (
        arrays, base, classifier, content, encoding, files, fit_plan, ledger, ledger_tables, model_file, noise, options,
        oracle, ranges, statement, transaction,
    )
} | {__file__}  # fmt: skip

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": RNG.normal(size=300), "z": RNG.normal(size=300), "y": RNG.integers(0, 2, 300)})
SCHEMA = Schema({"x": Number("private"), "z": Number((-3, 3))}, Classes("y", [0, 1]), n=300)


def fit_and_save(budget, path):
    """Every step from a table to a released file."""
    solver = DPGD(n_steps=2, accounting="composition")
    model = PrivateLogisticRegression(40.0, 1e-5, schema=SCHEMA, budget=budget, solver=solver).fit(TABLE)
    model_file.save_model(model, path)
    return path  # a line after the file is written, to die at


def die_at_every_line(budget, folder, share):
    """Forks that fit and die, each at another line: every `share`-th line that a fit runs."""
    lines = {}
    fit_and_save(budget, folder / "warm.json")  # compiles
    sys.settrace(tracer(_TRACED, lambda place: lines.setdefault(place)))
    fit_and_save(budget, folder / "whole.json")
    sys.settrace(None)
    for number, line in enumerate(dict.fromkeys([*list(lines)[::share], list(lines)[-1]])):
        path, before = folder / f"{number}.json", len(budget.account().releases)
        child = os.fork()
        if child == 0:
            sys.settrace(
                tracer(_TRACED, lambda place, last=line: place == last and os.kill(os.getpid(), signal.SIGKILL))
            )
            fit_and_save(budget, path)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != -signal.SIGKILL:
            sys.exit(f"line {line} was not run again")
        _check(budget, path, before)


def _check(budget, path, before):
    """Raise if the ledger is damaged, or has less than was released."""
    account = budget.account()
    spent = len(account.releases) - before
    assert spent in (0, 1)
    if path.exists():
        model = model_file.load_model(path)  # whole, or not there
        assert spent == 1
        entry = account.releases[-1]
        assert (entry.number, entry.digest) == (model.ledger_entry_["number"], model.ledger_entry_["digest"])
        assert entry.is_settled
        Budget(budget.dataset, budget.ledger).confirm(
            entry.number, entry.digest, model_file.read_content(path)["fingerprint"]
        )
