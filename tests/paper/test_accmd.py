"""Algorithm 3 as the paper writes it leaks the exact gradient; DP-AccMD, with one noisy gradient, does not."""

import numpy as np
import pytest

from dperm import Guarantee, Problem
from dperm.accounting.calibration import calibrate
from dperm.kernel.noise import Randomness
from dperm.privacy.guarantee import Adjacency
from dperm.problem import Box, GroupBall, L1Ball, L2Ball, Logistic, Simplex
from dperm.rows.arrays import ArraySource
from dperm.solvers import DPAccMD
from kernel.harness import (
    BlindOracle,
    BoundaryBreach,
    P,
    RecordingOracle,
    TaintedOracle,
    base_table,
    neighbours,
    setting_of,
)
from kernel.test_trusted_boundary import run_watched

GUARANTEE = Guarantee(1.0, 1e-6)


class LiteralAccMD(DPAccMD):
    """Algorithm 3 to the letter: the line for y_{k+1} has ∇F(x_{k+1}), only the line for z_{k+1} has b_{k+1}."""

    def run(self, oracle, problem, plan, start):
        domain, item, smoothness = problem.domain, plan.planned[0], plan.settings.smoothness
        y = z = domain.centre(start.size)
        for k in range(plan.settings.n_steps):
            alpha = (k + 2) / (4 * smoothness)
            r = 1 / (2 * alpha * smoothness)
            x = r * z + (1 - r) * y
            exact = oracle._sums.gradient(domain.coefficients(x)) / oracle._setting.n
            noisy = oracle.ask(item, domain.coefficients(x))
            y = domain.descent_step(x, domain.pull_back(exact), smoothness, x)
            z = domain.mirror_step(z, alpha * domain.pull_back(noisy))
        return domain.coefficients(y)


def sigma_at(calibrated, w):
    """The calibrated noise, at this point."""
    item = calibrated.plan.planned[0]
    return calibrated.sigma(item, item.query.sensitivity_at(w))


def outputs(solver, problem, table, seeds=20):
    """What leaves, over many draws of the noise."""
    setting = setting_of(problem, Adjacency.REPLACE_ONE)
    calibrated = calibrate(solver.plan(setting, GUARANTEE), GUARANTEE)
    rows = ArraySource(table.X, table.y)
    answers = []

    class Watched(RecordingOracle):
        def ask(self, item, *points):
            answer = super().ask(item, *points)
            assert self.sigmas[-1] == sigma_at(calibrated, *points)
            return answer

    for seed in range(seeds):
        with Watched(rows, problem, setting, calibrated, Randomness.from_random_state(seed)) as oracle:
            answers.append(solver.run(oracle, problem, calibrated.plan, problem.start(P)))
        assert len(oracle.sigmas) == calibrated.plan.n_steps
    return np.array(answers)


@pytest.mark.parametrize("domain", [L1Ball(2.0), L2Ball(2.0), Simplex()], ids=repr)
def test_the_literal_algorithm_tells_neighbours_apart_whatever_the_noise(domain):
    """One step: y_1 is the same for every noise draw and differs between the tables, so one look decides."""
    problem = Problem(Logistic(), domain=domain)
    table = base_table()
    other = next(one for one in neighbours(table, Adjacency.REPLACE_ONE) if one.name == "wrong label")
    literal = LiteralAccMD(n_steps=1)
    here, there = outputs(literal, problem, table), outputs(literal, problem, other)
    assert (here == here[0]).all()
    assert (there == there[0]).all()
    # Distinguishing advantage 1, where the calibrated plan promises (1, 1e-6).
    assert not np.array_equal(here[0], there[0])
    assert np.abs(here[0] - there[0]).max() > 1e-5
    # With more steps noise comes in through x_{k+1}; the corrected loop has it from the first step on.
    corrected = outputs(DPAccMD(n_steps=1), problem, table)
    assert all(not np.array_equal(corrected[0], one) for one in corrected[1:])


def test_the_wall_catches_the_literal_algorithm():
    problem = Problem(Logistic(), domain=L2Ball(2.0))
    with pytest.raises(BoundaryBreach):
        run_watched(LiteralAccMD(n_steps=3), base_table(), problem, TaintedOracle)


DOMAINS = [Box(-0.5, 2.0), GroupBall(2.0, ((0, 3), (1, 2, 4))), L1Ball(2.0), L2Ball(2.0), Simplex(3.0)]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_the_corrected_algorithm_does_the_same_on_every_neighbour(domain):
    problem = Problem(Logistic(), domain=domain)
    table, solver = base_table(), DPAccMD()
    run_watched(solver, table, problem, TaintedOracle)
    answer, asked = run_watched(solver, table, problem, BlindOracle)
    assert asked == solver.plan(setting_of(problem, Adjacency.REPLACE_ONE), GUARANTEE).n_steps
    for other in neighbours(table, Adjacency.REPLACE_ONE):
        again, asked_again = run_watched(solver, other, problem, BlindOracle)
        np.testing.assert_array_equal(again, answer)
        assert asked_again == asked


@pytest.mark.parametrize("n_steps", [1, 7])
def test_the_noise_that_enters_is_the_noise_that_was_paid_for(n_steps):
    """Answers minus exact gradients, over many runs, have the planned standard deviation."""
    problem = Problem(Logistic(), domain=L1Ball(2.0))
    table, solver = base_table(), DPAccMD(n_steps=n_steps)
    setting = setting_of(problem, Adjacency.REPLACE_ONE)
    calibrated = calibrate(solver.plan(setting, GUARANTEE), GUARANTEE)
    rows = ArraySource(table.X, table.y)
    noises = []

    class Watched(RecordingOracle):
        def ask(self, item, *points):
            answer = super().ask(item, *points)
            noises.append((answer - self.exact[-1]) / sigma_at(calibrated, *points))
            return answer

    for seed in range(400):
        with Watched(rows, problem, setting, calibrated, Randomness.from_random_state(seed)) as oracle:
            solver.run(oracle, problem, calibrated.plan, problem.start(P))
    assert len(noises) == 400 * n_steps
    # The sample deviation of N normals is off by 1/√(2N) relatively; five of those.
    assert np.std(noises) == pytest.approx(1.0, rel=5.0 / np.sqrt(2.0 * np.size(noises)))
