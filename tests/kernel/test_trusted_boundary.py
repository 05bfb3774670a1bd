"""The trusted boundary: solvers cannot ask what is not planned, nor touch, stop on or print what was not released."""

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from contracts.solvers import SOLVER_EXAMPLES
from dperm import DivergedError, Guarantee, InvalidParameterError, PlanExceededError, Problem
from dperm.accounting.calibration import calibrate
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import DifferenceQuery, GradientQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency
from dperm.problem import Constants, L1Ball, Logistic, Sigmoid
from dperm.rows.arrays import ArraySource
from dperm.solvers import DPGD
from kernel.harness import (
    BlindOracle,
    BoundaryBreach,
    N,
    P,
    Tainted,
    TaintedOracle,
    base_table,
    logistic_problem,
    neighbours,
    reveal,
    setting_of,
)

GUARANTEE = Guarantee(1.0, 1e-6)


def run_watched(solver, table, problem=None, oracle_type=TaintedOracle, seed=0):
    """Run a solver against a watched oracle; return its answer and how often it asked."""
    problem = problem or logistic_problem()
    setting = setting_of(problem, Adjacency.REPLACE_ONE, n=len(table.y))
    calibrated = calibrate(solver.plan(setting, GUARANTEE), GUARANTEE)
    source = ArraySource(table.X, table.y)
    with oracle_type(source, problem, setting, calibrated, Randomness.from_random_state(seed)) as oracle:
        return solver.run(oracle, problem, calibrated.plan, problem.start(P)), oracle.asked


def check_solver(solver, problem=None, capsys=None, caplog=None):
    """The three rules: touch nothing unreleased, do the same on every table, print nothing."""
    table = base_table()
    run_watched(solver, table, problem)
    reference = run_watched(solver, table, problem, BlindOracle)
    for other in neighbours(table, Adjacency.REPLACE_ONE):
        answer, asked = run_watched(solver, other, problem, BlindOracle)
        if asked != reference[1] or not np.array_equal(answer, reference[0]):
            raise BoundaryBreach("the solver did something else on a neighbouring table")
    if capsys is not None:
        printed = capsys.readouterr()
        if printed.out or printed.err or caplog.records:
            raise BoundaryBreach("the solver printed something")


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize(
    "problem",
    [logistic_problem(), Problem(Sigmoid()), Problem(Logistic(), domain=L1Ball(2.0))],
    ids=["convex", "non-convex", "bounded"],
)
@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
def test_every_solver_stays_on_its_side(solver, problem, capsys, caplog):
    if solver.refusal(problem) is None and not (solver == DPGD(accounting="last-iterate") and not problem.loss.convex):
        caplog.set_level(logging.DEBUG, logger="dperm")
        check_solver(solver, problem, capsys, caplog)


class Cheat(DPGD):
    """Follows DP-GD's plan with every step accounted for, until it cheats."""

    def plan(self, setting, guarantee):
        return DPGD(n_steps=5, accounting="composition").plan(setting, guarantee)


class ReadsRows(Cheat):
    def run(self, oracle, problem, plan, start):
        return start + next(iter(oracle._sums.source._blocks(problem))).table.mean()


class UsesExactGradient(Cheat):
    def run(self, oracle, problem, plan, start):
        return start - oracle._sums.gradient(start)


class StopsOnTheExactGradient(Cheat):
    def run(self, oracle, problem, plan, start):
        for _ in range(5):
            start = start - oracle.ask(plan.planned[0], start)
            if np.linalg.norm(oracle._sums.gradient(start)) < 1e-3:
                break
        return start


class PrintsTheExactGradient(Cheat):
    def run(self, oracle, problem, plan, start):
        sys.stdout.write(f"{oracle._sums.gradient(start)}")
        return start


class PrintsAnything(Cheat):
    def run(self, oracle, problem, plan, start):
        sys.stdout.write("step 1 done\n")
        return start


class SmugglesThroughTheOracle(Cheat):
    """Opens the taint with the real class, as code that imports nothing could."""

    def run(self, oracle, problem, plan, start):
        asked = int(abs(next(reveal(oracle._sums).source._blocks(problem)).table[0, 0]) > 0.9) + 1
        for _ in range(asked):
            oracle.ask(plan.planned[0], start)
        return start


@pytest.mark.parametrize(
    "cheat",
    [
        ReadsRows,
        UsesExactGradient,
        StopsOnTheExactGradient,
        PrintsTheExactGradient,
        PrintsAnything,
        SmugglesThroughTheOracle,
    ],
)
def test_a_cheating_solver_is_caught(cheat, capsys, caplog):
    with pytest.raises(BoundaryBreach):
        check_solver(cheat(), None, capsys, caplog)


@pytest.mark.parametrize(
    "touch",
    [float, int, bool, str, repr, len, list, np.asarray, np.sum, abs, hash, lambda v: v + 1, lambda v: v > 0,
     lambda v: f"{v}", lambda v: v[0], lambda v: np.ones(2) * v, lambda v: v.copy(), lambda v: v == v],
)  # fmt: skip
def test_tainted_values_cannot_be_touched(touch):
    with pytest.raises(BoundaryBreach):
        touch(Tainted(np.ones(3)))


