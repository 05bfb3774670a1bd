"""Privacy costs against their definitions: the last iterate, the determinant's tangents, shrinkage."""

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import ndtr

from dperm import Guarantee, Problem
from dperm.accounting.calibration import calibrate
from dperm.accounting.composition import delta_of
from dperm.accounting.last_iterate import last_iterate_amplification
from dperm.mechanisms import HessianQuery, LastIterateQuery, ObjectivePerturbationQuery
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, L2Ball, Logistic
from dperm.solvers import DPNewton, DPObjective
from kernel.harness import N, P, setting_of

ADJACENCIES = list(Adjacency)


def distinguished(n_steps, contraction, distance):
    """How many standard deviations two runs end apart that start `distance` apart, step by step.

    A step adds 1 to their distance and noise of variance 1; then the proximal step contracts both. Nothing but means
    and variances of Gaussians, so it is exact for a table whose gradients are constant.
    """
    gap, variance = distance, 0.0
    for _ in range(n_steps):
        gap, variance = contraction * (gap + 1.0), contraction**2 * (variance + 1.0)
    return gap / math.sqrt(variance)


def least_cost(n_steps, contraction, diameter):
    """The least over where the past is forgotten: t steps before the end, or never, both runs having one start."""
    forgotten = (distinguished(t, contraction, diameter) for t in range(1, n_steps))
    return min([distinguished(n_steps, contraction, 0.0), *forgotten])


@pytest.mark.parametrize("contraction", [0.3, 0.8, 0.97, 1.0])
@pytest.mark.parametrize("diameter", [0.5, 3.0, 40.0])
@pytest.mark.parametrize("n_steps", [2, 3, 30, 300])
def test_the_last_iterate_costs_as_much_as_gaussians_a_diameter_apart(n_steps, diameter, contraction):
    bound = last_iterate_amplification(n_steps, contraction, diameter)
    wanted = min(least_cost(n_steps, contraction, diameter), math.sqrt(n_steps))
    assert bound == pytest.approx(wanted, rel=1e-9)
    assert bound >= wanted * (1.0 - 1e-15)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("radius", "strength", "step_size"), [(0.5, 0.001, 4.0), (0.05, 0.02, 4.0), (2.0, 0.5, 1.0)])
def test_the_cost_of_a_descent_counts_the_diameter_in_steps_of_what_one_row_moves(
    radius, strength, step_size, adjacency
):
    problem = Problem(Logistic(), L2(strength), L2Ball(radius))
    query = LastIterateQuery(setting_of(problem, adjacency), 400, step_size)
    moved = step_size * query.setting.domain_sensitivity / N
    wanted = least_cost(400, 1.0 / (1.0 + step_size * strength), 2.0 * radius / moved)
    assert query.amplification(3.0) == pytest.approx(wanted, rel=1e-9)
    assert query.event(3.0).noise_multiplier == pytest.approx(3.0 * adjacency.records_moved / wanted, rel=1e-9)


def least_tail(losses, ratio, share, mu, adjacency):
    """P(privacy loss > m) of theorem 4: the least over all lines above the determinant's cost ln(1 + 4(β/Λ)t(1 − t)).

    A line is what the row's slope t, between 0 and its share, may cost: its ends are `flat` and `steep`.
    """
    t = np.linspace(0.0, share, 801)
    cost = np.log1p(ratio * t * (1.0 - t))
    least = np.ones(losses.size)
    for steepness in np.linspace(-1.0, 1.0, 401) * ratio:
        flat = float((cost - steepness * t).max())  # the lowest line of this steepness
        steep = flat + steepness * share
        with np.errstate(over="ignore"):
            tails = {
                (cost_of, shift): ndtr(0.5 * shift - (losses - cost_of) / shift)
                for cost_of, shift in ((steep, mu), (steep, 2.0 * mu), (flat, mu))
            }
        bound = tails[steep, mu]
        if adjacency is Adjacency.REPLACE_ONE:
            bound = bound + tails[steep, 2.0 * mu] + tails[flat, mu]
        least = np.where(losses >= max(flat, 0.0), np.minimum(least, bound), least)
    return least


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("share", [0.55, 0.8, 1.0])
@pytest.mark.parametrize("ratio", [0.3, 2.0])
def test_the_determinant_of_a_sigmoidal_loss_costs_what_its_best_tangents_cost(ratio, share, adjacency):
    """δ(ε) lies at or above what the best lines give, by no more than the grid's rounding and 32 tangents explain."""
    problem = Problem(Logistic())
    setting = setting_of(problem, adjacency)
    total = 4.0 * setting.constants.smoothness / (setting.n * ratio)  # so that 4β/(nΛ) is the ratio
    query = ObjectivePerturbationQuery(setting, total, 1e-6, 1e-9, "Gaussian", share)
    multiplier = 2.0  # of the sensitivity, which the records that move and the share are in
    mu = 1.0 / (multiplier * adjacency.records_moved)
    losses = np.linspace(0.0, 12.0, 6_001)
    tail = least_tail(losses, ratio, share, mu, adjacency)
    for epsilon in (0.2, 0.6, 1.2):
        beyond = losses >= epsilon
        wanted = trapezoid(np.exp(epsilon - losses[beyond]) * tail[beyond], losses[beyond])
        given = delta_of(query.event(multiplier), epsilon, adjacency)
        assert given >= wanted * (1.0 - 1e-3)  # the trapezoids'
        assert given <= wanted * 1.1


