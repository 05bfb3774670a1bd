"""A fit is planned once: one ranking of solvers, one calibration, one statement, whoever asks for it."""

from collections import Counter

import numpy as np
import pytest

from dperm import (
    Classes,
    Guarantee,
    InvalidParameterError,
    Number,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Problem,
    Schema,
    minimize,
)
from dperm.cli.main import run_with
from dperm.ledger import Budget
from dperm.plan import fit_plan
from dperm.plan import options as planning_options
from dperm.problem import Logistic

ROWS = np.random.default_rng(0).normal(size=(500, 2)) / 3.0
LABELS = (ROWS[:, 0] > 0).astype(int)


@pytest.fixture
def calls(monkeypatch):
    """How often each step of planning runs."""
    counted = Counter()

    def watch(module, name):
        original = getattr(module, name)

        def watched(*arguments, **more):
            counted[name] += 1
            return original(*arguments, **more)

        monkeypatch.setattr(module, name, watched)

    watch(planning_options, "choose_solver")
    watch(planning_options, "calibrate")
    watch(fit_plan, "statement_of")
    return counted


ONCE = {"choose_solver": 1, "calibrate": 1, "statement_of": 1}


def test_minimize_plans_once(calls):
    minimize(Problem(Logistic()), ROWS, LABELS, guarantee=Guarantee(1.0, 1e-6))
    assert calls == ONCE


@pytest.mark.parametrize("model", [PrivateLogisticRegression(classes=[0, 1]), PrivateLinearRegression(row_norm=1.0)])
def test_an_estimator_plans_once_with_a_budget_too(model, calls, tmp_path):
    budget = Budget.create("people", Guarantee(3.0, 1e-4), ledger=str(tmp_path / "ledger.db"))
    model.set_params(budget=budget).fit(ROWS, LABELS)
    assert calls == ONCE


def test_an_estimator_that_reads_two_classes_from_the_rows_plans_once(calls):
    with pytest.warns(match="classes were read"):
        PrivateLogisticRegression().fit(ROWS, LABELS)
    assert calls == ONCE


def test_the_command_line_plans_once_and_refuses_before_the_table_is_opened(calls, tmp_path, own_folders):
    table, schema = tmp_path / "t.csv", tmp_path / "t.toml"
    table.write_text("a,goal\n" + "\n".join(f"{row[0]},{label}" for row, label in zip(ROWS, LABELS, strict=True)))
    target, column = 'column = "goal"\nclasses = [0, 1]', 'range = [-1, 1]\nencode = "linear"'
    schema.write_text(f"[table]\nn = 500\n[target]\n{target}\n[columns.a]\n{column}\n")
    Budget.create("people", Guarantee(1.5, 1e-4))
    options = ["--schema", str(schema), "--epsilon", "1", "--delta", "1e-6", "--dataset", "people"]
    assert run_with(["fit", str(table), *options, "-o", str(tmp_path / "m.json")]) == 0
    assert calls == ONCE
    calls.clear()
    assert run_with(["fit", str(tmp_path / "absent.csv"), *options, "-o", str(tmp_path / "other.json")]) == 2
    assert calls == ONCE


def test_a_plan_that_was_made_before_is_not_made_again(calls):
    model = PrivateLogisticRegression(classes=[0, 1])
    plan = model.plan(*ROWS.shape)
    assert model.fit(ROWS, LABELS, plan=plan).privacy_.sigma == plan.statement.sigma
    assert calls == ONCE


def test_a_plan_for_other_parameters_is_refused():
    plan = PrivateLogisticRegression(classes=[0, 1], epsilon=2.0).plan(*ROWS.shape)
    with pytest.raises(InvalidParameterError, match="other parameters"):
        PrivateLogisticRegression(classes=[0, 1], epsilon=1.0).fit(ROWS, LABELS, plan=plan)


def test_a_plan_for_another_number_of_columns_is_refused():
    model = PrivateLogisticRegression(classes=[0, 1])
    with pytest.raises(InvalidParameterError, match="3 columns, and the table has 2"):
        model.fit(ROWS, LABELS, plan=model.plan(500, 3))


def test_a_plan_with_another_n_than_the_declared_one_is_refused():
    schema = Schema({"a": Number((-1, 1))}, Classes("goal", [0, 1]), n=500)
    with pytest.raises(InvalidParameterError, match="n = 500 is already declared"):
        PrivateLogisticRegression(schema=schema).plan(400)
