"""The kernel believes nothing that a table says of its rows: no lie moves an answer beyond its sensitivity."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from dperm import Classes, InvalidTableError, Number, Problem, Schema
from dperm.errors import PlanExceededError
from dperm.kernel.block import Block
from dperm.kernel.coded import PARTS, CodedColumn, CodedLayout, CodedRows, plain
from dperm.kernel.counts import BeyondPart, CellsPart
from dperm.kernel.exact.words import fresh_key
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.kernel.row_norms import row_norms
from dperm.kernel.source import EncodedRows, LocalSource, TablePiece
from dperm.kernel.sums import RowSums
from dperm.kernel.units import Membership, UnitRows
from dperm.mechanisms import GradientQuery, HessianQuery, MomentsQuery
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.plan import CalibratedPlan, Planned, plan_of_sums
from dperm.mechanisms.setting import PublicTable, Setting
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import L2, Logistic, Squared

N, P = 60, 3
UNIT = PrivacyUnit("person", 4)
SCHEMA = Schema({"x": Number((-1, 1))}, Classes("y", [0, 1]))
PROBLEMS = [
    Problem(Logistic(), L2(0.1), row_norm=2.0, intercept=True),
    Problem(Squared(5.0), L2(0.1), row_norm=1.0, weight_bound=3.0),
]
# What a table may say of one row, or of all rows of one person: features, target, weight.
LIES = [
    (1e6, 1.0, 1.0),
    (-1e140, -1.0, 1.0),
    (np.inf, 1.0, 1.0),
    (np.nan, 1.0, 1.0),
    (1.0, 37.0, 1.0),
    (1.0, -1e300, 1.0),
    (1.0, np.nan, 1.0),
    (1.0, 1.0, 1e9),
    (1.0, 1.0, np.inf),
    (1.0, 1.0, -50.0),
    (1.0, 1.0, np.nan),
]


class LyingTable(LocalSource):
    """Says what it likes: rows of any length, any target, any weight, any number of rows."""

    def __init__(self, X, y, weights=None, membership=None, pieces=None):
        self.X, self.y, self.weights, self.membership = X, y, weights, membership
        self.pieces = [len(y)] if pieces is None else pieces

    @property
    def _n_rows(self):
        return len(self.y)

    @property
    def n_features(self):
        return self.X.shape[1]

    @property
    def unit(self):
        return None if self.membership is None else self.membership.unit

    def _members(self):
        return self.membership

    def _pieces(self):
        return [TablePiece(n_rows, self._read) for n_rows in self.pieces]

    def _read(self, problem):
        yield EncodedRows(self.X, self.y, self.weights)

    def _columns(self, names):
        return SCHEMA, [dict.fromkeys(names, self.X[:, 0])]


def rows(lie=None, n_of_liar=1, n=N):
    """Rows of which the last ones, all those of one person, are what the lie says, or are not there."""
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(n, P)), np.sign(rng.normal(size=n)), np.ones(n)
    if lie is None:
        return X[:-n_of_liar], y[:-n_of_liar], weights[:-n_of_liar]
    value, label, weight = lie
    X[-n_of_liar:], y[-n_of_liar:], weights[-n_of_liar:] = value, label, weight
    return X, y, weights


def persons(n, n_of_liar):
    """The last rows are one person's, the others have a person for every two rows."""
    return np.append(np.arange(n - n_of_liar) // 2, np.full(n_of_liar, (n - n_of_liar + 1) // 2))


def answers(table, problem):
    """Exact answers by the kernel, with the farthest that a row, or a unit, may move each."""
    constants = problem.constants(P)
    setting = Setting(constants, N, Adjacency.ADD_REMOVE, table.unit)
    w = np.random.default_rng(1).normal(size=problem.dimension(P))
    key = Randomness.from_random_state(3)
    with ThreadPoolExecutor(1) as pool:
        table.draw_units(key.unit_key)
        sums = RowSums(table, problem, pool, key.sampling)
        yield sums.gradient(w, constants.lipschitz) / N, GradientQuery(setting).sensitivity
        yield sums.hessian(w, 1, constants.smoothness) / N, HessianQuery(setting).sensitivity
        if isinstance(problem.loss, Squared):
            query = MomentsQuery(setting, 0.2, 2.0)
            yield sums.moments(query.target_scale, query.bound) / N, query.sensitivity


@pytest.mark.parametrize("problem", PROBLEMS, ids=["logistic", "squared"])
@pytest.mark.parametrize("lie", LIES, ids=str)
@pytest.mark.parametrize("n_of_liar", [0, 1, 3, 9])
def test_no_lie_about_a_row_or_a_person_moves_an_answer_beyond_its_sensitivity(problem, lie, n_of_liar):
    """With 0, rows are protected one by one; else a person has this many rows, all of them lies."""
    n_rows = max(n_of_liar, 1)
    with_liar, without = (
        LyingTable(*table, Membership.of(UNIT, persons(N, n_rows)[: len(table[1])]) if n_of_liar else None)
        for table in (rows(lie, n_rows), rows(None, n_rows))
    )
    for (answer, sensitivity), (other, _) in zip(answers(with_liar, problem), answers(without, problem), strict=True):
        assert np.isfinite(answer).all()
        assert np.linalg.norm(answer - other) <= sensitivity


LAYOUT = CodedLayout(
    (
        CodedColumn("place", 3),
        CodedColumn("knots", 4),
        CodedColumn("number"),
        CodedColumn("number"),
        CodedColumn("place"),
    ),
    (((0, (0, 1, 2)), (1, (0, 0, 1, 2)), (3, ())),),
    5,
)


def coded(n_rows=N, codes=(0, 0, 0), fraction=0, numbers=(0.5, 0.5)):
    """Codes of rows of which the last one is what it says."""
    rng = np.random.default_rng(0)
    rows = CodedRows(
        LAYOUT, rng.integers(0, [4, 2, 3], (n_rows, 3)).astype(np.uint8),
        rng.integers(0, PARTS + 1, (n_rows, 1)).astype(np.uint8), rng.uniform(-1, 1, (n_rows, 2)).astype(np.float32),
    )  # fmt: skip
    rows.codes[-1], rows.fractions[-1], rows.numbers[-1] = codes, fraction, numbers
    return rows


@pytest.mark.parametrize("lie", [
    {"codes": (4, 0, 0)}, {"codes": (255, 0, 0)}, {"codes": (0, 2, 0)}, {"codes": (0, 0, 3)}, {"fraction": PARTS + 1},
    {"fraction": 255}, {"numbers": (1.0001, 0.0)}, {"numbers": (0.0, -np.inf)}, {"numbers": (np.nan, 0.0)},
    {"codes": (0, 0, 0), "numbers": (0.0, 7.0)},
], ids=str)  # fmt: skip
def test_a_row_of_codes_that_its_layout_does_not_have_is_ignored(lie):
    for problem in PROBLEMS:
        block = Block.from_table(coded(**lie), np.ones(N), problem)
        np.testing.assert_array_equal(block.weight == 0.0, np.arange(N) == N - 1)
        told, kept = (LyingTable(rows, np.ones(rows.shape[0])) for rows in (coded(**lie), coded(**lie)[: N - 1]))
        w = np.random.default_rng(1).normal(size=problem.dimension(LAYOUT.width))
        with ThreadPoolExecutor(1) as pool:
            one, other = (
                RowSums(table, problem, pool, Randomness.from_random_state(3).sampling) for table in (told, kept)
            )
            np.testing.assert_allclose(one.gradient(w, 1.0), other.gradient(w, 1.0), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(one.hessian(w, 1, 1.0), other.hessian(w, 1, 1.0), rtol=1e-12, atol=1e-12)


def test_the_norm_of_a_row_of_codes_is_that_of_the_row_written_out():
    rows = coded()
    norms, entries = row_norms(rows)
    np.testing.assert_allclose(norms, np.linalg.norm(plain(rows).toarray().astype(float), axis=1), rtol=1e-15)
    np.testing.assert_array_equal(entries, np.abs(plain(rows).toarray()).max(axis=1))
    assert norms.max() <= 6**0.5


@pytest.mark.parametrize("forged", [
    lambda: replace(coded(), codes=coded().codes.astype(np.uint16)), lambda: replace(coded(), codes=coded().codes[:-1]),
    lambda: replace(coded(), fractions=coded().codes), lambda: replace(coded(), numbers=coded().numbers[::-1]),
    lambda: CodedLayout((CodedColumn("knots", 1),)), lambda: CodedLayout((CodedColumn("number", 2),)),
    lambda: replace(LAYOUT, crosses=(((0, (0, 1, 5)),),)), lambda: replace(LAYOUT, crosses=(((0, (0, 1)),),)),
])  # fmt: skip
def test_codes_of_another_form_and_layouts_with_places_that_are_not_there_are_refused(forged):
    with pytest.raises(InvalidTableError):
        forged()


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300, np.nan])
def test_no_value_of_a_persons_rows_counts_for_more_than_one(value):
    whose = Membership.of(UNIT, persons(N, 9))
    X, y, _ = rows((value, 1.0, 1.0), 9)
    less, other = Membership.of(UNIT, persons(N, 9)[:-9]), rows(None, 9)
    for part in (BeyondPart(("x",), (-0.5, 0.0, 0.5)), CellsPart(("x",))):
        counts = []
        for table in (LyingTable(X, y, None, whose), LyingTable(*other[:2], None, less)):
            table.draw_units(np.arange(8, dtype=np.uint32))
            counts.append(table._count(part))
        assert np.abs(counts[0] - counts[1]).max() <= 1.0


