"""No pair of tables shows more of a softmax objective perturbation than is certified for it."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from mpmath import mp
from scipy.special import ndtr
from scipy.stats import chi, norm

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, UnsupportedProblemError, minimize
from dperm.accounting.composition import delta_of
from dperm.accounting.events import SoftmaxPerturbation
from dperm.mechanisms import ObjectivePerturbationQuery
from dperm.mechanisms.objective_perturbation import softmax_trace
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L1, L2, OneVsRestHinge, Softmax
from dperm.solvers import DPSoftmax
from kernel.harness import setting_of
from mechanisms.objective_runs import ADD, ADJACENCIES, REPLACE, moved_by
from mechanisms.softmax_runs import EVEN, PLANE, K, audited, audited_near, mechanism


def some_rows(rng, row_norm, count):
    return [
        (row_norm * (rng.choice([-1.0, 1.0]) if rng.random() < 0.7 else rng.uniform(-1, 1)), int(rng.integers(K)), 1)
        for _ in range(count)
    ]


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("row_norm", [1.0, 10.0])
@pytest.mark.parametrize("cut", [1.0, 0.6, 0.2])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_pair_of_small_tables_exceeds_the_bound(adjacency, cut, row_norm):
    rng = np.random.default_rng(int(100 * cut + row_norm))
    for _ in range(4):
        run = mechanism(adjacency, row_norm, 10 ** rng.uniform(-1, 0.6), 10 ** rng.uniform(-1, 1), cut)
        shift = moved_by(adjacency) * math.sqrt(2.0) * cut * row_norm / run.scale
        common, (row, other) = some_rows(rng, row_norm, rng.integers(3)), some_rows(rng, row_norm, 2)
        one, two = [*common, row], [*common, other] if adjacency is REPLACE else common
        epsilons = [run.cost * 1.001, *(run.cost + shift * (t + shift / 2) for t in (0.0, 1.5, 3.0))]
        certified = np.array([run.certified_delta(epsilon) for epsilon in epsilons])
        for first, second in ((one, two), (two, one)):
            assert (audited(run, first, second, epsilons, cells=41) <= certified * 1.01 + 1e-12).all()


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("row_norm", [1.0, 10.0])
@pytest.mark.parametrize(
    ("adjacency", "more", "other", "mu", "epsilon"),
    [(ADD, [], [(1.0, 0, 1)], 2.0, 9.5), (REPLACE, [(1.0, 1, 1)], [(1.0, 0, 1)], 1.0, 9.5)],
    ids=["add_remove", "replace_one"],
)
def test_a_bound_for_five_percent_more_noise_would_be_exceeded(adjacency, more, other, mu, epsilon, row_norm):
    run = mechanism(adjacency, row_norm, mu, 20.0, cut=0.2)
    one, two = ([(row_norm * x, y, times) for x, y, times in EVEN + rows] for rows in (more, other))
    (shown,) = audited(run, one, two, [epsilon])
    assert run.delta_with(epsilon, noise=1.05) < shown <= run.certified_delta(epsilon)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_cut_that_is_five_percent_deeper_in_the_noise_than_in_the_rows_is_exceeded(adjacency):
    """Rows cut at c with the noise for 0.95 c."""
    run = mechanism(adjacency, 1.0, 2.0 / moved_by(adjacency), 20.0, cut=0.2)
    looser = replace(run, cut=0.2 / 0.95)
    more = [] if adjacency is ADD else [(1.0, 1, 1)]
    (shown,) = audited(looser, EVEN + more, [*EVEN, (1.0, 0, 1)], [9.5])
    assert shown > run.certified_delta(9.5)


def test_both_corners_are_reached_without_a_cut():
    """With little ridge W is long, and so is the gradient towards either wrong class: more than one Gaussian shows."""
    run = mechanism(ADD, 1.0, 4.0, 0.05)
    (shown,) = audited(run, [], [(1.0, 0, 1)], [14.0])
    one_corner = run.delta_with(14.0, n_classes=2, log_jacobian=0.0)
    assert 1.3 * one_corner < shown <= run.certified_delta(14.0)
    assert shown <= run.delta_with(14.0, log_jacobian=0.0)  # this order of the tables has no determinant to pay for


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("row_norm", [1.0, 10.0])
@pytest.mark.parametrize(("cut", "ridge"), [(1.0, 1.0), (1.0, 10.0), (0.5, 3.0)])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_determinant_term_five_percent_smaller_would_be_exceeded(adjacency, cut, ridge, row_norm):
    """With much noise only the determinants tell the tables apart, most where the row's Hessian is largest."""
    cost = mechanism(adjacency, row_norm, 1.0, ridge, cut).cost
    run = mechanism(adjacency, row_norm, 1e-3 * cost, ridge, cut)
    one, two = [(row_norm, 0, 1)], [] if adjacency is ADD else [(0.0, 0, 1)]
    # Wrong classes are even, and together have c or, if that is less, all but a third.
    share = min(cut, 1.0 - 1.0 / K) * (1.0 - 1e-9)
    margins = np.log([1.0 - share, share / 2.0, share / 2.0])
    shown = audited_near(run, one, two, 0.97 * cost, PLANE @ margins / row_norm, 0.3 / row_norm)
    assert run.certified_delta(0.97 * cost) >= shown > 0.0
    assert shown > 10 * run.delta_with(0.97 * cost, log_jacobian=0.95 * cost)
    if row_norm > 1.0:  # R for R²
        halved = (K - 1) * math.log1p(math.expm1(cost / (K - 1)) / row_norm)
        assert shown > 10 * run.delta_with(0.97 * cost, log_jacobian=halved)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("n_classes", [2, 3, 5, 26])
