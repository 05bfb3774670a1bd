"""Sums and counts: one row moves them by no more than is declared, and nothing leaves but through noise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm import Budget, Guarantee, InvalidParameterError, NoiseTooLargeError, PlanExceededError
from dperm.accounting.composition import epsilon_of
from dperm.accounting.curve import gaussian_mu
from dperm.accounting.events import Composed, Gaussian
from dperm.kernel.adding import clipped
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.oracle import Oracle
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.bounded_sum.answer import added
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.cell_counts.answer import counted
from dperm.mechanisms.plan import Planned, plan_of_sums
from dperm.mechanisms.second_moment import SecondMoment
from dperm.mechanisms.setting import PublicTable
from dperm.plan.beside import plan_beside, share_of
from dperm.plan.sums import plan_sums
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import PrivacyStatement
from kernel.released_sums import released

GUARANTEE = Guarantee(1.0, 1e-6)
entries = st.floats(allow_nan=True, allow_infinity=True)
vectors = st.lists(st.tuples(entries, entries, entries), min_size=2, max_size=6)
cells = st.lists(st.tuples(st.integers(-3, 9), st.integers(-3, 9)), min_size=2, max_size=6)
ADJACENCIES = list(Adjacency)
KINDS = [("Gaussian", False), ("Gaussian", True), ("Laplace", False), ("Laplace", True)]


def a_sum(adjacency=Adjacency.REPLACE_ONE, distribution="Gaussian", nonnegative=False, n=10, bound=0.7):
    return BoundedSum(PublicTable(n, adjacency), "sums", 3, bound, nonnegative, distribution)


def counts(adjacency=Adjacency.REPLACE_ONE, distribution="Gaussian"):
    return CellCounts(PublicTable(10, adjacency), "counts", (4, 6), distribution)


def neighbours(table, other):
    return {
        Adjacency.ADD_REMOVE: [table[1:], [*table, other]],
        Adjacency.REPLACE_ONE: [[other, *table[1:]], [*table[:-1], other]],
    }


def distance(query, first, second):
    return np.linalg.norm(first - second, ord=1 if query.distribution == "Laplace" else 2)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("distribution", "nonnegative"), KINDS)
@given(vectors, st.tuples(entries, entries, entries))
@settings(max_examples=60, deadline=None)
def test_one_row_moves_a_sum_by_no_more_than_is_declared(adjacency, distribution, nonnegative, table, other):
    query = a_sum(adjacency, distribution, nonnegative)
    for neighbour in neighbours(table, other)[adjacency]:
        moved = distance(query, added(query, np.array(table)), added(query, np.array(neighbour)))
        assert moved <= query.sensitivity


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("distribution", ["Gaussian", "Laplace"])
@given(cells, st.tuples(st.integers(-3, 9), st.integers(-3, 9)))
@settings(max_examples=60, deadline=None)
def test_one_row_moves_counts_by_no_more_than_is_declared(adjacency, distribution, table, other):
    query = counts(adjacency, distribution)
    for neighbour in neighbours(table, other)[adjacency]:
        moved = distance(query, counted(query, np.array(table)), counted(query, np.array(neighbour)))
        assert moved <= query.sensitivity


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(("distribution", "nonnegative"), KINDS)
def test_a_sensitivity_of_a_sum_five_per_cent_smaller_would_be_wrong(adjacency, distribution, nonnegative):
    query = a_sum(adjacency, distribution, nonnegative)
    far, opposite = (1e300, 0.0, 0.0), (0.0, 1e300, 0.0) if nonnegative else (-1e300, 0.0, 0.0)
    neighbour = [far] if adjacency is Adjacency.ADD_REMOVE else [far, opposite]
    moved = distance(query, added(query, np.array([far, far])), added(query, np.array(neighbour)))
    assert 0.95 * query.sensitivity < moved <= query.sensitivity


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("distribution", ["Gaussian", "Laplace"])
def test_a_sum_of_one_nonnegative_number_moves_by_its_bound_and_no_more(adjacency, distribution):
    query = BoundedSum(PublicTable(10, adjacency), "sum", 1, 0.7, nonnegative=True, distribution=distribution)
    for far, near in [(1e300, -1e300), (np.inf, 0.0), (0.7, np.nan)]:
        neighbour = [[far]] if adjacency is Adjacency.ADD_REMOVE else [[far], [near]]
        moved = distance(query, added(query, np.array([[far], [far]])), added(query, np.array(neighbour)))
        assert moved <= query.sensitivity
    assert 0.95 * query.sensitivity < distance(query, added(query, np.array([[9.0]])), np.zeros(1))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("distribution", ["Gaussian", "Laplace"])
def test_a_sensitivity_of_counts_five_per_cent_smaller_would_be_wrong(adjacency, distribution):
    query = counts(adjacency, distribution)
    neighbour = [(0, 0)] if adjacency is Adjacency.ADD_REMOVE else [(0, 0), (3, 5)]
    moved = distance(query, counted(query, np.array([(0, 0), (0, 0)])), counted(query, np.array(neighbour)))
    assert 0.95 * query.sensitivity < moved <= query.sensitivity


def test_rows_that_are_not_finite_add_nothing_and_long_ones_their_direction():
    query = a_sum(bound=2.0)
    rows = np.array([[np.nan, 1.0, 0.0], [np.inf, 0.0, 0.0], [0.0, 1e308, 0.0], [5e-324, 0.0, 0.0], [1.0, 1.0, 1.0]])
    bounded = clipped(query, rows)
    np.testing.assert_array_equal(bounded[:2], 0.0)
    np.testing.assert_allclose(bounded[2], [0.0, 2.0, 0.0], rtol=1e-14)
    np.testing.assert_array_equal(bounded[4], rows[4])
    assert (np.linalg.norm(bounded, axis=1) <= 2.0).all()
    np.testing.assert_array_equal(clipped(a_sum(nonnegative=True), -np.ones((1, 3))), 0.0)


def test_a_sum_does_not_depend_on_how_its_rows_are_cut_into_parts():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 3))
    release = plan_sums([a_sum(n=5000)], GUARANTEE)
    whole = released(release, [lambda: [rows]], 5000, random_state=1).answers[0]
    pieces = released(
        release, [lambda: (rows[first : first + 700] for first in range(0, 5000, 700))], 5000, random_state=1
    )
    np.testing.assert_allclose(pieces.answers[0], whole, atol=1e-9)


@pytest.mark.parametrize("query", [a_sum(), counts(), SecondMoment(a_sum().setting, "moments", 3, 1.0)])
def test_no_rows_add_up_to_zeros(query):
    without_noise = plan_of_sums((Planned(query),)).with_noise(None)
    tables = [[], [np.zeros((0, 2 if isinstance(query, CellCounts) else 3))]]
    none, empty = (
        Oracle.of_sums(without_noise, Randomness.from_random_state(0)).add_up(Planned(query), parts) for parts in tables
    )
    assert not none.any()
    np.testing.assert_array_equal(none, empty)


def test_a_sum_is_released_once_and_no_other_is():
    calibrated = plan_sums([a_sum()], GUARANTEE).calibrated
    oracle = Oracle.of_sums(calibrated, Randomness.from_random_state(0))
    item = calibrated.plan.planned[0]
    oracle.add_up(item, [np.zeros((10, 3))])
    with pytest.raises(PlanExceededError):
        oracle.add_up(item, [np.zeros((10, 3))])
    with pytest.raises(PlanExceededError):
        oracle.add_up(Planned(a_sum(bound=0.1)), [np.zeros((10, 3))])


def test_noise_has_the_planned_deviation_and_the_event_is_that_of_the_noise():
    query = BoundedSum(PublicTable(10, Adjacency.REPLACE_ONE), "sums", 20_000, 1.0)
    release = plan_sums([query], GUARANTEE)
    noise = released(release, [lambda: [np.zeros((10, 20_000))]], 10).answers[0]
    sigma = query.sensitivity / gaussian_mu(GUARANTEE)
    assert release.calibrated.deviations[0] == pytest.approx(sigma, rel=1e-6)
    # Five standard errors of a deviation from 20 000 numbers: a false alarm in 2 million runs.
    assert abs(noise.std() - sigma) < 5 * sigma / math.sqrt(2 * 20_000)
    assert epsilon_of(release.event, 1e-6, Adjacency.REPLACE_ONE) <= 1.0


def test_several_sums_keep_one_guarantee_together_and_share_it_as_asked():
    table = PublicTable(1000, Adjacency.ADD_REMOVE)
    queries = [BoundedSum(table, "a", 1, 1.0), BoundedSum(table, "b", 1, 1.0)]
    release = plan_sums(queries, GUARANTEE, [1.0, 3.0])
    assert release.calibrated.deviations[1] == pytest.approx(3.0 * release.calibrated.deviations[0])
    assert 0.999 < epsilon_of(release.event, 1e-6, Adjacency.ADD_REMOVE) <= 1.0
    pure = plan_sums([BoundedSum(table, "a", 1, 1.0, distribution="Laplace")], Guarantee(0.5, 0.0))
    assert pure.calibrated.deviations[0] == pytest.approx(2.0 * math.sqrt(2.0))


def test_what_leaves_went_through_the_gate(monkeypatch):
    monkeypatch.setattr(Noise, "release", lambda self, exact, sensitivity: np.zeros_like(exact))
    plan = plan_sums([a_sum(), counts()], GUARANTEE)
    answers = released(plan, [lambda: [np.ones((10, 3))], lambda: [np.ones((10, 2), dtype=int)]], 10).answers
    assert not any(answer.any() for answer in answers)


def test_a_budget_is_charged_before_a_row_is_read(tmp_path):
    budget = Budget.create("tests", Guarantee(1.0, 1e-6), ledger=str(tmp_path / "ledger.db"))

    def unreadable():
        assert budget.account().releases[-1].fingerprint is None  # reserved, not settled
        raise RuntimeError("rows")

    with pytest.raises(RuntimeError) as caught:
        released(plan_sums([a_sum()], GUARANTEE), [unreadable], 10, budget=budget)
    assert "counts as spent" in caught.value.__notes__[0]
    assert len(budget.account().releases) == 1


def test_a_part_beside_others_keeps_the_whole_guarantee_and_wastes_little():
    others = Gaussian(24.0)
    plan = plan_beside(
        others, GUARANTEE, Adjacency.REPLACE_ONE, lambda left: plan_sums([a_sum()], left), share_of(GUARANTEE, 0.9)
    )  # fmt: skip
    assert 0.9 < epsilon_of(Composed((others, plan.event)), 1e-6, Adjacency.REPLACE_ONE) <= 1.0
    with pytest.raises(NoiseTooLargeError):
        plan_beside(Gaussian(1.0), GUARANTEE, Adjacency.REPLACE_ONE, lambda left: plan_sums([a_sum()], left))
    assert share_of(Guarantee(2.0, 0.0), 0.25) == Guarantee(0.5, 0.0)


def test_a_statement_of_several_parts_reads_back_and_says_what_is_not_for_release():
    release = plan_sums([a_sum(), counts()], GUARANTEE)
    statement = release.statement.of_run(seeded=True)
    assert PrivacyStatement.from_dict(statement.to_dict()) == statement
    assert "NOT FOR RELEASE: the noise came from a seed" in str(statement)
    assert "adjacency replace_one" in str(release.statement)
    assert release.statement.for_release
    with pytest.raises((ValueError, KeyError)):
        PrivacyStatement.from_dict(statement.to_dict() | {"epsilon": -1.0})


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: plan_of_sums(()),
        lambda: plan_of_sums((Planned(a_sum(n=10)), Planned(a_sum(n=11)))),
        lambda: a_sum(bound=0.0),
        lambda: CellCounts(PublicTable(10, Adjacency.REPLACE_ONE), "counts", ()),
        lambda: released(plan_sums([a_sum()], GUARANTEE), [], 10),
        lambda: released(plan_sums([a_sum()], GUARANTEE), [lambda: [np.zeros((11, 3))]], 11),
        lambda: released(plan_sums([a_sum()], GUARANTEE), [lambda: [np.zeros((10, 2))]], 10),
        lambda: released(plan_sums([a_sum()], GUARANTEE), [lambda: [np.zeros(10)]], 10),
        lambda: released(plan_sums([counts()], GUARANTEE), [lambda: [np.zeros((10, 3))]], 10),
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidParameterError):
        wrong()
