"""--help is shown without importing what commands compute with, and says what the code has."""

import subprocess
import sys

import pytest

from dperm.cli import choices
from dperm.cli.main import COMMANDS

HEAVY = ("dp_accounting", "jax", "matplotlib", "numba", "pandas", "pyarrow", "scipy", "sklearn", "sqlalchemy")

# Of groups, their own commands too.
CALLS = [[name] for name in COMMANDS] + [
    ["budget", "create"], ["budget", "show"], ["budget", "report"], ["budget", "list"], ["budget", "settle"],
    ["schema", "draft"], ["schema", "check"],
]  # fmt: skip


def imported_by(*calls):
    """Heavy packages that are imported after each of these calls, in one process."""
    program = f"""
import contextlib, io, sys
from dperm.cli.main import run_with
for call in {list(calls)!r}:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = run_with(call)
    print(code, "Usage: dperm" in said.getvalue(), *[name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    return done.stdout.splitlines()


def test_no_help_imports_anything_heavy():
    assert imported_by(*([*call, "--help"] for call in CALLS)) == ["0 True"] * len(CALLS)


def test_what_is_heavy_is_noticed():
    assert imported_by(["plan", "--n", "100", "--p", "2", "--epsilon", "1", "--delta", "1e-6"])[0].split()[2:]


def test_the_choices_are_those_of_the_code():
    from dperm.accounting.calibration import ACCOUNTANTS
    from dperm.audit.plan import ATTACKS
    from dperm.models.candidates import SCORES
    from dperm.plan.search import METHODS

    assert tuple(ACCOUNTANTS) == choices.ACCOUNTANTS
    assert tuple(ATTACKS) == choices.ATTACKS
    assert tuple(SCORES) == choices.SCORES
    assert tuple(METHODS) == choices.METHODS


def test_the_models_and_their_own_options_are_those_of_the_code():
    from dperm.models.registry import models

    offered = {name: model for name, model in models().items() if model.on_command_line}
    assert tuple(offered) == choices.MODELS
    assert {name for model in offered.values() for name in model.own_parameters} == set(choices.OWN_OPTIONS)
    for model in offered.values():
        for name in model.own_parameters:
            assert (choices.OWN_OPTIONS[name][0] is float) == isinstance(getattr(model, name), float), name


@pytest.mark.parametrize("solver", ["rrpsgd", "dp-gd"])
def test_a_solver_goes_by_its_name_wherever_it_lives(solver, capsys):
    from dperm.cli.main import run_with

    plan = ["plan", "--n", "1000", "--p", "3", "--epsilon", "1", "--delta", "1e-6", "--solver"]
    assert run_with([*plan, solver]) == 0
    assert f"{solver}, " in capsys.readouterr().out
    assert run_with([*plan, "no-such-solver"]) == 2
    assert "solver must be one of 'auto'" in capsys.readouterr().err
