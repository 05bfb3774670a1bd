"""Pitfall 33 and the bad-input rules: a clear sentence before any row is read, and a hostile row changes no course."""

import math

import numpy as np
import pytest

from dperm import (
    FitOptions,
    Guarantee,
    InvalidParameterError,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Problem,
    minimize,
)
from dperm.errors import UnsupportedProblemError
from dperm.privacy.caveats import Caveat
from dperm.problem import Box, L2Ball, Logistic
from dperm.solvers import DPGD
from kernel.harness import N, P, base_table, hostile_rows, logistic_problem


class Untouchable:
    """Has the shape of a table, and fails the test when a value is read."""

    def __init__(self, *shape):
        self.shape = shape

    def __array__(self, *_arguments, **_more):
        raise AssertionError("a row was read")

    def __getitem__(self, _key):
        raise AssertionError("a row was read")

    def __len__(self):
        return self.shape[0]


TABLE, TARGET = Untouchable(N, P), Untouchable(N)
GOOD = {"problem": logistic_problem(), "X": TABLE, "y": TARGET, "guarantee": Guarantee(1.0, 1e-6)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": Untouchable(N - 1)}, "rows"),
        ({"X": Untouchable(N)}, "two dimensions"),
        ({"X": Untouchable(N, P, 2)}, "two dimensions"),
        ({"y": Untouchable(N, 2)}, "one dimension"),
        ({"X": Untouchable(0, P), "y": Untouchable(0)}, "at least one row"),
        ({"X": Untouchable(N, 0)}, "at least one row"),
        ({"guarantee": None}, "guarantee"),
        ({"guarantee": (1.0, 1e-6)}, "guarantee"),
        ({"solver": "dp-magic"}, "solver"),
        ({"solver": 3}, "solver"),
        ({"adjacency": "neighbour"}, "adjacency"),
        ({"noise": "little"}, "noise"),
        ({"noise": 0.0}, "noise"),
        ({"accountant": "moments"}, "accountant"),
        ({"accountant": None}, "accountant"),
        ({"accountant": "advanced-composition", "noise": "paper"}, "certified noise"),
        ({"accountant": "advanced-composition", "noise": None, "guarantee": None}, "certified noise"),
        ({"accountant": "advanced-composition", "guarantee": Guarantee(50.0, 1e-6)}, "smaller epsilon"),
        ({"n": 0}, "n must be"),
        ({"n": N + 1}, "number of rows"),
        ({"random_state": "x"}, "random_state"),
        ({"weights": np.ones(3)}, "weights"),
        ({"problem": Problem(Logistic(), domain=Box((-1.0, -1.0), (1.0, 1.0)))}, "bounds"),
        ({"solver": DPGD(step_size=1e9)}, "step_size"),
    ],
)
def test_a_wrong_call_is_refused_before_a_row_is_read(change, message):
    arguments = {**GOOD, **change}
    with pytest.raises((InvalidParameterError, UnsupportedProblemError), match=message):
        minimize(arguments.pop("problem"), arguments.pop("X"), arguments.pop("y"), **arguments)


@pytest.mark.parametrize("parameter", ["epsilon", "delta", "row_norm"])
@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "1", None])
def test_estimators_refuse_wrong_numbers_before_a_row_is_read(parameter, bad):
    if (parameter, bad) in (("delta", 0), ("row_norm", None)):
        return  # pure ε, which is a promise; and the default
    for estimator in (PrivateLogisticRegression(classes=[0, 1]), PrivateLinearRegression(row_norm=1.0)):
        with pytest.raises(InvalidParameterError, match=parameter):
            estimator.set_params(**{parameter: bad}).plan(N, P)
        with pytest.raises(InvalidParameterError, match=parameter):
            estimator.fit(TABLE, TARGET)


