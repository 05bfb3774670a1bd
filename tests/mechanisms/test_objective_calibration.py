"""Pitfalls 13, 22: calibrated and published noise of objective perturbation, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import log_ndtr

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.accounting.calibration import calibrate
from dperm.errors import NoiseTooLargeError
from dperm.mechanisms import GradientQuery, ObjectivePerturbationQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.problem import L1, L2, Huber, Logistic, NoRegularizer, OneVsRestHinge, Simplex
from dperm.solvers import ChaudhuriObjective, KiferObjective
from kernel.harness import setting_of
from mechanisms.objective_runs import (
    ADD,
    ADJACENCIES,
    HUBER,
    KNOWN,
    LOGISTIC,
    REPLACE,
    moved_by,
)


def by_hand(sigma, epsilon, setting, ridge, monotone):
    """δ of the Gaussian form from scratch, at the ε that the remainder leaves."""
    left = epsilon - math.log1p(setting.constants.smoothness / (setting.n * ridge))
    if left < 0.0:
        return 1.0
    mu = setting.constants.lipschitz / sigma

    def curve(shift, sides):
        z = left / shift - shift / 2
        z = max(z, 0.0) if sides == 2.0 else z
        return sides * (math.exp(log_ndtr(-z)) - math.exp(left + log_ndtr(-z - shift)))

    if setting.adjacency is ADD:
        return curve(mu, 1.0 if monotone else 2.0)
    return curve(2 * mu, 1.0) + 2 * curve(mu, 1.0) if monotone else curve(2 * mu, 2.0) + curve(math.sqrt(2) * mu, 2.0)


def steep_or_curved(mu, ratio, epsilon, share=1.0):
    """δ by theorem 4 without tangents: the loss is the largest over t of tμZ + t²μ²/2 + ln(1 + ratio · t(1 − t))."""
    z, t = np.linspace(-10.0, 38.0, 20_001), share * np.linspace(0.0, 1.0, 401)[:, None]
    fixed = 0.5 * (t * mu / share) ** 2 + np.log1p(ratio * t * (1.0 - t))
    excess = np.max([row * mu / share * z + add for row, add in zip(t, fixed, strict=True)], axis=0) - epsilon
    return trapezoid(np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi) * -np.expm1(-np.maximum(excess, 0.0)), z)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("known", KNOWN, ids=repr)
def test_random_plans_keep_their_promise_and_waste_less_than_a_percent_of_noise(known, adjacency):
    rng = np.random.default_rng(11)
    for _ in range(10):
        row_norm, n, strength = 10 ** rng.uniform(-1, 2), int(10 ** rng.uniform(1, 6)), 10 ** rng.uniform(-6, 0)
        epsilon, delta = 10 ** rng.uniform(-2, 1.5), 10 ** rng.uniform(-12, -2)
        problem = Problem(known.loss, L2(strength), row_norm=row_norm)
        constants = {"smoothness": known.largest_curvature * row_norm**2, "lipschitz": row_norm}
        for solver, pure in ((KiferObjective(), False), (KiferObjective(), True), (ChaudhuriObjective(), True)):
            guarantee = Guarantee(epsilon, 0.0 if pure else delta)
            fit = FitOptions(problem, guarantee=guarantee, solver=solver, adjacency=adjacency.value).plan(n, 3)
            assert fit.privacy.certified_epsilon <= epsilon
            assert {name: getattr(fit.setting.constants, name) for name in constants} == pytest.approx(constants)
            query = fit.calibrated.plan.planned[0].query
            ridge, left = strength + query.ridge, epsilon - query.remainder
            assert 0.005 * epsilon <= query.remainder <= 0.1 * epsilon
            sigma, monotone = fit.privacy.sigma, known is not HUBER
            if pure:
                spent = moved_by(adjacency) * row_norm / sigma
                spent += math.log1p(constants["smoothness"] / (n * ridge))
                assert spent == pytest.approx(left, rel=1e-9)
            elif known is not LOGISTIC:
                assert by_hand(sigma, left, fit.setting, ridge, monotone) <= delta * (1 + 1e-6)
                assert by_hand(0.99 * sigma, left, fit.setting, ridge, monotone) > delta
            elif adjacency is ADD:
                ratio = row_norm**2 / (n * ridge)  # 4β/Λ
                assert steep_or_curved(row_norm / sigma, ratio, left) <= delta * (1 + 1e-4)  # of the integral
                assert steep_or_curved(row_norm / sigma * 1.02, ratio, left) > delta


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=lambda loss: loss.name)
def test_more_privacy_takes_more_noise(loss, adjacency):
    def sigma(epsilon, delta):
        problem = Problem(loss, L2(0.1))
        fit = FitOptions(
            problem, guarantee=Guarantee(epsilon, delta), solver=KiferObjective(ridge=0.1), adjacency=adjacency.value
        ).plan(1000, 3)
        return fit.privacy.sigma

    by_epsilon = [sigma(epsilon, 1e-6) for epsilon in np.geomspace(0.05, 20.0, 12)]
    by_delta = [sigma(1.0, delta) for delta in np.geomspace(1e-18, 1e-2, 12)]
    pure = [sigma(epsilon, 0.0) for epsilon in np.geomspace(0.05, 20.0, 12)]
    for sigmas in (by_epsilon, by_delta, pure):
        assert (np.diff(sigmas) < 0.0).all()
        assert np.isfinite(sigmas).all()


def test_a_ridge_that_cannot_do_is_refused_in_one_sentence():
    free, little = Problem(Logistic()), Problem(Logistic(), L2(1e-4))
    for solver in (KiferObjective(ridge=0.0), ChaudhuriObjective(ridge=0.0)):
        guarantee = Guarantee(1.0, 0.0 if isinstance(solver, ChaudhuriObjective) else 1e-6)
        with pytest.raises(InvalidParameterError, match=r"^ridge must be above 0, got 0\.0\.$"):
            FitOptions(free, guarantee=guarantee, solver=solver).plan(1000, 3)
        with pytest.raises(NoiseTooLargeError, match=r"^no amount of noise gives epsilon = 0\.1[^.]*\.$"):
            FitOptions(little, guarantee=replace(guarantee, epsilon=0.1), solver=solver).plan(1000, 3)
    with pytest.raises(InvalidParameterError, match="ridge must be 0 or above"):
        KiferObjective(ridge=-1.0)


def test_what_the_proof_does_not_cover_is_refused():
    setting = setting_of(Problem(OneVsRestHinge(3), L2(0.1)), ADD)
    with pytest.raises(InvalidParameterError, match="one margin"):
        ObjectivePerturbationQuery(setting, 0.0, 1e-6, 0.1, "Gaussian")
    good = setting_of(Problem(Logistic(), L2(0.1)), ADD)
    for arguments in [(-1.0, 1e-6, 0.1), (0.0, 0.0, 0.1), (0.0, 1e-6, 0.0), (0.0, math.nan, 0.1)]:
        with pytest.raises(InvalidParameterError):
            ObjectivePerturbationQuery(good, *arguments, "Gaussian")
    with pytest.raises(InvalidParameterError, match="distribution"):
        ObjectivePerturbationQuery(good, 0.0, 1e-6, 0.1, "Laplace")
    for share in (0.0, 1.1, math.nan):
        with pytest.raises(InvalidParameterError, match="slope_share"):
            ObjectivePerturbationQuery(good, 0.0, 1e-6, 0.1, "Gaussian", share)


def test_an_objective_perturbation_beside_a_gradient_needs_more_noise_than_either():
    good, guarantee = setting_of(Problem(Logistic(), L2(0.1)), ADD), Guarantee(1.0, 1e-6)
    both = (
        PlannedQuery(ObjectivePerturbationQuery(good, 0.0, 1e-6, 0.1, "Gaussian")),
        PlannedQuery(GradientQuery(good)),
    )
    noises = [calibrate(Plan("test", plan, {}), guarantee).noise_multiplier for plan in (both, both[:1], both[1:])]
    # Two Gaussians would need the root of squares; the remainder, a tenth of ε, is there whatever the noise.
    assert max(noises[1:]) < noises[0] < math.hypot(*noises[1:]) / 0.9


@pytest.mark.parametrize("ridge", [1e3, 1e6, 2e7])
def test_a_strong_ridge_around_a_point_is_solved_for_and_a_stronger_one_refused(ridge):
    X, y = np.ones((10, 2)) / 2.0, np.ones(10)
    problem, guarantee = Problem(Logistic(), domain=Simplex(2.0)), Guarantee(1.0, 1e-6)
    for seed in range(5):
        solver = KiferObjective(ridge=ridge)
        w = minimize(problem, X, y, guarantee=guarantee, solver=solver, random_state=seed).w
        np.testing.assert_allclose(w, 1.0, atol=100.0 / ridge)
    with pytest.raises(InvalidParameterError, match="rounds the loss away"):
        FitOptions(problem, guarantee=guarantee, solver=KiferObjective(ridge=1e9)).plan(10, 2)


# The published constants.


def paper_fit(solver, problem, n, guarantee, adjacency):
    fit = FitOptions(problem, guarantee=guarantee, solver=solver, adjacency=adjacency.value, noise="paper").plan(n, 4)
    return fit.privacy, fit.calibrated.plan.planned[0].query


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("row_norm", [1.0, 10.0])
@pytest.mark.parametrize(("strength", "enough"), [(0.5, True), (1e-4, False), (0.0, False)])
def test_chaudhuris_objective_noise_is_as_published(strength, enough, row_norm, adjacency):
    """‖x‖ ≤ 1, |ℓ'| ≤ 1, ℓ'' ≤ c. Rows of norm R are rows of norm 1 with w/R: R² for c and Λ/R² for Λ, or cR² for c."""
    n, epsilon, c = 500, 0.4, 0.25 * row_norm**2
    problem = Problem(Logistic(), L2(strength) if strength else NoRegularizer(), row_norm=row_norm)
    statement, query = paper_fit(ChaudhuriObjective(), problem, n, Guarantee(epsilon, 0.0), adjacency)
    if enough:
        left, ridge = epsilon - math.log(1 + 2 * c / (n * strength) + c**2 / (n * strength) ** 2), 0.0
        assert left > 0
    else:
        left, ridge = epsilon / 2, c / (n * (math.exp(epsilon / 4) - 1)) - strength
    assert query.ridge == pytest.approx(ridge)
    assert statement.sigma == pytest.approx(2 * row_norm / left)
    cost = math.log1p(c / (n * (strength + ridge)))
    certified = moved_by(adjacency) * left / 2 + cost + 0.005 * epsilon
    assert statement.certified_epsilon == pytest.approx(certified, rel=1e-9)
    assert statement.certified_epsilon <= 1.005 * epsilon
    assert not statement.for_release


