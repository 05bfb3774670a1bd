"""Theorem 4 of objective perturbation: where the slope of a sigmoidal loss is at its bound, its curvature is zero."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from dperm import InvalidParameterError, Problem
from dperm.accounting.curve import gaussian_delta
from dperm.accounting.events import ObjectivePerturbation
from dperm.accounting.events.objective_perturbation import TangentCurve
from dperm.mechanisms import ObjectivePerturbationQuery
from dperm.problem import L2, L2Ball, Logistic, SmoothedHinge
from kernel.harness import setting_of
from mechanisms.objective_runs import (
    ADD,
    ADJACENCIES,
    LOGISTIC,
    Known,
    Mechanism,
    audited,
    calibrated_plan,
    moved_by,
    pairs_of,
    sigmoid,
)


def clipped_mechanism(adjacency, share, mu, curvature):
    """As `mechanism`, with slopes clipped at a share of their bound: noise of scale share·G/mu."""
    known = Known(
        Logistic(),
        lambda m, y: np.clip(LOGISTIC.slope(m, y), -share, share),
        lambda m, y: np.where(np.abs(LOGISTIC.slope(m, y)) < share, LOGISTIC.curvature(m, y), 0.0),
        0.25,
        (-1.0, 1.0),
    )
    n, ridge = 4, 0.25 / curvature
    setting = setting_of(Problem(Logistic(), L2(0.5 * ridge / n)), adjacency, n, 1)
    query = ObjectivePerturbationQuery(setting, 0.5 * ridge / n, 1e-6, 1e-13, "Gaussian", share)
    calibrated = calibrated_plan(query, 1.0 / (mu * moved_by(adjacency)))
    return Mechanism(known, 1.0, calibrated.sigma(calibrated.plan.planned[0]), ridge, calibrated.event(), adjacency)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("share", [1.0, 0.9, 0.6, 0.3])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_pair_of_small_tables_exceeds_the_bound_for_clipped_slopes(adjacency, share):
    """Also where the determinant counts as much as the noise, the region that theorem 4 makes cheaper."""
    rng = np.random.default_rng(int(100 * share))
    for _ in range(25):
        mu, curvature = 10 ** rng.uniform(-2, 0.5), 10 ** rng.uniform(-3, 1)
        run = clipped_mechanism(adjacency, share, mu, curvature)
        epsilons = [(mu * t + curvature) * scale for t in (0.5, 2.0, 4.0) for scale in (0.5, 1.0)]
        certified = np.array([run.certified_delta(epsilon) for epsilon in epsilons])
        for one, two in pairs_of(run.known, adjacency, 1.0, rng, 4):
            shown = audited(run, one, two, epsilons)
            assert (shown <= certified * (1 + 1e-9) + 1e-15).all(), (mu, curvature, one, two)


@pytest.mark.parametrize("share", [1.0, 0.8])
def test_a_bound_for_a_sigmoidal_loss_five_percent_too_small_would_be_exceeded(share):
    """A row predicted badly, where the others pull w, has the largest slope and attains the bound."""
    run = clipped_mechanism(ADD, share, 0.3, 0.02)
    pulled = [(1.0, -1.0)] * 2000
    epsilons = [0.3, 0.6, 0.9]
    shown = audited(run, [*pulled, (1.0, 1.0)], pulled, epsilons, cut=np.linspace(-9.0, 1.0, 4001))
    assert (shown <= [run.certified_delta(epsilon) for epsilon in epsilons]).all()
    assert (shown > [run.delta_with(epsilon, noise=1.05) for epsilon in epsilons]).any()


@pytest.mark.parametrize("ratio", [0.3, 0.99, 3.0])
def test_the_determinant_of_the_logistic_loss_is_free_from_a_ridge_on(ratio):
    """Λ ≥ 4β/ε in the scale of sums: then δ(ε) is that of the Gaussian alone; with less ridge it is more."""
    epsilon, mu = 0.4, 0.15
    event = ObjectivePerturbation(1.0 / mu, math.log1p(ratio * epsilon / 4.0), True, 1e-13, True)
    free = gaussian_delta(mu, epsilon)
    certified = TangentCurve(event, ADD).delta(epsilon)
    assert certified == pytest.approx(free, rel=1e-6) if ratio <= 1.0 else certified > 1.2 * free


def test_the_curvature_of_a_sigmoid_is_checked():
    class Kinked(Logistic):
        """Clipped at 0.7, and so still curved where its slope is largest."""

        name = "kinked"

        @staticmethod
        def derivative(margin, target):
            return np.clip(-target / (1.0 + np.exp(target * margin)), -0.7, 0.7)

        def slope_bound(self, margin_bound):
            return 0.7

    with pytest.raises(InvalidParameterError, match="sigmoid"):
        Problem(Kinked(), L2(0.1)).constants(3)


@dataclass(frozen=True)
class Scaled(SmoothedHinge):
    """A hinge with a hundredth of the slope and curvature, and curved where its slope is large."""

    smoothing: float = 1.0
    sigmoidal = True
    name = "scaled"

    @staticmethod
    def derivative(margin, target, smoothing):
        return -0.01 * target * np.minimum(np.maximum(1.0 - target * margin, 0.0), 1.0)

    def slope_bound(self, margin_bound):
        return 0.01

    def curvature_bound(self, margin_bound):
        return 0.01


@dataclass(frozen=True)
class Shifted(Logistic):
    """A sigmoid whose middle lies beyond the domain, with the smaller curvature that it has there."""

    name = "shifted"

    @staticmethod
    def value(margin, target):
        return np.logaddexp(0.0, 12.0 - target * margin)

    @staticmethod
    def derivative(margin, target):
        return -target / (1.0 + np.exp(target * margin - 12.0))

    def curvature_bound(self, margin_bound):
        middle = max(0.0, 12.0 - margin_bound)
        return float(sigmoid(middle) * sigmoid(-middle)) * (1.0 + 1e-9)


def test_losses_of_any_scale_are_checked_for_their_form():
    with pytest.raises(InvalidParameterError, match="sigmoid"):
        Problem(Scaled(), L2(0.1)).constants(3)


def test_a_sigmoid_that_the_domain_shows_a_part_of_is_accounted_as_any_monotone_loss():
    assert Problem(Shifted(), L2(0.1)).constants(1).sigmoidal
    assert not Problem(Shifted(), L2(0.1), L2Ball(10.0)).constants(1).sigmoidal
    assert Problem(Logistic(), domain=L2Ball(1.0)).constants(1).sigmoidal
