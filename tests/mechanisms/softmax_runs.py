"""Softmax objective perturbations of one column whose exact law is known, and what two tables show of it.

With one column and K = 3, W has three numbers, and its part that sums to 0 over the classes is a point of a plane, with
the density N(b; σ²)·det at b = −(Σ ∇f + ΛW). What two tables show is ∫ (p − e^ε q)₊, a sum over a fine grid of b, for
each of which W is solved for. Losses, Hessians and Λ are written out again here: nothing comes from the code under
test but the noise that it adds and the δ that it certifies. The rest of W is the same noise whatever the rows.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dperm import Problem
from dperm.accounting.composition import delta_of
from dperm.mechanisms import ObjectivePerturbationQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Softmax
from mechanisms.objective_runs import calibrated_plan, moved_by

K = 3
# An orthonormal basis of the plane.
PLANE = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]) / np.sqrt([[2.0], [6.0]])


@dataclass(frozen=True)
class Mechanism:
    """What the code would run on one column: the noise on b, the total ridge in the scale of sums, its event."""

    row_norm: float
    cut: float
    scale: float
    ridge: float
    event: object
    adjacency: Adjacency

    def certified_delta(self, epsilon):
        return delta_of(self.event, epsilon, self.adjacency)

    def delta_with(self, epsilon, noise=1.0, **changes):
        """δ(ε) if some constants were different."""
        leaf = self.event.events[0].event
        leaf = replace(leaf, noise_multiplier=noise * leaf.noise_multiplier, **changes)
        return leaf.curve(self.adjacency).delta(epsilon)

    @property
    def cost(self):
        return self.event.events[0].event.log_jacobian


def mechanism(adjacency, row_norm=1.0, mu=1.0, ridge=1.0, cut=1.0, unit=None):
    """Noise of scale G/mu on b and a ridge of R² times `ridge`, half of it the problem's own."""
    n, ridge = 4, ridge * row_norm**2
    problem = Problem(Softmax(K), L2(0.5 * ridge / n), row_norm=row_norm)
    setting = Setting(problem.constants(1), n, adjacency, unit)
    query = ObjectivePerturbationQuery(setting, 0.5 * ridge / n, 1e-6 * row_norm, 1e-13, "Gaussian", cut)
    calibrated = calibrated_plan(query, 1.0 / (mu * moved_by(adjacency)))
    scale = calibrated.sigma(calibrated.plan.planned[0])
    assert scale == pytest.approx(math.sqrt(2.0) * cut * row_norm / mu, rel=1e-9)
    return Mechanism(row_norm, cut, scale, ridge, calibrated.event(), adjacency)


def sums(run, rows, points):
    """Gradient and Hessian of the objective, without b, at points of the plane; rows are (x, class, weight)."""
    W = points @ PLANE
    gradient, hessian = run.ridge * W, np.broadcast_to(run.ridge * np.eye(K), (len(points), K, K)).copy()
    for x, y, times in rows:
        margins = x * W
        p = np.exp(margins - margins.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        wrong = np.delete(np.arange(K), y)
        s = np.zeros_like(p)
        s[:, wrong] = np.exp(margins[:, wrong] - margins[:, wrong].max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        cut = p[:, wrong].sum(axis=1) > run.cut
        bend = p[:, :, None] * np.eye(K) - p[:, :, None] * p[:, None, :]
        cut_bend = run.cut * (s[:, :, None] * np.eye(K) - s[:, :, None] * s[:, None, :])
        gradient = gradient + times * x * np.where(cut[:, None], run.cut * s, p)
        gradient[:, y] -= times * x * np.where(cut, run.cut, 1.0)
        hessian = hessian + times * x**2 * np.where(cut[:, None, None], cut_bend, bend)
    return gradient @ PLANE.T, PLANE @ hessian @ PLANE.T


def log_density(run, rows, points):
    """Of the part of W in the plane."""
    gradient, hessian = sums(run, rows, points)
    return np.log(np.linalg.det(hessian) / (2.0 * math.pi * run.scale**2)) - 0.5 * ((gradient / run.scale) ** 2).sum(
        axis=1
    )


def solved(run, rows, b):
    """The points of the plane at which the gradient is −b, by damped Newton steps."""
    points, wanted = np.zeros_like(b), 1e-10 * (run.scale + run.row_norm)
    moving = np.arange(len(b))
    for _ in range(200):
        at, target = points[moving], b[moving]
        gradient, hessian = sums(run, rows, at)
        left = np.linalg.norm(gradient + target, axis=1)
        if left.max() <= wanted:
            return points
        moving, at, target, left = (each[left > wanted] for each in (moving, at, target, left))
        gradient, hessian = sums(run, rows, at)
        step, share = np.linalg.solve(hessian, (gradient + target)[:, :, None])[:, :, 0], np.ones(len(at))
        for _ in range(20):
            tried = np.linalg.norm(sums(run, rows, at - share[:, None] * step)[0] + target, axis=1)
            longer = tried > left * (1.0 - 0.1 * share)
            if not longer.any():
                break
            share[longer] *= 0.5
        points[moving] = at - share[:, None] * step
    raise AssertionError("not solved")


def audited(run, one, two, epsilons, cells=101):
    """What two tables show at each ε, from b within 8 standard deviations."""
    line = np.linspace(-8.0, 8.0, cells)
    b = np.array(list(itertools.product(line, line)))
    weights = np.exp(-0.5 * (b**2).sum(axis=1)) / (2.0 * math.pi) * (line[1] - line[0]) ** 2
    points = solved(run, one, run.scale * b)
    losses = log_density(run, one, points) - log_density(run, two, points)
    return np.array([weights @ np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0) for epsilon in epsilons])


def audited_near(run, one, two, epsilon, centre, reach, cells=301):
    """What two tables show by the W of a small square of the plane."""
    line = np.linspace(-reach, reach, cells)
    points = np.array(list(itertools.product(line, line))) + centre
    p, q = (np.exp(log_density(run, rows, points)) for rows in (one, two))
    return np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * (line[1] - line[0]) ** 2


# Many rows of classes 0 and 1 keep class 2 out and the other two even. Where less than half is cut a row of either
# then has the gradient c(e_1 − e_0) or its opposite wherever W is likely to be: a corner.
EVEN = [(1.0, 0, 3000), (1.0, 1, 3000)]
