"""Objective perturbations of one column whose exact law is known, and what two tables show of it.

In one dimension, in the scale of sums, ŵ ≤ w exactly if b ≥ −g(w), g(w) = Σ ℓ'(w x_i, y_i) x_i + Λw. So the
probability of every interval, and of every atom, is a difference of two values of the noise's distribution function.
Any partition into such cells gives Σ (P − e^ε Q)₊ ≤ δ(ε): a lower bound on the true δ without any error of integration,
which no certified δ may be below. Losses, rows and Λ are written out again here: nothing comes from the code under test
but the noise that it adds and the δ that it certifies.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import ndtr

from dperm import Problem
from dperm.accounting.composition import delta_of
from dperm.accounting.events import Pure
from dperm.accounting.events.objective_perturbation import TangentCurve
from dperm.kernel.noise import Randomness
from dperm.mechanisms import ObjectivePerturbationQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Huber, Logistic, SmoothedHinge, WholeSpace
from dperm.rows.arrays import ArraySource
from kernel.harness import RecordingOracle, setting_of

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ADJACENCIES = [ADD, REPLACE]

SMOOTHING, THRESHOLD, TARGETS = 0.5, 1.0, 10.0


@dataclass(frozen=True)
class Known:
    """A loss, with ℓ', ℓ'' and their suprema by hand."""

    loss: object
    slope: object
    curvature: object
    largest_curvature: float
    targets: tuple

    def __repr__(self):
        return self.loss.name


def sigmoid(t):
    return 1.0 / (1.0 + np.exp(-np.clip(t, -700.0, 700.0)))


LOGISTIC = Known(
    Logistic(), lambda m, y: -y * sigmoid(-y * m), lambda m, y: sigmoid(m) * sigmoid(-m), 0.25, (-1.0, 1.0)
)
HINGE = Known(
    SmoothedHinge(SMOOTHING),
    lambda m, y: -y * np.clip((1.0 - y * m) / SMOOTHING, 0.0, 1.0),
    lambda m, y: np.where((1.0 - y * m > 0.0) & (1.0 - y * m < SMOOTHING), 1.0 / SMOOTHING, 0.0),
    1.0 / SMOOTHING,
    (-1.0, 1.0),
)
HUBER = Known(
    Huber(THRESHOLD, TARGETS),
    lambda m, y: np.clip(m - y, -THRESHOLD, THRESHOLD),
    lambda m, y: np.where(np.abs(m - y) < THRESHOLD, 1.0, 0.0),
    1.0,
    (-TARGETS, -1.0, 0.0, 0.5, TARGETS),
)
KNOWN = [LOGISTIC, HINGE, HUBER]
# All three have |ℓ'| ≤ 1, so G = R.


@dataclass(frozen=True)
class Mechanism:
    """What the code would run on one column: the noise on b, the total ridge in the scale of sums, its event."""

    known: Known
    row_norm: float
    scale: float
    ridge: float
    event: object
    adjacency: Adjacency

    def certified_delta(self, epsilon):
        return delta_of(self.event, epsilon, self.adjacency)

    @property
    def cdf(self):
        """The noise's distribution function on the left of 0 and, mirrored, on the right."""
        return half_laplace if isinstance(self.event.events[0].event, Pure) else ndtr

    def delta_with(self, epsilon, noise=1.0, **changes):
        """δ(ε) if some constants were different."""
        leaf = self.event.events[0].event
        leaf = replace(leaf, noise_multiplier=noise * leaf.noise_multiplier, **changes)
        return TangentCurve(leaf, self.adjacency).delta(epsilon)


def mechanism(
    known, adjacency, row_norm=1.0, mu=1.0, curvature=0.1, *, distribution="Gaussian", regularizer=None, domain=None
):
    """Noise of scale G/mu on b and β/Λ = `curvature`; half of the ridge is the problem's own if nothing else is.

    The remainder is so small that it may be neglected: the law is that of the exact minimiser.
    """
    n, ridge = 4, known.largest_curvature * row_norm**2 / curvature
    problem = Problem(known.loss, regularizer or L2(0.5 * ridge / n), domain or WholeSpace(), row_norm=row_norm)
    added = (1.0 if regularizer else 0.5) * ridge / n
    query = ObjectivePerturbationQuery(setting_of(problem, adjacency, n, 1), added, 1e-6, 1e-13, distribution)
    calibrated = calibrated_plan(query, 1.0 / (mu * moved_by(adjacency)))
    # What b is drawn with is read off the plan; that the oracle draws b so is tested in test_objective_answers.py.
    return Mechanism(
        known, row_norm, calibrated.sigma(calibrated.plan.planned[0]), ridge, calibrated.event(), adjacency
    )