@pytest.mark.parametrize("row_norm", [1.0, 10.0])
@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=lambda loss: loss.name)
def test_kifers_noise_is_as_published(loss, row_norm):
    n, epsilon, delta = 700, 0.8, 1e-5
    beta = {"logistic": 0.25, "huber": 1.0}[loss.name] * row_norm**2
    for guarantee, scale in [
        (Guarantee(epsilon, delta), row_norm * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon),
        (Guarantee(epsilon, 0.0), 2 * row_norm / epsilon),
    ]:
        for adjacency in ADJACENCIES:
            problem = Problem(loss, L1(0.01), row_norm=row_norm)
            statement, query = paper_fit(KiferObjective(), problem, n, guarantee, adjacency)
            assert query.ridge == pytest.approx(2 * beta / epsilon / n)
            assert statement.sigma == pytest.approx(scale)
            assert statement.distribution == ("Gaussian" if guarantee.delta else "Gamma")
            assert not statement.for_release


@pytest.mark.parametrize("loss", [Logistic(), Huber()], ids=lambda loss: loss.name)
def test_kifers_gaussian_noise_is_valid_where_it_was_published(loss):
    """Under add_remove, for every ε and δ that were tried; the little that the remainder costs is in its slack."""
    for epsilon in (1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0):
        for delta in (1e-12, 1e-6, 1e-3, 0.05):
            for strength in (1e-6, 1.0):
                guarantee = Guarantee(epsilon, delta)
                statement, _ = paper_fit(KiferObjective(), Problem(loss, L2(strength)), 1000, guarantee, ADD)
                assert statement.certified_epsilon <= epsilon


def test_kifers_pure_noise_is_valid_up_to_the_remainder_for_one_record_more_or_less():
    for epsilon in (0.01, 1.0, 10.0):
        guarantee = Guarantee(epsilon, 0.0)
        one, _ = paper_fit(KiferObjective(), Problem(Logistic(), L1(0.01)), 1000, guarantee, ADD)
        two, _ = paper_fit(KiferObjective(), Problem(Logistic(), L1(0.01)), 1000, guarantee, REPLACE)
        assert one.certified_epsilon == pytest.approx(0.505 * epsilon + math.log1p(epsilon / 2))
        assert one.certified_epsilon <= 1.005 * epsilon
        assert two.certified_epsilon == pytest.approx(1.005 * epsilon + math.log1p(epsilon / 2))
        assert two.certified_epsilon > epsilon
