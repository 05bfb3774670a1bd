"""Pitfalls 10, 18, 22, 23: the noise that is found keeps the promise, evaluated again by other means."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, LargeDeltaWarning, minimize
from dperm.accounting import calibration
from dperm.accounting.calibration import calibrate, find_noise_multiplier
from dperm.accounting.composition import epsilon_of
from dperm.accounting.curve import gaussian_epsilon
from dperm.errors import NoiseTooLargeError, UnsupportedProblemError
from dperm.mechanisms import GradientQuery, LastIterateQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.plan.transaction import Transaction
from dperm.privacy.guarantee import Adjacency
from dperm.solvers import DPGD
from kernel.harness import logistic_problem, setting_of

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def gaussian_plan(adjacency, count=1, relative=1.0):
    query = GradientQuery(setting_of(logistic_problem(), adjacency))
    return Plan("test", (PlannedQuery(query, count, relative),), {})


def sampled_plan(adjacency, rate, count, anchors=0):
    setting = setting_of(logistic_problem(), adjacency)
    planned = [PlannedQuery(GradientQuery(setting, rate), count)]
    if anchors:
        planned.append(PlannedQuery(GradientQuery(setting), anchors, 3.0))
    return Plan("test", tuple(planned), {})


def test_a_thousand_random_plans_keep_their_promise_and_waste_nothing():
    rng = np.random.default_rng(0)
    for _ in range(1000):
        guarantee = Guarantee(10 ** rng.uniform(-3, 2), 10 ** rng.uniform(-18, -1.01))
        adjacency = list(Adjacency)[rng.integers(2)]
        count, relative = int(10 ** rng.uniform(0, 6)), 10 ** rng.uniform(-3, 3)
        calibrated = calibrate(gaussian_plan(adjacency, count, relative), guarantee)
        # Evaluated again, without the accountant: count releases of μ = 1/(noise · relative) each.
        mu = math.sqrt(count) / (calibrated.noise_multiplier * relative)
        assert gaussian_epsilon(mu, guarantee.delta) <= guarantee.epsilon * (1 + 1e-9)
        assert epsilon_of(calibrated.event(), guarantee.delta, adjacency) <= guarantee.epsilon
        assert gaussian_epsilon(mu * 1.001, guarantee.delta) > guarantee.epsilon


@pytest.mark.one_case_in(6)
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-3), (1.0, 1e-6), (8.0, 1e-9), (100.0, 1e-5)])
@pytest.mark.parametrize(("rate", "count", "anchors"), [(0.005, 320, 4), (0.01, 100_000, 0), (0.3, 1, 0)])
def test_sampled_plans_keep_their_promise_and_waste_little(epsilon, delta, adjacency, rate, count, anchors):
    calibrated = calibrate(sampled_plan(adjacency, rate, count, anchors), Guarantee(epsilon, delta))
    found = epsilon_of(calibrated.event(), delta, adjacency)
    assert 0.98 * epsilon <= found <= epsilon


def test_the_noise_of_replacing_is_exactly_twice_that_of_adding():
    guarantee = Guarantee(1.0, 1e-6)
    sigmas = {}
    for adjacency in Adjacency:
        calibrated = calibrate(gaussian_plan(adjacency, 10), guarantee)
        sigmas[adjacency] = calibrated.sigma(calibrated.plan.planned[0])
    assert sigmas[REPLACE] == pytest.approx(2 * sigmas[ADD], rel=1e-9)


def test_noise_grows_with_steps_and_falls_with_epsilon_and_delta():
    def noise(epsilon=1.0, delta=1e-6, count=10):
        return calibrate(gaussian_plan(ADD, count), Guarantee(epsilon, delta)).noise_multiplier

    assert noise(count=11) > noise() > noise(count=9)
    assert noise(epsilon=0.9) > noise() > noise(epsilon=1.1)
    assert noise(delta=1e-7) > noise() > noise(delta=1e-5)


def test_extreme_targets_give_a_finite_bound():
    for adjacency in Adjacency:
        for guarantee in (Guarantee(100.0, 1e-18), Guarantee(1e-3, 1e-18), Guarantee(100.0, 0.09)):
            assert 0 < calibrate(gaussian_plan(adjacency), guarantee).noise_multiplier < math.inf


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_a_delta_that_no_grid_can_certify_is_refused_in_a_sentence(adjacency):
    """The search adds noise until it gives up, and never ends in an overflow."""
    plan, guarantee = sampled_plan(adjacency, 0.01, 50), Guarantee(0.5, 1e-14)
    assert find_noise_multiplier(plan, guarantee) is None
    with pytest.raises(NoiseTooLargeError, match=r"no certified noise was found.*use a larger delta"):
        calibrate(plan, guarantee)


def test_the_noise_that_is_found_is_the_noise_that_a_calibrated_plan_has():
    plan, guarantee = sampled_plan(ADD, 0.01, 50, 2), Guarantee(0.5, 1e-6)
    assert calibrate(plan, guarantee) == CalibratedPlan(plan, find_noise_multiplier(plan, guarantee))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, None, "1", True])
def test_an_epsilon_that_promises_nothing_is_refused(bad):
    with pytest.raises(InvalidParameterError, match="epsilon"):
        Guarantee(bad, 1e-6)


@pytest.mark.parametrize("bad", [1e-70, -1e-6, 0.1, 0.5, 1.0, math.nan, math.inf, None])
def test_a_delta_outside_its_range_is_refused(bad):
    with pytest.raises(InvalidParameterError, match="delta"):
        Guarantee(1.0, bad)


def test_a_delta_of_zero_is_refused_by_a_solver_with_gaussian_noise():
    with pytest.raises(UnsupportedProblemError, match="pure ε"):
        FitOptions(logistic_problem(), guarantee=Guarantee(1.0, 0.0), solver="dp-gd").plan(1000, 3)


def test_a_delta_of_one_over_n_warns():
    X = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(LargeDeltaWarning):
        minimize(logistic_problem(), X, np.ones(100), guarantee=Guarantee(1.0, 0.01))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_degenerate_noise_never_means_no_noise(bad):
    plan = gaussian_plan(ADD)
    query = plan.planned[0].query
    for refused in (
        lambda: CalibratedPlan(plan, bad),
        lambda: query.event(bad),
        lambda: query.event(bad),
        lambda: PlannedQuery(query, 1, bad),
        lambda: GradientQuery(query.setting, bad),
        lambda: LastIterateQuery(query.setting, 5, bad),
    ):
        with pytest.raises(InvalidParameterError):
            refused()


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, None])
def test_degenerate_counts_are_refused(bad):
    query = GradientQuery(setting_of(logistic_problem(), ADD))
    with pytest.raises(InvalidParameterError):
        PlannedQuery(query, bad)
    with pytest.raises(InvalidParameterError):
        LastIterateQuery(query.setting, bad, 0.1)


def test_the_paper_noise_is_stated_as_what_it_is_worth():
    solver = DPGD(accounting="composition")
    fit = FitOptions(logistic_problem(), guarantee=Guarantee(1.0, 1e-3), noise="paper", solver=solver).plan(10_000, 5)
    assert not fit.statement.for_release
    assert fit.privacy.certified_delta > 0.04
    assert "nominally" in str(fit.privacy)
    assert "NOT FOR RELEASE" in str(fit.statement)


def test_a_plan_with_less_noise_than_it_promises_is_refused_before_a_row_is_read():
    plan = FitOptions(logistic_problem(), guarantee=Guarantee(1.0, 1e-6), solver="dp-gd").plan(1000, 3)
    noise = plan.calibrated.noise_multiplier
    Transaction(plan, None, None, found=1000).__enter__()
    less = replace(plan, parts=(plan.calibrated.plan.with_noise(0.999 * noise),))
    with pytest.raises(NoiseTooLargeError, match="does not keep its guarantee"):
        Transaction(less, None, None, found=1000).__enter__()


@pytest.mark.parametrize("height", [1e-9, 0.5, 40.0])
def test_noise_is_found_where_delta_falls_off_a_cliff(height):
    """As it does where the privacy loss is bounded: the slope there says nothing."""
    for cliff in (-2.0, 0.0, 0.3, 5.5):

        def gap(point, cliff=cliff):
            return height * (1.0 + cliff - point) if point < cliff else -1.956011502714073

        found = calibration._falling_root(gap, 0.0)
        assert cliff <= found <= cliff + 1e-10