def calibrated_plan(query, multiplier):
    return CalibratedPlan(Plan("test", (PlannedQuery(query),), {}), multiplier)


def moved_by(adjacency):
    return {ADD: 1.0, REPLACE: 2.0}[adjacency]


def places(run, n_rows):
    """Where to cut: over all that the noise reaches, and finely where the losses bend."""
    reach = (12.0 * run.scale + n_rows * run.row_norm) / run.ridge
    bends = np.linspace(-3.0, 3.0, 1501) / run.row_norm
    far = [bends + sign * TARGETS / run.row_norm for sign in (1.0, -1.0) if run.known is HUBER]
    w = np.concatenate([np.linspace(-reach, reach, 3001), bends, *far])
    # No cell so thin that rounding would be seen in its probability.
    quantum = 1e-7 * min(reach, 1.0 / run.row_norm)
    return np.unique(np.round(w[np.abs(w) <= reach] / quantum)) * quantum


def path(run, rows, w, lasso=0.0):
    """g(w) from the left to the right; an l1 penalty jumps at 0, which must be in `w`."""
    smooth = run.ridge * w + sum((x * run.known.slope(x * w, y) for x, y in rows), np.zeros(w.size))
    if lasso == 0.0:
        return smooth
    return np.concatenate([smooth[w <= 0.0] - lasso, smooth[w >= 0.0] + lasso])


def half_laplace(z):
    return np.where(z < 0.0, 0.5 * np.exp(np.minimum(z, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(z, 0.0)))


def cells(run, g):
    """Probabilities that the noise lies between neighbouring values of g, precise in both tails."""
    z = np.concatenate([[-np.inf], g / run.scale, [np.inf]])
    right = z[:-1] > 0.0
    low, high = np.where(right, -z[1:], z[:-1]), np.where(right, -z[:-1], z[1:])
    return run.cdf(high) - run.cdf(low)


def audited(run, one, two, epsilons, cut=None, lasso=0.0):
    """A lower bound on δ(ε) between two tables, for every ε."""
    w = places(run, max(len(one), len(two))) if cut is None else cut
    p, q = (cells(run, path(run, rows, w, lasso)) for rows in (one, two))
    assert p.sum() == pytest.approx(1.0)
    assert min(p.min(), q.min()) >= 0.0
    return np.array([np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for epsilon in epsilons])


def largest_log_ratio(run, one, two):
    """The largest ln(p/q) of the answer's densities, for b of density ∝ exp(−|b|/scale)."""
    w = places(run, max(len(one), len(two)))
    g, h = path(run, one, w), path(run, two, w)
    slopes = [run.ridge + sum(x**2 * run.known.curvature(x * w, y) for x, y in rows) for rows in (one, two)]
    return ((np.abs(h) - np.abs(g)) / run.scale + np.log(slopes[0] / slopes[1])).max()


def pairs_of(known, adjacency, row_norm, rng, count):
    """Small adversarial tables: up to three common rows, and one that comes, goes or turns round."""
    for _ in range(count):
        common = [a_row(known, row_norm, rng) for _ in range(rng.integers(4))]
        x, y = a_row(known, row_norm, rng)
        others = [(-x, y), (0.0, y), a_row(known, row_norm, rng)]
        one, two = [*common, (x, y)], [*common, others[rng.integers(3)]] if adjacency is REPLACE else common
        yield one, two
        yield two, one


def a_row(known, row_norm, rng):
    x = rng.choice([-1.0, 1.0]) if rng.random() < 0.7 else rng.uniform(-1.0, 1.0)
    return row_norm * x, rng.choice(known.targets)


def ask(problem, table, query, multiplier=1.0, seed=5, as_rows=np.asarray):
    calibrated = calibrated_plan(query, multiplier)
    rows = ArraySource(as_rows(table.X), table.y, table.weights)
    with RecordingOracle(rows, problem, query.setting, calibrated, Randomness.from_random_state(seed)) as oracle:
        oracle.answer = oracle.ask(calibrated.plan.planned[0], problem.start(table.X.shape[1]))
    return oracle