@pytest.mark.parametrize("cut", [1.0, 0.9, 0.5, 0.1])
def test_the_trace_is_the_largest_of_a_cut_softmax(n_classes, cut):
    rng = np.random.default_rng(0)
    found = 0.0
    even = np.full(n_classes - 1, 1.0 / (n_classes - 1))
    for _ in range(4000):
        wrong = min(cut, rng.uniform() if rng.random() < 0.7 else cut)
        s = rng.dirichlet(np.ones(n_classes - 1)) if rng.random() < 0.5 else even
        found = max(found, 1.0 - (1.0 - wrong) ** 2 - ((wrong * s) ** 2).sum(), cut * (1.0 - (s**2).sum()))
    assert 0.99 * softmax_trace(n_classes, cut) < found <= softmax_trace(n_classes, cut)


def test_corners_of_two_rows_are_no_longer_than_counted():
    rng = np.random.default_rng(1)
    for n_classes in (2, 3, 4, 7):
        event = SoftmaxPerturbation(1.0, 0.0, n_classes, 0.0)
        counted = sorted(itertools.chain(*([mu] * times for times, mu in event.corners(REPLACE))), reverse=True)
        axes = np.eye(n_classes) / math.sqrt(2.0)  # G = 1
        for _ in range(40):
            x, other = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 2)))
            x, other = (x, -x if rng.random() < 0.3 else x) if rng.random() < 0.6 else (x, other)
            y, z = rng.integers(n_classes, size=2)
            one, two = (
                [
                    np.zeros((n_classes, 2)),
                    *(np.outer(axes[k] - axes[label], row) for k in range(n_classes) if k != label),
                ]
                for row, label in ((x, y), (other, z))
            )
            lengths = sorted((np.linalg.norm(v - w) for v in one for w in two), reverse=True)[:-1]
            assert len(lengths) == len(counted)
            assert (np.array(lengths) <= np.array(counted) * (1 + 1e-9)).all()


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_curve_is_the_sum_over_corners_with_sixty_digits(adjacency):
    with mp.workdps(60):
        for noise, cost, n_classes, epsilon in ((6.0, 0.1, 5, 1.3), (1.5, 0.7, 3, 5.0), (40.0, 0.01, 26, 0.2)):
            kappa, others = 1 / mp.mpf(noise), n_classes - 1
            shifts = [(others, kappa)]
            if adjacency is REPLACE:
                shifts = [(others, 2 * kappa), (others * (others - 1), mp.sqrt(3) * kappa), (2 * others, kappa)]
            t = mp.mpf(epsilon) - mp.mpf(cost) - mp.mpf(0.005)
            exact = sum(
                times * (mp.ncdf(mu / 2 - t / mu) - mp.exp(t) * mp.ncdf(-mu / 2 - t / mu)) for times, mu in shifts
            )
            found = SoftmaxPerturbation(noise, cost, n_classes, 0.005).curve(adjacency).delta(epsilon)
            assert exact <= found <= exact * (1 + mp.mpf("1e-8"))


def test_two_classes_cost_what_one_margin_of_them_does():
    """Logistic regression of rows of length √2R; a sigmoidal loss is not counted as one here."""
    for adjacency in ADJACENCIES:
        event = SoftmaxPerturbation(5.0, 0.1, 2, 0.01)
        mu, t = 0.2, 1.0 - 0.11
        shifts = [(1, mu)] if adjacency is ADD else [(1, 2 * mu), (2, mu)]
        exact = sum(times * (norm.cdf(s / 2 - t / s) - math.exp(t) * norm.cdf(-s / 2 - t / s)) for times, s in shifts)
        assert event.curve(adjacency).delta(1.0) == pytest.approx(exact, rel=1e-9)