class ScriptedAnswers:
    """Answers every question with the gradient, Hessian or minimiser of ½h‖w − least‖², whatever the rows."""

    def __init__(self, least, curvature=1.0):
        self.least, self.curvature = least, curvature
        self.public_coin = np.random.default_rng(0)

    def ask(self, item, w, step_size=None):
        if isinstance(item.query, ObjectivePerturbationQuery):
            return self.least.copy()
        if isinstance(item.query, HessianQuery):
            return self.curvature * np.eye(w.size)
        return self.curvature * (w - self.least)


def planned(solver, problem, n_features):
    setting = setting_of(problem, Adjacency.REPLACE_ONE, n=20_000, n_features=n_features)
    return calibrate(solver.plan(setting, Guarantee(1.0, 1e-6)), Guarantee(1.0, 1e-6)).plan


@pytest.mark.parametrize("n_stages", [1, 2])
def test_a_minimiser_shorter_than_its_noise_is_shrunk_to_zero_and_never_turned_around(n_stages):
    solver, problem, direction = DPObjective(n_stages=n_stages), Problem(Logistic()), np.eye(P)[1]
    plan = planned(solver, problem, P)
    lengths = np.geomspace(1e-6, 1e6, 49)
    answers = [solver.run(ScriptedAnswers(length * direction), problem, plan, np.zeros(P)) for length in lengths]
    kept = np.array(answers) @ direction / lengths
    assert (kept[:10] == 0.0).all()
    assert (np.diff(kept) >= -1e-12).all()
    assert kept[-1] == pytest.approx(1.0, rel=1e-6)
    # In between it keeps 1 − (noise/length)² of it: the same noise wherever it is read off.
    inside = (kept > 0.01) & (kept < 0.99)
    noise = lengths[inside] * np.sqrt(1.0 - kept[inside])
    assert inside.sum() >= 3
    np.testing.assert_allclose(noise, noise[0], rtol=1e-9)


@pytest.mark.parametrize("ratio", [0.01, 0.3, 0.7, 1.5, 2.0, 3.0, 10.0])
def test_newton_steps_are_shrunk_by_what_their_noise_explains(ratio):
    """Numbers of mean square s² seen with noise of variance v are worth 1 − v/s² of what they seem, or nothing.

    The last gradient has three quarters of all the precision, so that v is ¾ of its own variance, over h².
    """
    solver, problem, curvature = DPNewton(), Problem(Logistic()), 0.2
    plan = planned(solver, problem, 8)
    last = plan.planned[-1]
    noise = last.relative_noise * last.query.sensitivity / curvature
    seen = ratio * noise * np.linspace(-1.0, 1.0, 8) / np.sqrt((np.linspace(-1.0, 1.0, 8) ** 2).mean())
    found = solver.run(ScriptedAnswers(seen, curvature), problem, plan, np.zeros(8))
    kept = float(found @ seen / (seen @ seen))
    assert kept == pytest.approx(max(0.0, 1.0 - 0.75 / ratio**2), abs=0.02)
