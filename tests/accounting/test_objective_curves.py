"""Pitfalls 5, 18: the privacy curves of objective perturbation against closed forms with sixty digits."""

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from dperm import Guarantee, InvalidParameterError, Problem
from dperm.accounting.calibration import calibrate
from dperm.accounting.composition import epsilon_of
from dperm.accounting.curve import gaussian_delta, gaussian_epsilon, pure_delta, two_sided_delta, zcdp_delta
from dperm.accounting.events import Composed, ObjectivePerturbation, Pure, Repeated
from dperm.accounting.events.objective_perturbation import TailCurve, TangentCurve
from dperm.errors import NoiseTooLargeError
from dperm.mechanisms import ObjectivePerturbationQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.problem import L2, Huber, Logistic
from kernel.harness import setting_of
from mechanisms.objective_runs import (
    ADD,
    ADJACENCIES,
    REPLACE,
    moved_by,
)


def test_the_two_sided_curve_is_the_integral_that_it_stands_for():
    for mu in (1e-3, 0.1, 1.0, 5.0, 20.0):
        for epsilon in (0.0, 1e-3, 0.3, 2.0, 40.0):
            start = max(0.0, epsilon / mu - mu / 2)

            def gain(z, mu=mu, epsilon=epsilon):
                return -2.0 * norm.pdf(z) * math.expm1(min(epsilon - mu * z - mu**2 / 2, 0.0))

            exact = integrate.quad(gain, start, start + 12.0, epsabs=0.0, epsrel=1e-11, limit=200)[0]
            assert two_sided_delta(mu, epsilon) == pytest.approx(exact, rel=1e-8, abs=1e-300)


def digits(function):
    """Evaluate with sixty digits."""
    with mpmath.workdps(60):
        return function()


def exact_two_sided(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    start = max(mpmath.mpf(0), epsilon / mu - mu / 2)
    return 2 * (mpmath.ncdf(-start) - mpmath.exp(epsilon) * mpmath.ncdf(-start - mu))


def exact_gaussian(mu, epsilon):
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


def exact_pure(total, epsilon):
    total, epsilon = mpmath.mpf(total), mpmath.mpf(epsilon)
    return max(mpmath.mpf(0), (mpmath.exp(total) - mpmath.exp(epsilon)) / (1 + mpmath.exp(total)))


def test_the_curves_are_rounded_up_and_hardly_so():
    rng = np.random.default_rng(0)
    for _ in range(400):
        mu, t, epsilon = 10 ** rng.uniform(-7, 1.5), rng.uniform(0.0, 25.0), 10 ** rng.uniform(-6, 2)
        for curve, exact, x, e in [
            (two_sided_delta, exact_two_sided, mu, mu * t),
            (two_sided_delta, exact_two_sided, mu, epsilon),
            (gaussian_delta, exact_gaussian, mu, mu * t),
            (pure_delta, exact_pure, epsilon, epsilon * rng.uniform()),
        ]:
            value, true = curve(x, e), digits(lambda exact=exact, x=x, e=e: exact(x, e))
            if true < 1e-250:
                continue
            assert value >= true
            # Relative rounding of a difference of logarithms of the size of log δ, divided by what is left: about μ.
            assert value <= float(true) * (1 + 1e-9 + 1e-10 / x)


def best_zcdp(rho, epsilon):
    """The minimum over all α > 1, with sixty digits: a root of the derivative, by golden section on log(α − 1)."""
    rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)

    def log_delta(u):
        less_one = mpmath.exp(u)
        alpha = 1 + less_one
        return less_one * (alpha * rho - epsilon) + alpha * mpmath.log(less_one / alpha) - u

    low, high = mpmath.mpf(-30), mpmath.mpf(90)
    shrink = (mpmath.sqrt(5) - 1) / 2
    for _ in range(120):
        left, right = high - shrink * (high - low), low + shrink * (high - low)
        low, high = (low, right) if log_delta(left) < log_delta(right) else (left, high)
    return mpmath.exp(min(log_delta((low + high) / 2), 0))


def test_the_concentrated_curve_is_above_its_best_order_and_near_it():
    rng = np.random.default_rng(1)
    for _ in range(40):
        rho, t = 10 ** rng.uniform(-30, 1), rng.uniform(0.0, 15.0)
        epsilon = rho + t * math.sqrt(rho)
        value, true = zcdp_delta(rho, epsilon), digits(lambda rho=rho, epsilon=epsilon: best_zcdp(rho, epsilon))
        assert true <= value <= float(true) * 1.01
        # A Gaussian release with μ = √(2ρ) is one such mechanism.
        assert digits(lambda rho=rho, epsilon=epsilon: exact_gaussian(math.sqrt(2 * rho), epsilon)) <= value
    assert zcdp_delta(0.1, 0.0) <= 1.0


def test_the_pure_curve_is_that_of_randomized_response_and_above_laplace():
    for total in (1e-4, 0.5, 3.0, 40.0, 2000.0):
        for epsilon in (0.0, 0.3 * total, 0.99 * total):
            # 1/(1 + e^−t) − e^(ε − t)/(1 + e^−t): truth told under D, and by chance under D'.
            truth = 1.0 / (1.0 + math.exp(-total))
            response = truth - math.exp(epsilon - total) * truth
            assert pure_delta(total, epsilon) == pytest.approx(response, rel=1e-9)
            laplace = -math.expm1((epsilon - total) / 2)  # of noise of scale 1/total on a shift by 1
            assert laplace <= pure_delta(total, epsilon) * (1 + 1e-9)
        assert pure_delta(total, total) == pure_delta(total, 2 * total) == 0.0


