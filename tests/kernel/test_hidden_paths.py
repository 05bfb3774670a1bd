"""Steps that stay inside the trusted boundary: rounding moves them by no more than the sensitivity allows for."""

import numpy as np
import pytest

from contracts.discovered import examples
from dperm import Problem
from dperm.errors import InvalidParameterError
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import DescentOutputQuery, LastIterateQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.setting import HiddenPath
from dperm.privacy.guarantee import Adjacency
from dperm.problem import Logistic
from dperm.problem.domains import Domain, GroupBall
from dperm.problem.regularizers import L2, Regularizer
from dperm.rows.arrays import ArraySource
from kernel.harness import base_table, setting_of

N, P = 60, 6


def pairs():
    for regularizer in examples(Regularizer):
        for domain in examples(Domain):
            # Groups are summed by a function of numpy that knows float64 only.
            if not isinstance(domain, GroupBall):
                problem = Problem(Logistic(), regularizer, domain)
                if problem.constants(P).exact_prox:
                    yield problem


def step(problem, X, y, w, step_size, kind):
    """One step with all numbers of this type: a number with eleven more bits stands for the exact one."""
    X, y, w = (np.asarray(given, dtype=kind) for given in (X, y, w))
    with np.errstate(over="ignore"):
        slopes = -y / (1 + np.exp(y * (X @ w)))
    return problem.prox(w - kind(step_size) * (slopes @ X / N), kind(step_size))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="this machine has no longer float to compare with")
@pytest.mark.parametrize("problem", [*pairs()], ids=lambda problem: f"{problem.regularizer.name} {problem.domain.name}")
def test_a_computed_step_is_within_its_bound_of_the_exact_one(problem):
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 1e3):
        setting = setting_of(problem, Adjacency.REPLACE_ONE, N, P)
        step_size, n_steps = 1.0 / setting.smoothness, 1000
        path = HiddenPath(setting, n_steps, step_size, noise=0.0)
        X = rng.normal(size=(N, P))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = np.sign(rng.normal(size=N))
        start = problem.domain.project(rng.normal(size=P) * scale)
        start *= min(1.0, path.longest_start / np.linalg.norm(start))
        rounded, exact = (step(problem, X, y, start, step_size, kind) for kind in (np.float64, np.longdouble))
        assert float(np.linalg.norm(rounded - exact)) <= 0.5 * step_size * path.rounding


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_rounding_is_part_of_what_a_descent_moves_and_costs(adjacency):
    setting = setting_of(Problem(Logistic(), L2(0.1)), adjacency, N, P)
    query, noisy = DescentOutputQuery(setting, 50, 0.5), LastIterateQuery(setting, 50, 0.5)
    c = 1.0 / 1.05
    geometric = c * (1 - c**50) / (1 - c)
    rounding = HiddenPath(setting, 50, 0.5).rounding
    # Without it the number would be smaller, by less than what is left out here of the sum's own padding.
    wanted = 0.5 * geometric * (setting.sum_sensitivity / N + rounding)
    assert query.sensitivity == pytest.approx(wanted, rel=1e-14 + 1e-12)
    assert query.sensitivity > 0.5 * geometric * setting.sum_sensitivity / N * (
        1.0 + 0.9 * rounding * N / setting.sum_sensitivity
    )
    # More noise makes longer steps, and these are rounded more.
    costs = [noisy.amplification(multiplier) for multiplier in (1.0, 1e6, 1e9)]
    assert costs[0] < costs[1] < costs[2]


def test_rounding_grows_with_everything_that_is_rounded():
    setting = setting_of(Problem(Logistic()), Adjacency.ADD_REMOVE, N, P)
    plain = HiddenPath(setting, 100, 0.1).rounding
    assert HiddenPath(setting, 10_000, 0.1).rounding > 5 * plain  # an unbounded domain: longer iterates
    assert HiddenPath(setting, 100, 0.1, noise=100.0).rounding > 5 * plain
    wide = setting_of(Problem(Logistic()), Adjacency.ADD_REMOVE, N, 100 * P)
    assert HiddenPath(wide, 100, 0.1).rounding > 5 * plain
    assert 0.0 < plain < 1e-10


@pytest.mark.parametrize("kind", [DescentOutputQuery, LastIterateQuery])
def test_a_hidden_path_does_not_begin_further_away_than_it_can_get(kind):
    problem = Problem(Logistic(), L2(0.1))
    setting = setting_of(problem, Adjacency.REPLACE_ONE)
    item = PlannedQuery(kind(setting, 5, 0.5), 2)
    table, calibrated = base_table(), CalibratedPlan(Plan("test", (item,), {}), 2.0)
    source = ArraySource(table.X, table.y)
    with Oracle(source, problem, setting, calibrated, Randomness.from_random_state(0)) as oracle:
        assert np.isfinite(oracle.ask(item, np.zeros(5))).all()
        with pytest.raises(InvalidParameterError, match="near 0"):
            oracle.ask(item, np.full(5, 1e30))