@pytest.mark.parametrize(
    "pieces", [[N - 1], [N + 1], [0], [N, N], [0, N], [2 * N]], ids=lambda pieces: "+".join(map(str, pieces))
)
@pytest.mark.parametrize("by_unit", [False, True])
def test_a_table_that_hands_over_other_rows_than_it_says_is_refused(pieces, by_unit):
    """Else the weights of one person's rows would be given to rows of another, or given twice."""
    membership = Membership.of(UNIT, persons(N, 3)) if by_unit else None
    table = LyingTable(*rows((1.0, 1.0, 1.0), 3), membership, pieces)
    if pieces == [N, N] and not by_unit:
        assert len(list(table._blocks(PROBLEMS[0]))) == 2
        return
    with pytest.raises(InvalidTableError):
        list(table._blocks(PROBLEMS[0]))


@pytest.mark.parametrize("numbers", [[-2, 0], [0, 5], [0.0, 1.0], [[0, 1]]], ids=str)
def test_numbers_that_stand_for_no_unit_are_refused(numbers):
    with pytest.raises(InvalidTableError):
        Membership(UNIT, np.array(numbers), 2)


@pytest.mark.parametrize("n_targets", [1, N - 1, N + 1])
def test_a_target_or_weights_for_other_rows_are_refused(n_targets):
    X, y, _ = rows((1.0, 1.0, 1.0))
    for table in (LyingTable(X, np.ones(n_targets), None), LyingTable(X, y, np.ones(n_targets))):
        table.pieces = [N]
        with pytest.raises(InvalidTableError):
            list(table._blocks(PROBLEMS[0]))


@pytest.mark.parametrize("weights", [[0.6, 0.6, 1.0], [1.0, 0.1, 1.0], [-0.5, 1.0, 1.0], [np.nan, 0.5, 1.0]])
def test_weights_of_a_unit_that_add_up_to_more_than_one_are_refused(weights):
    query = BoundedSum(PublicTable(N, Adjacency.ADD_REMOVE, UNIT), "sums", 2, 1.0)
    item = Planned(query)
    oracle = Oracle.of_sums(CalibratedPlan(plan_of_sums((item,)), None), Randomness.from_random_state(0))
    units = UnitRows(np.array([0, 0, 1]), np.array(weights), 2)
    with pytest.raises(PlanExceededError):
        oracle.add_up(item, [np.ones((3, 2))], units)


def test_the_weights_that_the_kernel_draws_are_accepted_however_many_rows_a_unit_has():
    numbers = np.repeat(np.arange(4), [1, 7, 1000, 100_003])
    for unit in (PrivacyUnit("person", contribution="average"), PrivacyUnit("person", 7), UNIT):
        Membership.of(unit, numbers).drawn(fresh_key()).check()