def test_a_sphere_in_place_of_the_corners_would_need_more_noise():
    for n_classes in (3, 4, 10, 26, 100):
        x = np.linspace(0.0, 12.0, 2001)
        corners, sphere = (n_classes - 1) * ndtr(-x), chi.sf(x, n_classes - 1)
        assert (sphere >= corners)[corners < 0.9].all()
    for n_classes, more in ((3, 1.09), (26, 1.66)):
        quantile = chi.isf(1e-5, n_classes - 1)
        assert quantile / norm.isf(1e-5 / (n_classes - 1)) == pytest.approx(more, abs=0.01)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_calibrated_noise_is_kept_and_grows_as_it_should(adjacency):
    def multiplier(epsilon=1.0, delta=1e-5, n_classes=5, **options):
        solver = DPSoftmax(**{"ridge": 1e-3, "cut": 0.5} | options)
        problem = Problem(Softmax(n_classes))
        fit = FitOptions(problem, guarantee=Guarantee(epsilon, delta), solver=solver, adjacency=adjacency).plan(5000, 4)
        assert delta_of(fit.event, epsilon, Adjacency(adjacency)) <= delta
        assert fit.privacy.certified_epsilon <= epsilon
        return fit.calibrated.noise_multiplier

    for falling in (
        [multiplier(epsilon=e) for e in (0.2, 0.5, 1.0, 4.0)],
        [multiplier(delta=d) for d in (1e-9, 1e-7, 1e-5, 1e-3)],
        [multiplier(ridge=r) for r in (3e-4, 1e-3, 1e-2, 1.0)],
        [multiplier(n_classes=k) for k in (50, 10, 5, 2)],
        [multiplier(cut=c) for c in (1.0, 0.5, 0.2, 0.05)],  # by the determinant; the noise itself is c times as much
    ):
        assert falling == sorted(falling, reverse=True)
        assert len(set(falling[:2])) == 2


def test_the_answer_sums_to_zero_over_the_classes_and_the_noise_has_that_many_dimensions():
    problem, n = Problem(Softmax(4), L2(1.0)), 1000
    X, y = np.zeros((n, 50)), np.zeros(n)  # nothing but noise
    solver = DPSoftmax(ridge=0.0, cut=1.0)
    options = {"guarantee": Guarantee(1.0, 1e-6), "solver": solver, "adjacency": "add_remove"}
    fit = FitOptions(problem, **options).plan(n, 50)
    sigma = fit.calibrated.sigma(fit.calibrated.plan.planned[0])
    w = minimize(problem, X, y, random_state=0, **options).w.reshape(4, 50)
    np.testing.assert_allclose(w.sum(axis=0), 0.0, atol=1e-12)
    shrunk = fit.settings.noise_length**2 / (3 * 50) * (n / sigma) ** 2
    assert 0.0 < shrunk < 2.0  # the length that is shrunk by is about that of the noise
    lone = minimize(Problem(Softmax(4), L2(1.0)), X, y, random_state=0, **options | {"solver": replace(solver)}).w
    np.testing.assert_array_equal(lone.reshape(4, 50), w)


def test_a_domain_or_a_penalty_that_is_not_even_keeps_what_it_made():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(800, 3)) / 3.0, rng.integers(3, size=800).astype(float)
    w = minimize(
        Problem(Softmax(3), L1(0.1)), X, y, guarantee=Guarantee(2.0, 1e-5), solver=DPSoftmax(), random_state=0
    ).w
    assert (w == 0.0).any()


class Doubled(Softmax):
    """Of somebody else: what its gradients are is for nobody to say."""


@pytest.mark.parametrize(
    "loss", [OneVsRestHinge(3), Doubled(3), Softmax(3, cut=0.5)], ids=lambda loss: type(loss).__name__
)
def test_a_loss_that_is_not_the_softmax_is_refused(loss):
    problem = Problem(loss, L2(0.1))
    with pytest.raises(UnsupportedProblemError, match="needs the softmax loss"):
        FitOptions(problem, guarantee=Guarantee(1.0, 1e-5), solver=DPSoftmax()).plan(1000, 3)
    with pytest.raises(InvalidParameterError, match="one margin or the softmax"):
        ObjectivePerturbationQuery(setting_of(problem, ADD, 100, 3), 0.1, 1e-6, 0.01, "Gaussian")


@pytest.mark.parametrize(
    "options", [{"cut": 0.0}, {"cut": 1.5}, {"cut": math.nan}, {"ridge": -1.0}, {"nominal_distance": 0.0}]
)
def test_settings_that_mean_nothing_are_refused(options):
    with pytest.raises(InvalidParameterError):
        DPSoftmax(**options)
