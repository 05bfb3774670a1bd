"""A loss of one's own: ten lines are enough, and a wrong bound is refused."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from dperm import Guarantee, InvalidParameterError, Problem, minimize
from dperm.problem import L2, Loss
from dperm.unsafe import empirical_risk


@dataclass(frozen=True)
class PseudoHuber(Loss):
    """√(1 + r²) − 1, r = m − y."""

    name = "pseudo_huber"
    convex = True
    target_range = (-1.0, 1.0)
    value = staticmethod(lambda margin, target: np.sqrt(1.0 + (margin - target) ** 2) - 1.0)
    derivative = staticmethod(lambda margin, target: (margin - target) / np.sqrt(1.0 + (margin - target) ** 2))
    slope_bound = curvature_bound = lambda self, margin_bound: 1.0
    encode = staticmethod(lambda target: np.clip(target, -1.0, 1.0))


class ShortSlope(PseudoHuber):
    slope_bound = staticmethod(lambda margin_bound: 0.95)


class ShortCurvature(PseudoHuber):
    curvature_bound = staticmethod(lambda margin_bound: 0.95)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3)) / 3.0
    return X, X @ [1.0, -1.0, 0.5] + 0.1 * rng.normal(size=20_000)


@pytest.fixture(scope="module")
def problem():
    return Problem(PseudoHuber(), L2(0.05), intercept=True)


@pytest.fixture(scope="module")
def optimum(problem, rows):
    found = scipy_minimize(lambda w: empirical_risk(problem, *rows, w), np.zeros(4), options={"gtol": 1e-7})
    # Otherwise standing still would pass the tests below.
    assert found.fun < 0.7 * empirical_risk(problem, *rows, np.zeros(4))
    return found


def test_a_loss_of_ones_own_reaches_the_optimum_without_noise(problem, rows, optimum):
    release = minimize(problem, *rows, guarantee=Guarantee(1.0, 1e-6), noise=None)
    assert empirical_risk(problem, *rows, release.w) == pytest.approx(optimum.fun, rel=0, abs=1e-6)
    np.testing.assert_allclose(release.w, optimum.x, atol=1e-3)


def test_a_loss_of_ones_own_is_fitted_privately(problem, rows, optimum):
    release = minimize(problem, *rows, guarantee=Guarantee(1.0, 1e-6), random_state=0)
    assert release.privacy.certified_epsilon <= 1.0
    assert release.privacy.sigma > 0.0
    assert not np.allclose(release.w, optimum.x, rtol=0, atol=1e-6)
    assert empirical_risk(problem, *rows, release.w) <= optimum.fun + 0.01


@pytest.mark.parametrize(("liar", "which"), [(ShortSlope(), "slope"), (ShortCurvature(), "curvature")])
def test_a_loss_that_lies_about_its_bounds_is_refused(rows, liar, which):
    with pytest.raises(InvalidParameterError, match=which):
        minimize(Problem(liar, L2(0.05)), *rows, guarantee=Guarantee(1.0, 1e-6))