@pytest.mark.parametrize("curve", [two_sided_delta, gaussian_delta, pure_delta, zcdp_delta])
def test_the_curves_fall_in_epsilon_and_rise_in_what_is_lost(curve):
    losses, epsilons = np.geomspace(1e-3, 30.0, 60), np.linspace(0.0, 20.0, 60)
    values = np.array([[curve(loss, epsilon) for epsilon in epsilons] for loss in losses])
    assert (np.diff(values, axis=1) <= 1e-9 * values[:, 1:] + 1e-12).all()
    assert (np.diff(values, axis=0) >= -1e-9 * values[1:] - 1e-12).all()
    assert values.min() >= 0.0
    assert values.max() <= 1.0


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("monotone", [True, False])
def test_the_bound_is_the_sum_over_the_corners_and_above_their_maximum(monotone, adjacency):
    """The proof bounds E max over corners v of (1 − exp(t − ⟨b, v⟩ − ‖v‖²/2))₊: here by integrating over the plane."""
    mu, cost = 1.3, 0.2
    event = ObjectivePerturbation(1.0 / mu, cost, monotone, 0.1)
    slopes = [0.0, 1.0] if monotone else [-1.0, 1.0]
    axis, width = np.linspace(-9.0, 9.0, 601, retstep=True)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    weight = norm.pdf(grid).prod(axis=1) * width**2
    for left in (0.0, 0.5, 2.0, 8.0):
        terms = {
            (ADD, True): [exact_gaussian(mu, left)],
            (ADD, False): [exact_two_sided(mu, left)],
            (REPLACE, True): [exact_gaussian(2 * mu, left), exact_gaussian(mu, left), exact_gaussian(mu, left)],
            (REPLACE, False): [exact_two_sided(2 * mu, left), exact_two_sided(math.sqrt(2) * mu, left)],
        }[adjacency, monotone]
        certified = TangentCurve(event, adjacency).delta(cost + 0.1 + left)
        assert certified == pytest.approx(min(1.0, float(sum(terms))), rel=1e-9)
        for angle in (math.pi / 2, 2.5, math.pi) if adjacency is REPLACE else (0.0,):
            rows = [np.array([1.0, 0.0]), np.array([math.cos(angle), math.sin(angle)])][: int(moved_by(adjacency))]
            corners = [mu * sum(a * x for a, x in zip(c, rows, strict=True)) for c in product(slopes, repeat=len(rows))]
            loss = np.max([grid @ v + 0.5 * v @ v for v in corners], axis=0)
            largest = (weight * -np.expm1(np.minimum(left - loss, 0.0))).sum()
            assert largest <= certified * (1 + 5e-3)  # of the grid


def test_degenerate_noise_never_looks_private():
    for adjacency in ADJACENCIES:
        for monotone in (True, False):
            loud = ObjectivePerturbation(1e12, 1e-9, monotone, 1e-9)
            assert TangentCurve(loud, adjacency).delta(1.0) == 0.0
            assert TangentCurve(loud, adjacency).delta(1e-9) == 1.0  # less than the determinants and the remainder cost
            for multiplier in (1e-3, 1e-160, 1e-300):
                silent = ObjectivePerturbation(multiplier, 0.1, monotone, 0.01)
                assert TangentCurve(silent, adjacency).delta(1.0) == 1.0
            assert TangentCurve(ObjectivePerturbation(1.0, 0.1, monotone, 0.01), adjacency).delta(0.0) == 1.0
    problem = Problem(Logistic(), L2(0.1))
    query = ObjectivePerturbationQuery(setting_of(problem, ADD), 0.0, 1e-6, 0.1, "Gaussian")
    for multiplier in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameterError):
            query.event(multiplier)


@pytest.mark.parametrize("monotone", [True, False])
def test_gaussian_noise_is_never_pure(monotone):
    """δ(ε) of Gaussian noise is above 0 for every ε, also where a float cannot show it."""
    event = ObjectivePerturbation(1.0, 0.1, monotone, 0.01)
    for adjacency in ADJACENCIES:
        assert epsilon_of(event, 0.0, adjacency) == math.inf
        assert epsilon_of(event, 1e-60, adjacency) < math.inf
        problem = Problem(Logistic() if monotone else Huber(), L2(1.0))
        query = ObjectivePerturbationQuery(setting_of(problem, adjacency), 0.0, 1e-6, 0.01, "Gaussian")
        with pytest.raises(NoiseTooLargeError, match="no certified noise was found"):
            calibrate(Plan("test", (PlannedQuery(query),), {}), Guarantee(1.0, 0.0))


@pytest.mark.parametrize("mu", [0.03, 0.3, 2.0])
def test_two_minimisers_with_hardly_any_determinant_cost_as_two_gaussians(mu):
    """A little more, because the proof counts losses below 0 as 0; five per cent less noise would be too little."""
    events = [ObjectivePerturbation(1.0 / (mu * part), 1e-9, True, 1e-13) for part in (0.6, 0.8)]
    curve = TailCurve(tuple(events), ADD).delta
    for epsilon in (2.0 * mu, 4.0 * mu):
        assert gaussian_delta(mu, epsilon) <= curve(epsilon) <= gaussian_delta(1.05 * mu, epsilon)


def test_pure_events_add_up():
    one, two = Pure(0.3), Pure(0.5)
    for adjacency in ADJACENCIES:
        assert epsilon_of(Composed([one, two]), 0.0, adjacency) == pytest.approx(0.8, rel=1e-11)
        assert epsilon_of(Repeated(one, 5), 0.0, adjacency) == pytest.approx(1.5, rel=1e-11)
        # Many of them are better off by Rényi accounting, never below the Gaussian that they resemble.
        many = epsilon_of(Repeated(Pure(0.01), 10_000), 1e-6, adjacency)
        assert gaussian_epsilon(0.99, 1e-6) < many < 10.0