def open_oracle(count, rate=1.0, problem=None):
    problem = problem or logistic_problem()
    setting = setting_of(problem, Adjacency.REPLACE_ONE)
    query = GradientQuery(setting, rate)
    item = PlannedQuery(query, count)
    plan = Plan("test", (item,), {})
    table = base_table()
    source = ArraySource(table.X, table.y)
    return Oracle(source, problem, setting, CalibratedPlan(plan, 5.0), Randomness.from_random_state(0)), item


def test_the_query_that_would_exceed_the_plan_is_never_answered():
    oracle, item = open_oracle(3)
    with oracle:
        for _ in range(3):
            oracle.ask(item, np.zeros(P))
        with pytest.raises(PlanExceededError):
            oracle.ask(item, np.zeros(P))


def test_a_query_that_was_not_planned_is_refused():
    oracle, item = open_oracle(3)
    with oracle, pytest.raises(PlanExceededError):
        oracle.ask(PlannedQuery(GradientQuery(item.query.setting, 0.5), 3), np.zeros(P))


def test_a_query_on_understated_bounds_is_refused():
    """A solver that declares a tenth of the sensitivity would get a tenth of the noise: the oracle compares."""
    problem = logistic_problem()
    honest = setting_of(problem, Adjacency.REPLACE_ONE)
    values = {name: getattr(honest.constants, name) for name in Constants.__dataclass_fields__}
    lying = Setting(Constants(**{**values, "lipschitz": 0.1}), N, Adjacency.REPLACE_ONE)
    calibrated = CalibratedPlan(Plan("test", (PlannedQuery(GradientQuery(lying)),), {}), 5.0)
    table = base_table()
    source = ArraySource(table.X, table.y)
    with pytest.raises(PlanExceededError, match="bounds"):
        Oracle(source, problem, honest, calibrated, Randomness.from_random_state(0))


def test_a_question_that_fails_is_charged_all_the_same():
    oracle, item = open_oracle(2)
    with oracle:
        with pytest.raises(DivergedError, match="diverged"):
            oracle.ask(item, np.full(P, np.nan))
        oracle.ask(item, np.zeros(P))
        with pytest.raises(PlanExceededError):
            oracle.ask(item, np.zeros(P))


@pytest.mark.parametrize(
    ("points", "more", "words"),
    [
        ([], {}, "takes 1 point"),
        ([np.zeros(P)] * 2, {}, "takes 1 point"),
        ([np.zeros(P)], {"step_size": 1.0}, "only printed epochs"),
        ([np.zeros(P + 1)], {}, "problem's dimension"),
        ([np.zeros((1, P))], {}, "problem's dimension"),
        ([0.0], {}, "problem's dimension"),
        ([["a"] * P], {}, "must be a vector"),
        ([None], {}, "problem's dimension"),
    ],
    ids=str,
)
def test_a_question_that_does_not_fit_the_query_is_refused_in_one_sentence(points, more, words):
    oracle, item = open_oracle(1)
    with oracle, pytest.raises(InvalidParameterError, match=words):
        oracle.ask(item, *points, **more)


@pytest.mark.parametrize(
    ("w", "anchor"),
    [
        (np.float32([0.1, 0.2, 0.3, 0.4, 0.5]), np.float32([0.3, 0.1, 0.0, 0.2, 0.7])),
        (np.int8([127, 1, 0, 3, 2]), np.int8([-128, 1, 0, 3, 2])),  # their difference would be −1
        ([1, 2, 3, 4, 5], [0.5, 2.0, 3.0, 4.0, 5.0]),
    ],
    ids=["float32", "int8", "lists"],
)
def test_points_of_every_kind_of_number_get_the_answer_of_their_float64_values(w, anchor):
    problem, table = logistic_problem(), base_table()
    source = ArraySource(table.X, table.y)
    item = PlannedQuery(DifferenceQuery(setting_of(problem, Adjacency.REPLACE_ONE), 0.5))
    calibrated = CalibratedPlan(Plan("test", (item,), {}), 5.0)

    def answer(*points):
        with Oracle(source, problem, item.query.setting, calibrated, Randomness.from_random_state(0)) as oracle:
            return oracle.ask(item, *points)

    np.testing.assert_array_equal(answer(w, anchor), answer(np.float64(w), np.float64(anchor)))


def test_solvers_and_problems_do_not_import_the_trusted_side():
    root = Path(__file__).parents[2]
    command = [Path(sys.executable).parent / "lint-imports", "--no-logo"]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_the_import_contract_would_notice_a_breach(tmp_path):
    """The same contract on a copy in which a solver imports the kernels fails."""
    import shutil

    root = Path(__file__).parents[2]
    shutil.copytree(root / "src" / "dperm", tmp_path / "dperm", ignore=shutil.ignore_patterns("*.npz", "__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)
    solver = tmp_path / "dperm" / "solvers" / "descent" / "dp_gd.py"
    solver.write_text("from dperm.kernel.block import Block\n" + solver.read_text())
    result = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--no-logo"],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path), "PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert "dperm.solvers.descent.dp_gd -> dperm.kernel.block" in result.stdout
