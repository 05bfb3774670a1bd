"""Pitfalls 7, 8, 9, 16, 18, 20, 33: differences and printed epochs move, and are noised and charged as declared."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from contracts.discovered import LOSSES
from contracts.solvers import SOLVER_EXAMPLES, STEADY_EXAMPLES
from dperm import FitOptions, Guarantee, InvalidParameterError, Problem
from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.curve import gaussian_delta, gaussian_epsilon, gaussian_mu
from dperm.accounting.events import Gaussian, PoissonSampledGaussian
from dperm.errors import UnsupportedProblemError
from dperm.kernel import sampling
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import DifferenceQuery, GradientQuery, PrintedEpochQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.paper import PrintedSVRG, PrintedSVRGPlusPlus
from dperm.paper.printed import published_plan
from dperm.paper.printed.printed import calibrate_as_printed, least_noise_share
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, L1Ball, L2Ball, Logistic, Sigmoid, Softmax, Squared
from dperm.rows.arrays import ArraySource
from dperm.solvers import DPSVRG, DPKatyusha, DPSVRGPlusPlus
from dperm.solvers.variance_reduced.dp_svrg import barzilai_borwein_step
from kernel.harness import (
    BlindOracle,
    Liar,
    N,
    P,
    RecordingOracle,
    VectorLiar,
    base_table,
    ignored_table,
    logistic_problem,
    neighbours,
    only_row,
    record_differences,
    record_epochs,
    setting_of,
)
from kernel.test_sensitivity import ADJACENCIES, STORAGE, problem_for

GUARANTEE = Guarantee(1.0, 1e-6)
STEER = np.eye(P)[0]
SVRG = [DPSVRG(), PrintedSVRG(), DPSVRGPlusPlus(), PrintedSVRGPlusPlus(), DPKatyusha()]


def pairs_for(problem):
    """Pairs (w, anchor) that are near, at a medium distance and far apart."""
    rng = np.random.default_rng(5)
    anchor, direction = rng.normal(size=(2, problem.dimension(P)))
    direction /= np.linalg.norm(direction)
    near_zero = [(distance * direction, np.zeros(anchor.size)) for distance in (1e-9, 1e-3)]
    apart = [(anchor + distance * direction, anchor) for distance in (0.0, 1e-9, 1e-3, 0.5, 50.0)]
    return near_zero + apart + [(50.0 * np.sign(anchor), -50.0 * np.sign(anchor))]


def distances(pairs):
    return [float(np.linalg.norm(w - anchor)) for w, anchor in pairs]


# --- Differences: sensitivity ---


@pytest.mark.one_case_in(9)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_hostile_row_moves_any_losses_difference_beyond_its_sensitivity(loss, intercept, adjacency):
    problem = problem_for(loss, intercept)
    pairs = pairs_for(problem)
    table = base_table(n_classes=3 if loss.n_outputs > 1 else 2)
    before, query = record_differences(problem, table, adjacency, pairs)
    allowed = [query.sensitivity_at_distance(distance) for distance in distances(pairs)]
    for other in neighbours(table, adjacency):
        after, _ = record_differences(problem, other, adjacency, pairs)
        for one, two, bound in zip(before.exact, after.exact, allowed, strict=True):
            assert np.isfinite(two).all(), other.name
            assert np.linalg.norm(one - two) <= bound, other.name


@pytest.mark.one_case_in(2)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("storage", STORAGE, ids=str)
def test_no_hostile_row_moves_the_difference_beyond_its_sensitivity_in_any_storage(storage, adjacency):
    problem = logistic_problem(intercept=True)
    pairs = pairs_for(problem)
    before, query = record_differences(problem, base_table(), adjacency, pairs, as_rows=STORAGE[storage])
    for other in neighbours(base_table(), adjacency):
        after, _ = record_differences(problem, other, adjacency, pairs, as_rows=STORAGE[storage])
        for one, two, distance in zip(before.exact, after.exact, distances(pairs), strict=True):
            assert np.linalg.norm(one - two) <= query.sensitivity_at_distance(distance), other.name


def test_the_declared_constants_are_two_slopes_or_the_smoothness_times_the_distance():
    problem = logistic_problem(intercept=True, row_norm=3.0, weight_bound=2.0)
    query = DifferenceQuery(setting_of(problem, Adjacency.REPLACE_ONE), 0.1)
    # G = 2·√18, L = 2·18/4; replacing moves two records; the divisor is qn.
    assert query.sensitivity == pytest.approx(2 * 2 * 2 * math.sqrt(18) / (0.1 * N), rel=1e-6)
    assert query.sensitivity_at_distance(1e-3) == pytest.approx(2 * 9e-3 / (0.1 * N), rel=1e-6)
    removed = DifferenceQuery(setting_of(problem, Adjacency.ADD_REMOVE), 0.1)
    assert removed.sensitivity_at_distance(1e-3) == pytest.approx(query.sensitivity_at_distance(1e-3) / 2)


@pytest.mark.parametrize("distance", [1e-6, 1e-3, 0.1])
def test_a_logistic_row_along_the_step_moves_the_difference_by_all_that_is_declared(distance):
    problem = logistic_problem()
    pairs = [(distance * STEER, np.zeros(P))]
    present, query = record_differences(problem, only_row(STEER, 1.0), Adjacency.ADD_REMOVE, pairs)
    absent, _ = record_differences(problem, ignored_table(), Adjacency.ADD_REMOVE, pairs)
    assert np.linalg.norm(present.exact[0] - absent.exact[0]) >= 0.95 * query.sensitivity_at_distance(distance)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("distance", [1e-6, 1e-3, 1.0, 50.0])
@pytest.mark.parametrize("loss", [Liar(), VectorLiar()], ids=repr)
def test_a_loss_that_lies_is_held_to_the_declared_difference(loss, distance, intercept, adjacency):
    """Near, a row is held to L·distance, far to 2G; a bound smaller by 5 % would be exceeded."""
    problem = Problem(loss, intercept=intercept, weight_bound=3.0)
    step = np.zeros((loss.n_outputs, P + intercept))
    step[:, [0, -1] if intercept else 0] = distance / math.sqrt(loss.n_outputs * (1 + intercept))  # along the row
    step = step.ravel()
    one, query = record_differences(problem, only_row(STEER, 1.0, 3.0), adjacency, [(step, 0 * step)])
    opposite = only_row(STEER, -1.0, 3.0) if adjacency is Adjacency.REPLACE_ONE else ignored_table()
    two, _ = record_differences(problem, opposite, adjacency, [(step, 0 * step)])
    moved = np.linalg.norm(one.exact[0] - two.exact[0])
    if adjacency is Adjacency.REPLACE_ONE and distance == 50.0:
        assert moved == pytest.approx(query.record_bound(distance) / N)  # the furthest have other rows, below
        return
    assert 0.95 * query.sensitivity_at_distance(distance) <= moved <= query.sensitivity_at_distance(distance)


@pytest.mark.parametrize("distance", [0.3, 8.0, 11.4, 13.0, 20.0, 200.0])
@pytest.mark.parametrize("loss", [Liar(), Logistic()], ids=repr)
def test_two_rows_of_a_convex_loss_share_a_ball_and_reach_its_width(loss, distance):
    """Full batch, one row replaced: L·distance at most and not twice that; far apart the corners of a lens."""
    problem = Problem(loss)
    query = DifferenceQuery(setting_of(problem, Adjacency.REPLACE_ONE), 1.0)
    lipschitz, smoothness = query.setting.constants.lipschitz, query.setting.constants.smoothness
    assert query.sensitivity_at_distance(distance) * N <= smoothness * distance * (1 + 1e-9)
    assert query.sensitivity_at_distance(distance) * N <= 4 * lipschitz * (1 + 1e-9)
    slant = min(1.0, 2 * lipschitz / (smoothness * distance))
    worst = 0.0
    for cosine in (slant, 1.0, 0.999, 0.8, 0.5, 0.2):
        sine = math.sqrt(1.0 - cosine**2)
        rows = [only_row(cosine * STEER + side * sine * np.eye(P)[1], 1.0) for side in (1.0, -1.0)]
        rows.append(only_row(cosine * STEER, -1.0))
        answers = [
            record_differences(problem, row, Adjacency.REPLACE_ONE, [(distance * STEER, 0 * STEER)])[0].exact[0]
            for row in rows
        ]
        worst = max(worst, *(np.linalg.norm(a - b) for a, b in itertools.combinations(answers, 2)))
    assert worst <= query.sensitivity_at_distance(distance)
    if isinstance(loss, Liar):  # so that a sensitivity five per cent smaller would be exceeded
        assert worst >= 0.95 * query.sensitivity_at_distance(distance)


def test_only_full_batches_of_convex_losses_gain_by_the_ball():
    convex, other = Problem(Logistic()), Problem(Sigmoid())
    for problem, adjacency, rate in (
        (other, Adjacency.REPLACE_ONE, 1.0),
        (convex, Adjacency.ADD_REMOVE, 1.0),
        (convex, Adjacency.REPLACE_ONE, 0.5),
    ):
        query = DifferenceQuery(setting_of(problem, adjacency), rate)
        assert query.ball_smoothness is None
        moved = adjacency.records_moved * query.setting.constants.smoothness * 1e-3 / (rate * N)
        assert query.sensitivity_at_distance(1e-3) == pytest.approx(moved, rel=1e-6)
    query = DifferenceQuery(setting_of(convex, Adjacency.REPLACE_ONE), 1.0)
    assert query.ball_smoothness == query.setting.constants.smoothness


@pytest.mark.parametrize(("rate", "noise"), [(0.1, 1.0), (0.5, 0.5), (0.02, 2.0)])
def test_the_curve_that_samples_of_rows_in_one_ball_would_have_is_a_bound(rate, noise):
    """Mixtures of N(0), N(a) and N(a') with a, a' and a − a' at most 1 long, by integration in the plane."""
    x = np.linspace(-7.0 * noise - 1, 7.0 * noise + 1, 1001)
    first, second = np.meshgrid(x, x)

    def density(point):
        return np.exp(-0.5 * ((first - point[0]) ** 2 + (second - point[1]) ** 2) / noise**2)

    scale = (x[1] - x[0]) ** 2 / (2 * math.pi * noise**2)
    for a, b in (((1, 0), (0, 0)), ((0.5, 0.5), (0.5, -0.5)), ((0.5, math.sqrt(0.75)), (1, 0))):
        one, two = ((1 - rate) * density((0, 0)) + rate * density(point) for point in (a, b))
        for epsilon in (0.0, 0.05, 0.3, 1.0):
            exact = max(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * scale for p, q in ((one, two), (two, one)))
            bound = rate * gaussian_delta(1.0 / noise, math.log1p(math.expm1(epsilon) / rate))
            assert exact <= bound * (1 + 1e-3) + 1e-9  # the first pair reaches it, up to the integration


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("distance", [1e-3, 50.0])
def test_a_sampled_difference_moves_by_its_sensitivity_and_no_further(distance, rate, adjacency):
    """The same batches on two tables: a batch with the record in it moves the answer by more than a full one would."""
    problem = Problem(Liar())
    pairs = [(distance * STEER, np.zeros(P))] * 100
    one, query = record_differences(problem, only_row(STEER, 1.0), adjacency, pairs, rate)
    opposite = only_row(STEER, -1.0) if adjacency is Adjacency.REPLACE_ONE else ignored_table()
    two, _ = record_differences(problem, opposite, adjacency, pairs, rate)
    moves = [np.linalg.norm(a - b) for a, b in zip(one.exact, two.exact, strict=True)]
    assert 0.95 * query.sensitivity_at_distance(distance) <= max(moves) <= query.sensitivity_at_distance(distance)
    assert query.sensitivity == pytest.approx(
        adjacency.records_moved * query.record_bound(math.inf) / (rate * N), rel=1e-6
    )


# --- Differences: noise ---


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("rate", [10 / N, 1.0])
@pytest.mark.parametrize("distance", [0.0, 1e-3, 50.0])
def test_differences_of_nothing_show_the_planned_noise(distance, rate, adjacency):
    problem = logistic_problem()
    draws = 2000
    pairs = [(np.ones(P) + distance * STEER, np.ones(P))] * draws
    oracle, query = record_differences(
        problem, ignored_table(), adjacency, pairs, rate, noise=1.7, relative_noise=0.6, seed=11
    )  # fmt: skip
    answers = np.array(oracle.answers)
    reach = 0.25 * float(np.linalg.norm(pairs[0][0] - pairs[0][1])) or 1e-12  # G = 1, L = ¼
    moved = adjacency.records_moved * min(2.0, reach)
    if rate == 1.0 and adjacency is Adjacency.REPLACE_ONE:  # logistic loss is convex
        moved = reach if reach < 2.0 else 4.0 * math.sqrt(1.0 - (2.0 / reach) ** 2)
    planned = 1.7 * 0.6 * moved / (rate * N)
    assert planned == pytest.approx(1.7 * 0.6 * query.sensitivity_at_distance(distance), rel=1e-6)
    # The standard error of an estimated standard deviation is σ/√(2k); four of them: false alarm 6e-5, fixed seed.
    assert abs(answers.std() - planned) <= 4 * planned / math.sqrt(2 * answers.size)
    assert abs(answers.mean()) <= 4 * planned / math.sqrt(answers.size)
    assert len(np.unique(answers)) == answers.size


def test_a_difference_at_two_equal_points_is_noised_and_charged():
    problem = logistic_problem()
    oracle, query = record_differences(problem, base_table(), Adjacency.ADD_REMOVE, [(np.ones(P), np.ones(P))])
    assert query.sensitivity_at_distance(0.0) > 0
    assert np.abs(oracle.answers[0]).min() > 0
    assert set(oracle._left.values()) == {0}


# --- Printed epochs: sensitivity ---


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("intercept", [False, True])
def test_no_hostile_row_moves_a_printed_step_beyond_both_its_parts(intercept, adjacency):
    problem = logistic_problem(intercept=intercept)
    pairs = pairs_for(problem)
    # Where a row comes, the batches of a sampled step would differ for another reason than that row.
    rates = (1.0, 0.3) if adjacency is Adjacency.REPLACE_ONE else (1.0,)
    for rate in rates:
        before, query = record_epochs(problem, base_table(), adjacency, pairs, rate, noise=None)
        per_row = query.setting.sum_sensitivity / N
        for other in neighbours(base_table(), adjacency):
            after, _ = record_epochs(problem, other, adjacency, pairs, rate, noise=None)
            for one, two in zip(before.answers, after.answers, strict=True):
                assert np.isfinite(two).all(), other.name
                assert np.linalg.norm(one[2] - two[2]) <= per_row + 2 * per_row / rate, other.name


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_a_loss_that_lies_moves_a_printed_step_by_all_that_is_declared_and_no_further(rate, adjacency):
    problem = Problem(Liar(), weight_bound=3.0)
    opposite = only_row(STEER, -1.0, 3.0) if adjacency is Adjacency.REPLACE_ONE else ignored_table()

    def furthest(start, anchor):
        answers = [
            record_epochs(problem, table, adjacency, [(start, anchor)] * 60, rate, noise=None)[0].answers
            for table in (only_row(STEER, 1.0, 3.0), opposite)
        ]
        return max(np.linalg.norm(one[2] - two[2]) for one, two in zip(*answers, strict=True))

    query = PrintedEpochQuery(setting_of(problem, adjacency), rate, 1, 0.4)
    one_record = adjacency.records_moved * 3.0 / N  # G = 3
    assert query.sensitivity == pytest.approx(2 * one_record / rate, rel=1e-6)
    # At an anchor of 0 the liar has no slope: the sampled part alone.
    assert 0.95 * query.sensitivity <= furthest(50 * STEER, 0 * STEER) <= query.sensitivity
    both = query.sensitivity + query.setting.sum_sensitivity / N
    assert 0.95 * both <= furthest(50 * STEER, STEER) <= both


# --- Printed epochs: noise and privacy cost ---


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("chunk", [None, 40])
def test_printed_epochs_over_nothing_show_the_planned_noise(chunk, adjacency, monkeypatch):
    if chunk is not None:  # several pieces per epoch
        monkeypatch.setattr(sampling, "_NUMBERS_AT_ONCE", chunk)
    rate, n_steps, epochs = 0.05, 25, 400
    problem = Problem(Logistic())
    start = np.ones(P)
    oracle, _ = record_epochs(
        problem, ignored_table(), adjacency, [(start, start)] * epochs, rate, n_steps, noise=1.7, relative_noise=0.6,
        step_size=0.5, seed=12,
    )  # fmt: skip
    sigma = 1.7 * 0.6 * 2 * adjacency.records_moved / (rate * N)  # G = 1
    last, mean, direction = np.moveaxis(np.array(oracle.answers), 1, 0)
    # A walk of m independent steps of η·σ; its mean weighs the steps by (m, m − 1 … 1)/m.
    weights = np.arange(n_steps, 0, -1) / n_steps
    expected = [0.5 * sigma * math.sqrt(n_steps), 0.5 * sigma * math.sqrt((weights**2).sum()), sigma / n_steps**0.5]
    for found, planned in zip((last - start, mean - start, direction), expected, strict=True):
        # Four standard errors: false alarm 6e-5 each, fixed seed.
        assert abs(found.std() - planned) <= 4 * planned / math.sqrt(2 * found.size)
        assert abs(found.mean()) <= 4 * planned / math.sqrt(found.size)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("rate", [0.03, 1.0])
@pytest.mark.parametrize("share", [0.2, 1 / 3, 0.9])
def test_a_printed_epoch_costs_a_gaussian_and_a_sampled_gaussian_per_step(share, rate, adjacency):
    problem = Problem(Logistic(), row_norm=2.0)
    query = PrintedEpochQuery(setting_of(problem, adjacency), rate, 7, share)
    sigma = 5.0 * query.sensitivity
    anchor, difference = [], []
    for leaf, count in PlannedQuery(query, 3, 0.5).event(10.0).leaves():
        assert count == 7 * 3
        (difference if isinstance(leaf, PoissonSampledGaussian) else anchor).append(leaf)
    if rate == 1.0:
        anchor, difference = anchor[:1], anchor[1:]
    else:
        assert difference[0].sampling_probability == rate
    # Events have multipliers relative to one record, under both adjacencies: G = 2, then 2G on a sample.
    sampled = Gaussian if rate == 1.0 else PoissonSampledGaussian
    assert [type(leaf) for leaf in anchor + difference] == [Gaussian, sampled]
    assert anchor[0].noise_multiplier == pytest.approx(math.sqrt(share) * sigma / (2.0 / N), rel=1e-6)
    expected = math.sqrt(1 - share) * sigma / (4.0 / (rate * N))
    assert difference[0].noise_multiplier == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_difference_is_accounted_as_a_sampled_gaussian_relative_to_one_record(adjacency):
    query = DifferenceQuery(setting_of(logistic_problem(), adjacency), 0.03)
    ((leaf, count),) = PlannedQuery(query, 11, 0.5).event(4.0).leaves()
    assert count == 11
    assert leaf.sampling_probability == 0.03
    sigma = 2.0 * query.sensitivity
    assert leaf.noise_multiplier == pytest.approx(sigma / (2.0 / (0.03 * N)), rel=1e-6)  # 2G = 2
    near = 2.0 * query.sensitivity_at_distance(1e-3)
    assert leaf.noise_multiplier == pytest.approx(near / (0.25e-3 / (0.03 * N)), rel=1e-6)  # L·distance
    ((leaf, _),) = DifferenceQuery(query.setting, 1.0).event(2.0).leaves()
    assert leaf == Gaussian(2.0 * adjacency.records_moved)


def central_limit(rate, multiplier, adjacency):
    """About the squared μ that one of many sampled Gaussians adds."""
    if rate == 1.0:
        return multiplier**-2
    if adjacency is Adjacency.ADD_REMOVE:
        return rate**2 * math.expm1(min(multiplier**-2, 500.0))
    quarter = min(multiplier**-2 / 4, 500.0)
    return 2.0 * rate**2 * (math.exp(quarter) - math.exp(-quarter))


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("multiplier", [0.7, 2.0])
def test_many_sampled_answers_cost_about_what_the_central_limit_says(multiplier, adjacency):
    rate, count = 0.01, 10_000
    event = PlannedQuery(DifferenceQuery(setting_of(logistic_problem(), adjacency), rate), count).event(multiplier)
    mu = math.sqrt(count * central_limit(rate, multiplier, adjacency))
    assert epsilon_of(event, 1e-3, adjacency) == pytest.approx(gaussian_epsilon(mu, 1e-3), rel=0.05)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("rate", [0.005, 0.1, 1.0])
@pytest.mark.parametrize("mu", [1e-3, 0.2, 1.0])
def test_no_other_share_needs_less_noise(mu, rate, adjacency):
    def needed(share):
        def excess(log_sigma):
            # In units of what a table moves the anchor's gradient by; a sampled difference moves by 2/q of that.
            sigma = math.exp(log_sigma)
            sampled = central_limit(rate, math.sqrt(1.0 - share) * sigma / (2.0 / rate), adjacency)
            return 1000 * (1.0 / (share * sigma**2) + sampled) - mu**2

        return brentq(excess, math.log(0.1 / rate), math.log(1e9))

    chosen = least_noise_share(rate, 1000, mu, adjacency)
    assert needed(chosen) <= min(needed(k / 200) for k in range(2, 160)) + 1e-3
    if mu == 1e-3:  # ample noise: 1/s + 4/(1 − s) is smallest at 1/3
        assert chosen == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_share_is_found_for_every_rate_number_of_steps_and_budget(adjacency):
    """From samples of hardly a row to all rows, from hardly any noise to all that is ever needed."""
    for rate, steps, mu in itertools.product((1e-12, 1e-6, 0.01, 1.0), (1, 10**8), (1e-9, 1e-3, 1.0, 1e4)):
        assert 0.0 < least_noise_share(rate, steps, mu, adjacency) < 1.0


def test_noise_that_hides_nothing_of_the_samples_goes_to_the_anchors():
    plan = PrintedSVRG(n_epochs=1, n_inner=100, sampling_rate=1e-3).plan(
        setting_of(logistic_problem(), Adjacency.REPLACE_ONE), Guarantee(1.0, 1e-3)
    )
    calibrated = calibrate_as_printed(plan, 1e-3 * plan.planned[0].query.sensitivity, 1.0)
    assert calibrated.plan.planned[0].query.anchor_share == 0.99
    assert calibrated.noise_multiplier == pytest.approx(1e-3)


# --- The paper's noise ---


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_the_papers_own_setting_is_certified_for_a_delta_near_the_chance_of_being_drawn(epsilon, adjacency):
    solver = DPSVRG(n_epochs=15, n_inner=5000)
    fit = FitOptions(
        Problem(Logistic(), L2(0.01)),
        guarantee=Guarantee(epsilon, 1e-3),
        solver=solver,
        noise="paper",
        adjacency=adjacency,
    ).plan(200_000, 54)
    drawn = 1.0 - (1.0 - 1.0 / 200_000) ** 75_000
    assert 0.3127 <= drawn < 0.3128
    assert drawn * (1 - 1e-9) <= fit.statement.certified_delta <= 0.75
    assert not fit.statement.for_release
    assert "NOT FOR RELEASE" in str(fit.statement)
    assert f"ε = {epsilon:g}, δ = 0.001" in str(fit.statement)
    assert f"certified is δ = {fit.statement.certified_delta:.3g}" in str(fit.statement)
    assert fit.statement.n_steps == 75_000


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("constant", [1.0, 0.25])
def test_the_papers_noise_is_that_of_equations_3_and_6(constant, adjacency):
    problem = Problem(Logistic(), L2(0.02), row_norm=3.0)  # G = 3
    setting = setting_of(problem, adjacency, n=5000)
    guarantee = Guarantee(0.3, 1e-4)
    calibrated = published_plan(
        PrintedSVRG(n_epochs=4, n_inner=70, paper_constant=constant), setting, guarantee
    ).calibrated
    assert [item.query.n_steps for item in calibrated.plan.planned] == [70] * 4
    expected = 3.0 * math.sqrt(constant * 4 * 70 * math.log(1e4)) / (5000 * 0.3)
    assert [calibrated.sigma(item) for item in calibrated.plan.planned] == pytest.approx([expected] * 4)
    calibrated = published_plan(
        PrintedSVRGPlusPlus(n_epochs=4, n_inner=9, paper_constant=constant), setting, guarantee
    ).calibrated
    assert [item.query.n_steps for item in calibrated.plan.planned] == [18, 36, 72, 144]
    expected = 3.0 * math.sqrt(constant * 2**4 * 9 * math.log(2e4)) / (5000 * 0.3)
    assert [calibrated.sigma(item) for item in calibrated.plan.planned] == pytest.approx([expected] * 4)
    assert {item.query.sampling_rate for item in calibrated.plan.planned} == {1 / 5000}


def test_the_papers_noise_is_divided_as_the_certified_delta_likes_it_best():
    adjacency = Adjacency.ADD_REMOVE
    setting = setting_of(logistic_problem(), adjacency, n=2000)
    solver = PrintedSVRG(n_epochs=2, n_inner=500, paper_constant=1.0, sampling_rate=0.05)
    calibrated = published_plan(solver, setting, Guarantee(1.0, 1e-3)).calibrated

    def delta(share):
        query = calibrated.plan.planned[0].query
        other = PlannedQuery(replace(query, anchor_share=share), 2)
        return delta_of(CalibratedPlan(Plan("test", (other,), {}), calibrated.noise_multiplier).event(), 1.0, adjacency)

    chosen = delta(calibrated.plan.planned[0].query.anchor_share)
    assert 1e-6 < chosen < 0.9
    assert chosen <= 1.001 * min(delta(share) for share in (0.02, 0.1, 0.2, 1 / 3, 0.5, 0.8, 0.95))


# --- What is asked is what was accounted for ---


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("share", [None, 0.7])
def test_anchors_are_counted_once_an_epoch_and_get_their_growing_share(share, adjacency):
    solver = DPSVRG(n_epochs=4, n_inner=30, sampling_rate=0.1, anchor_share=share, anchor_growth=5.0)
    plan = solver.plan(setting_of(logistic_problem(), adjacency, n=5000), GUARANTEE)
    *anchors, differences = plan.planned
    assert [(item.query, item.count) for item in anchors] == [(GradientQuery(plan.planned[0].query.setting), 1)] * 4
    assert differences.query == DifferenceQuery(anchors[0].query.setting, 0.1)
    assert differences.count == 4 * 30
    for earlier, later in itertools.pairwise(anchors):
        assert earlier.relative_noise / later.relative_noise == pytest.approx(math.sqrt(5.0))
    budget = gaussian_mu(GUARANTEE) ** 2
    spent = sum(1 / item.relative_noise**2 for item in anchors)
    sampled = 120 * central_limit(0.1, differences.relative_noise, adjacency)
    assert spent + sampled == pytest.approx(budget)
    assert 0.499 * budget <= spent <= 0.951 * budget
    if share is not None:
        assert spent == pytest.approx(share * budget)


@pytest.mark.parametrize("solver", SVRG, ids=repr)
def test_plans_count_every_step_and_every_gradient(solver):
    setting = setting_of(logistic_problem(), Adjacency.REPLACE_ONE, n=5000)
    plan = replace(solver, n_epochs=3, n_inner=8, sampling_rate=0.1).plan(setting, GUARANTEE)
    inner = 16 + 32 + 64 if isinstance(solver, DPSVRGPlusPlus | PrintedSVRGPlusPlus) else 24
    printed = isinstance(solver, PrintedSVRG | PrintedSVRGPlusPlus)
    assert plan.n_steps == inner + (0 if printed else 3)
    assert plan.passes == pytest.approx(3 + 2 * 0.1 * inner)


def run_counted(solver, oracle_type=RecordingOracle, table=None, multiplier=1.0):
    """Run a solver on the first of four problems that it takes; its noise does not matter here."""
    table = table or base_table()
    ball = Problem(Squared(), domain=L2Ball(2.0))
    problems = (logistic_problem(), Problem(Logistic(), domain=L1Ball(3.0)), ball, Problem(Softmax(3), L2(0.1)))
    problem = next(problem for problem in problems if solver.refusal(problem) is None)
    setting = setting_of(problem, Adjacency.REPLACE_ONE, n=len(table.y))
    calibrated = CalibratedPlan(solver.plan(setting, GUARANTEE), multiplier)
    rows = ArraySource(table.X, table.y)
    done = []
    with oracle_type(
        rows, problem, setting, calibrated, Randomness.from_random_state(0), lambda *pair: done.append(pair)
    ) as oracle:  # fmt: skip
        return solver.run(oracle, problem, calibrated.plan, problem.start(P)), oracle, done


@pytest.mark.parametrize("solver", STEADY_EXAMPLES, ids=repr)
def test_a_run_asks_all_that_was_paid_for_and_nothing_else(solver):
    _, oracle, done = run_counted(solver)
    assert set(oracle._left.values()) == {0}
    total = oracle._calibrated.plan.n_steps
    assert done[-1] == (total, total)


@pytest.mark.parametrize("solver", SVRG, ids=repr)
def test_every_answer_of_a_run_gets_the_noise_of_its_own_item(solver):
    expected = []

    class Watched(RecordingOracle):
        def ask(self, item, *points, **more):
            if isinstance(item.query, GradientQuery):
                expected.append(3.0 * item.relative_noise * item.query.sensitivity_at(points[0]))
            elif isinstance(item.query, DifferenceQuery):
                expected.append(3.0 * item.relative_noise * item.query.sensitivity_at(*points))
            return super().ask(item, *points, **more)

    _, oracle, _ = run_counted(solver, Watched, multiplier=3.0)
    planned = oracle._calibrated.plan.planned
    if isinstance(planned[0].query, PrintedEpochQuery):
        assert set(oracle.sigmas) == {3.0 * planned[0].query.sensitivity}
        return
    assert oracle.sigmas == pytest.approx(expected, rel=1e-12)
    assert len(oracle.sigmas) == sum(item.count for item in planned)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_progress_of_a_printed_epoch_does_not_tell_how_many_rows_there_are(adjacency, monkeypatch):
    monkeypatch.setattr(sampling, "_NUMBERS_AT_ONCE", 1000)  # ten steps a piece at 0.5 · 200 rows, nine at 0.5 · 201
    problem = logistic_problem()
    setting = setting_of(problem, adjacency)
    item = PlannedQuery(PrintedEpochQuery(setting, 0.5, 30, 0.4))

    def reported(table):
        done = []
        rows = ArraySource(table.X, table.y)
        calibrated, randomness = CalibratedPlan(Plan("test", (item,), {}), 1.0), Randomness.from_random_state(0)
        with Oracle(rows, problem, setting, calibrated, randomness, lambda *pair: done.append(pair)) as oracle:
            oracle.ask(item, np.zeros(P), np.zeros(P), step_size=1.0)
        return done

    assert reported(base_table()) == [(10, 30), (20, 30), (30, 30)]
    for other in neighbours(base_table(), adjacency):
        assert reported(other) == [(10, 30), (20, 30), (30, 30)]


# --- Barzilai-Borwein steps ---


@pytest.mark.parametrize("kind", [DPSVRG, PrintedSVRG])
def test_barzilai_borwein_steps_come_from_released_values_only(kind):
    solver = kind(barzilai_borwein=True, n_epochs=4, n_inner=20, sampling_rate=0.2)
    reference, _, _ = run_counted(solver, BlindOracle)
    for other in neighbours(base_table(), Adjacency.REPLACE_ONE):
        np.testing.assert_array_equal(run_counted(solver, BlindOracle, other)[0], reference)
    plain = kind(n_epochs=4, n_inner=20, sampling_rate=0.2)
    assert not np.array_equal(run_counted(plain, BlindOracle)[0], reference)
    assert DPSVRG(barzilai_borwein=True) in SOLVER_EXAMPLES  # so the boundary's tests run it as well


def test_a_barzilai_borwein_step_is_the_inverse_curvature_and_stays_within_public_bounds():
    setting = setting_of(logistic_problem(), Adjacency.REPLACE_ONE)  # L = ¼, μ = 0.1
    plan = DPSVRG().plan(setting, GUARANTEE)
    rng = np.random.default_rng(0)
    moved = rng.normal(size=P)
    for curvature in (0.11, 0.2, 0.24):
        assert barzilai_borwein_step(moved, curvature * moved, 20, plan) == pytest.approx(1 / (20 * curvature))
    spectrum = np.linspace(0.12, 0.22, P)  # an exact quadratic: a weighted mean of its curvatures
    step = barzilai_borwein_step(moved, spectrum * moved, 20, plan)
    assert step == pytest.approx(moved @ moved / (20 * (moved @ (spectrum * moved))))
    for n_inner in (1, 2, 20, 500):
        low, high = 1 / (n_inner * 0.25), min(1 / 0.25, 1 / (n_inner * 0.1))
        assert barzilai_borwein_step(moved, 100.0 * moved, n_inner, plan) == pytest.approx(low)
        for change in (-moved, 0.0 * moved, 1e-9 * moved, 5e-324 * moved):
            assert barzilai_borwein_step(moved, change, n_inner, plan) == pytest.approx(high)
        assert barzilai_borwein_step(0.0 * moved, moved, n_inner, plan) == pytest.approx(high)


# --- Bad input ---


@pytest.mark.parametrize("solver", [DPSVRG, DPSVRGPlusPlus, DPKatyusha, PrintedSVRG, PrintedSVRGPlusPlus])
@pytest.mark.parametrize(
    "bad",
    [
        {"n_epochs": 0}, {"n_epochs": 1.5}, {"n_inner": 0}, {"n_inner": -3}, {"sampling_rate": 0.0},
        {"sampling_rate": 1.5}, {"sampling_rate": math.nan}, {"sampling_rate": -0.1}, {"sampling_rate": 1e-300},
        {"anchor_share": 0.0}, {"anchor_share": 1.0}, {"anchor_share": math.nan}, {"anchor_share": 1e-300},
        {"anchor_share": 1.0 - 1e-15}, {"averaging": 0.0}, {"averaging": 1.1}, {"anchor_growth": 0.0},
        {"anchor_growth": math.inf}, {"anchor_growth": 1e200}, {"anchor_growth": 1e-200}, {"step_size": -1.0},
        {"step_size": 0.0}, {"step_size": math.nan}, {"paper_constant": 0.0}, {"max_steps": 0},
        {"barzilai_borwein": 1}, {"barzilai_borwein": "no"}, {"barzilai_borwein": None},
    ],
    ids=str,
)  # fmt: skip
def test_degenerate_settings_are_refused(solver, bad):
    (name,) = bad
    if name in solver.__dataclass_fields__:
        with pytest.raises(InvalidParameterError, match=name):
            solver(**bad)


@pytest.mark.parametrize("rate", [0.0, -0.5, 1.5, math.nan, math.inf])
def test_queries_refuse_degenerate_sampling(rate):
    setting = setting_of(logistic_problem(), Adjacency.REPLACE_ONE)
    with pytest.raises(InvalidParameterError, match="sampling_rate"):
        DifferenceQuery(setting, rate)
    with pytest.raises(InvalidParameterError, match="sampling_rate"):
        PrintedEpochQuery(setting, rate, 5, 0.3)


def test_printed_epochs_refuse_degenerate_numbers():
    setting = setting_of(logistic_problem(), Adjacency.REPLACE_ONE)
    for share in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(InvalidParameterError, match="anchor_share"):
            PrintedEpochQuery(setting, 0.1, 5, share)
    with pytest.raises(InvalidParameterError, match="n_steps"):
        PrintedEpochQuery(setting, 0.1, 0, 0.3)
    for multiplier in (0.0, -1.0, math.nan):
        for query in (PrintedEpochQuery(setting, 0.1, 5, 0.3), DifferenceQuery(setting, 0.1)):
            with pytest.raises(InvalidParameterError, match="multiplier"):
                query.event(multiplier)


@pytest.mark.parametrize("step_size", [None, 0.0, -1.0, math.nan])
def test_a_printed_epoch_without_a_step_size_is_refused_and_charged(step_size):
    problem = logistic_problem()
    table = base_table()
    item = PlannedQuery(PrintedEpochQuery(setting_of(problem, Adjacency.REPLACE_ONE), 0.1, 5, 0.3))
    calibrated = CalibratedPlan(Plan("test", (item,), {}), 1.0)
    rows = ArraySource(table.X, table.y)
    with Oracle(rows, problem, item.query.setting, calibrated, Randomness.from_random_state(0)) as oracle:
        with pytest.raises(InvalidParameterError, match="step_size"):
            oracle.ask(item, np.zeros(P), np.zeros(P), step_size=step_size)
        assert oracle._left[item] == 0


@pytest.mark.parametrize("points", [[], [np.zeros(P)], [np.zeros(P)] * 3], ids=len)
@pytest.mark.parametrize("kind", [DifferenceQuery, PrintedEpochQuery])
def test_a_difference_is_asked_at_two_points(kind, points):
    problem, table = logistic_problem(), base_table()
    setting = setting_of(problem, Adjacency.REPLACE_ONE)
    query = kind(setting, 0.1) if kind is DifferenceQuery else kind(setting, 0.1, 5, 0.3)
    item = PlannedQuery(query)
    rows = ArraySource(table.X, table.y)
    calibrated = CalibratedPlan(Plan("test", (item,), {}), 1.0)
    with (
        Oracle(rows, problem, setting, calibrated, Randomness.from_random_state(0)) as oracle,
        pytest.raises(InvalidParameterError, match=f"takes 2 .* got {len(points)}"),
    ):
        oracle.ask(item, *points)


@pytest.mark.parametrize("solver", [DPSVRG(), DPKatyusha()], ids=repr)
def test_problems_without_strong_convexity_are_refused(solver):
    with pytest.raises(UnsupportedProblemError, match="strongly convex regularizer"):
        FitOptions(Problem(Logistic()), guarantee=GUARANTEE, solver=solver).plan(1000, P)


@pytest.mark.parametrize("solver", [PrintedSVRG(), DPKatyusha(), DPSVRGPlusPlus()], ids=repr)
def test_problems_that_are_not_convex_are_refused(solver):
    with pytest.raises(UnsupportedProblemError, match="convex loss, which sigmoid is not"):
        FitOptions(Problem(Sigmoid(), L2(0.1)), guarantee=GUARANTEE, solver=solver).plan(1000, P)


@pytest.mark.parametrize(
    ("solver", "printed"),
    [
        (DPSVRG(n_epochs=2, n_inner=30, barzilai_borwein=True), PrintedSVRG(2, 30, barzilai_borwein=True)),
        (DPSVRGPlusPlus(n_epochs=2, n_inner=3, max_steps=50), PrintedSVRGPlusPlus(2, 3, max_steps=50)),
    ],
    ids=repr,
)
def test_the_papers_noise_goes_with_the_step_that_the_paper_has(solver, printed):
    """What the solver was given stays as it is."""
    fit = FitOptions(logistic_problem(), guarantee=GUARANTEE, solver=solver, noise="paper").plan(1000, P)
    assert fit.solver == printed
    assert (
        fit.calibrated
        == FitOptions(logistic_problem(), guarantee=GUARANTEE, solver=printed, noise="paper").plan(1000, P).calibrated
    )
    assert all(isinstance(item.query, PrintedEpochQuery) for item in fit.calibrated.plan.planned)