@pytest.mark.parametrize(
    "wrong",
    [
        {"solver": "dp-magic"},
        {"adjacency": "neighbour"},
        {"noise": "little"},
        {"accountant": "moments"},
        {"penalty": "lasso"},
        {"domain": 3.0},
        {"n": -1},
        {"random_state": "x"},
    ],
    ids=str,
)
def test_estimators_refuse_wrong_words_before_a_row_is_read(wrong):
    for estimator in (PrivateLogisticRegression(classes=[0, 1]), PrivateLinearRegression(row_norm=1.0)):
        with pytest.raises(InvalidParameterError):
            estimator.set_params(**wrong).fit(TABLE, TARGET)


@pytest.mark.parametrize("bad", [0.1, 0.5, 1.0, 2.0])
def test_a_large_delta_is_refused_by_estimators(bad):
    with pytest.raises(InvalidParameterError, match="delta"):
        PrivateLogisticRegression(delta=bad).fit(TABLE, TARGET)


@pytest.mark.parametrize("classes", [[], ["only"], ["twice", "twice"], "ab"])
def test_a_wrong_list_of_classes_is_refused_before_a_row_is_read(classes):
    with pytest.raises(InvalidParameterError, match="classes"):
        PrivateLogisticRegression(classes=classes).fit(TABLE, TARGET)


def test_narrow_numpy_numbers_are_refused_as_parameters():
    """Sensitivities computed from them would be rounded to three digits, and the noise with them."""
    for kind in (np.float16, np.float32):
        for refused in (
            lambda k=kind: Guarantee(k(1.0), 1e-6),
            lambda k=kind: Problem(Logistic(), row_norm=k(1.0)),
            lambda k=kind: Problem(Logistic(), weight_bound=k(0.3)),
            lambda k=kind: L2Ball(k(1.0)),
            lambda k=kind: DPGD(step_size=k(0.1)),
        ):
            with pytest.raises(InvalidParameterError, match="plain number"):
                refused()
    assert Guarantee(np.float64(1.0), 1e-6) == Guarantee(1, 1e-6)


@pytest.mark.parametrize("size", [1e-200, 1e-101, 1e101, 1e200])
def test_row_norms_whose_squares_leave_the_floats_are_refused(size):
    with pytest.raises(InvalidParameterError, match="between"):
        Problem(Logistic(), row_norm=size)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-6), (1e-18, 1e-18), (1.0, 1e-61), (1.0, 1e-320)])
def test_promises_beyond_the_accountants_precision_are_refused(epsilon, delta):
    with pytest.raises(InvalidParameterError, match="at least"):
        Guarantee(epsilon, delta)


def test_planning_needs_no_table():
    statement = FitOptions(logistic_problem(), guarantee=Guarantee(1.0, 1e-6)).plan(10**6, 10**4).privacy
    assert statement.caveats == (Caveat.PLAN_ONLY,)


@pytest.mark.parametrize("row", hostile_rows(), ids=lambda row: row[0])
@pytest.mark.parametrize("problem", [logistic_problem(intercept=True), Problem(Logistic(), domain=L2Ball(2.0))])
def test_a_hostile_row_leaves_a_finite_answer_near_the_one_without_it(problem, row):
    """Same noise tape: the answers differ by at most what one row may do, added up over the steps."""
    table = base_table()
    solver = DPGD(n_steps=5)
    guarantee = Guarantee(1.0, 1e-6)
    before = minimize(problem, table.X, table.y, guarantee=guarantee, solver=solver, random_state=0)
    table.X[0], table.y[0] = row[1], row[2]
    after = minimize(problem, table.X, table.y, guarantee=guarantee, solver=solver, random_state=0)
    assert np.isfinite(after.w).all()
    assert after.privacy == before.privacy
    query = FitOptions(problem, guarantee=guarantee, solver=solver).plan(N, P).calibrated.plan.planned[0].query
    assert np.linalg.norm(after.w - before.w) <= 5 * query.step_size * query.sensitivity


def test_a_table_of_nothing_but_bad_rows_gives_noise_around_the_start():
    X = np.full((N, P), np.inf)
    release = minimize(logistic_problem(), X, np.ones(N), guarantee=Guarantee(1.0, 1e-6))
    assert np.isfinite(release.w).all()
    assert release.privacy.for_release
