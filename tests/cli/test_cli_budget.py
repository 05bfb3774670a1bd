"""`dperm budget`, as a person types it."""

import re

import pytest

from dperm import Budget, Guarantee
from dperm.accounting.events import Composed, ObjectivePerturbation, Pure
from dperm.cli.main import run_with
from dperm.ledger.rule import one_release
from dperm.privacy.guarantee import Adjacency
from ledger.behaviour import GAUSSIAN, REPLACE_ONE

pytestmark = pytest.mark.usefixtures("own_folders")


def test_a_budget_is_created_shown_and_listed(capsys):
    assert run_with(["budget", "list"]) == 0
    assert "no budgets yet" in capsys.readouterr().out
    assert run_with(["budget", "create", "adult", "--epsilon", "3", "--delta", "1e-5"]) == 0
    assert capsys.readouterr().out == "adult: ε = 0 of 3 spent, at least 3 left (δ = 1e-05, replace_one)\n"
    assert run_with(["budget", "show", "adult"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1] == "[--------------------] ε = 0 of 3 spent, at least 3 left (δ = 1e-05, replace_one)"
    assert out[2] == "this holds if each release may depend on earlier results"
    assert out[3] == "a further release fits: up to ε = 3 at δ = 0, or one Gaussian answer of up to ε = 3 at δ = 1e-05"
    assert len(out) == 4
    assert run_with(["budget", "list"]) == 0
    assert capsys.readouterr().out.endswith("] adult: ε = 0 of 3 spent, at least 3 left (δ = 1e-05, replace_one)\n")


def test_every_release_has_a_line_with_its_state(capsys):
    run_with(["budget", "create", "adult", "--epsilon", "1", "--delta", "1e-5"])
    budget = Budget("adult")
    budget.reserve(GAUSSIAN, REPLACE_ONE).settle("0123456789abcdef")
    budget.reserve(GAUSSIAN, REPLACE_ONE)
    capsys.readouterr()
    assert run_with(["budget", "show", "adult"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith("[##########----------] ε = 0.54")
    looks, fixed = "each release may depend on earlier results", "all releases were fixed before the first"
    assert out[2] == f"this holds if {looks}; if {fixed}, ε = 0.497 is spent"
    assert out[4].split()[0] == "1"
    assert "ε = 0.3407 alone" in out[4]
    assert out[4].endswith("released  0123456789ab")
    assert out[5].split()[0] == "3"
    assert out[5].endswith("reserved, not settled: counts as spent")


def test_a_budget_for_releases_that_are_fixed_in_advance_says_so(capsys):
    create = ["budget", "create", "adult", "--epsilon", "1", "--delta", "1e-5", "--fixed-in-advance"]
    assert run_with(create) == 0
    for _ in range(2):
        Budget("adult").reserve(GAUSSIAN, REPLACE_ONE)
    capsys.readouterr()
    assert run_with(["budget", "show", "adult"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "ε = 0.497 of 1 spent" in out[1]
    looks, fixed = "each release may depend on earlier results", "all releases were fixed before the first"
    assert out[2] == f"this holds if {fixed}; if {looks}, ε = 0.5432 is spent"


@pytest.mark.parametrize("epsilon", [1.6, 2.0, 3.0, 5.0, 10.0])
def test_a_fit_and_an_evaluation_cost_their_sum_and_what_is_left_fits(epsilon, capsys):
    """The fit takes all of the budget's δ, so no further Gaussian one may be as large as what is left."""
    run_with(["budget", "create", "adult", "--epsilon", str(epsilon), "--delta", "1e-5"])
    budget = Budget("adult")
    budget.reserve(ObjectivePerturbation(7.65, 0.02, True, 1e-4), REPLACE_ONE, delta=1e-5)
    budget.reserve(Composed([Pure(0.31), Pure(0.165), Pure(0.025)]), REPLACE_ONE, delta=0.0)
    capsys.readouterr()
    assert run_with(["budget", "show", "adult"]) == 0
    out = capsys.readouterr().out.splitlines()
    words = r"\] ε = (\S+) of (\S+) spent, at least (\S+) left "
    spent, total, left = map(float, re.search(words, out[1]).groups())
    assert 1.47 < spent <= 1.5
    assert total - spent - 0.035 < left <= total - spent
    assert f"a further release fits: up to ε = {left:g} at δ = 0, or one Gaussian answer of up to ε = " in out[3]
    largest = float(re.search(r"answer of up to ε = (\S+) at", out[3]).group(1))
    budget.check(one_release(Guarantee(largest, 1e-5), REPLACE_ONE), REPLACE_ONE, delta=1e-5)
    budget.reserve(Pure(left), REPLACE_ONE, delta=0.0)


def test_an_exhausted_budget_says_that_nothing_fits(capsys):
    from ledger.behaviour import GUARANTEE, multiplier_of

    run_with(["budget", "create", "adult", "--epsilon", "3", "--delta", "1e-5"])
    Budget("adult").reserve(type(GAUSSIAN)(multiplier_of(GUARANTEE) * (1 - 9e-10)), REPLACE_ONE)
    capsys.readouterr()
    assert run_with(["budget", "show", "adult"]) == 0
    assert "no further release fits" in capsys.readouterr().out


def test_the_ledger_is_named_by_an_option_or_the_environment(tmp_path, monkeypatch, capsys):
    create = ["budget", "create", "adult", "--epsilon", "3", "--delta", "1e-5", "--adjacency", "add_remove"]
    assert run_with([*create, "--ledger", str(tmp_path / "one.db")]) == 0
    monkeypatch.setenv("DPERM_LEDGER", str(tmp_path / "two.db"))
    assert run_with(["budget", "show", "adult"]) == 2
    assert str(tmp_path / "two.db") in capsys.readouterr().err
    assert run_with(create) == 0
    assert Budget("adult", str(tmp_path / "two.db")).account().adjacency is Adjacency.ADD_REMOVE


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "adult"], "there is no budget 'adult' in "),
        (["create", "adult", "--epsilon", "0", "--delta", "1e-5"], "epsilon must be above 0"),
        (["create", "adult", "--epsilon", "1", "--delta", "0.5"], "delta must be 0"),
        (["create", "", "--epsilon", "1", "--delta", "1e-5"], "dataset must be a non-empty string"),
        (["create", "adult", "--epsilon", "1"], "--delta"),
        (["list", "--ledger", "nonsense://ann:secret@host/name"], "nonsense://ann:***@host/name is not a database URL"),
    ],
)
def test_every_error_is_one_line(arguments, words, capsys):
    assert run_with(["budget", *arguments]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert "secret" not in captured.err + captured.out


@pytest.mark.parametrize("command", [[], ["create"], ["show"], ["report"], ["list"], ["settle"]])
def test_every_help_text_has_an_example(command, capsys):
    assert run_with(["budget", *command, "--help"]) == 0
    assert "Example: dperm budget" in capsys.readouterr().out
