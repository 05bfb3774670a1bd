"""How numbers are encoded is decided from public numbers: few bins where there is little precision, or none."""

from dataclasses import replace

import pytest

from dperm import Bins, Category, Classes, FitOptions, Guarantee, Number, Problem, Schema
from dperm.plan.encoding import bins_for, decide
from dperm.privacy.guarantee import Adjacency
from dperm.problem import Logistic

TARGET = Classes("y", [0, 1])
PLAIN = Schema({f"x{k}": Number((0, 1)) for k in range(6)} | {f"c{k}": Category(["a", "b"]) for k in range(7)}, TARGET)


def n_bins(n, epsilon, schema=PLAIN, delta=1e-5, adjacency=Adjacency.REPLACE_ONE):
    return bins_for(schema, n, Guarantee(epsilon, delta), adjacency)


def test_numbers_stay_linear_where_rows_are_few_and_bins_grow_with_precision():
    assert [n_bins(n, 1.0) for n in (100, 300, 500)] == [None] * 3
    found = [n_bins(n, 1.0) for n in (3000, 30_000, 300_000, 3_000_000)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (4, 32)
    by_epsilon = [n_bins(30_000, epsilon) or 0 for epsilon in (0.01, 0.1, 0.5, 1.0, 2.0, 8.0)]
    assert by_epsilon == sorted(by_epsilon)
    assert by_epsilon[0] == 0


def test_add_remove_and_fewer_columns_allow_more_bins():
    assert n_bins(30_000, 1.0, adjacency=Adjacency.ADD_REMOVE) > n_bins(30_000, 1.0)
    assert n_bins(30_000, 1.0, replace(PLAIN, columns={"x": Number((0, 1))})) > n_bins(30_000, 1.0)
    assert n_bins(30_000, 1.0, delta=0.0) is not None


@pytest.mark.parametrize("n", [100, 100_000])
def test_what_a_column_or_the_schema_asks_for_is_kept(n):
    columns = {
        "linear": Number((0, 1), encode="linear"),
        "bins": Number((0, 1), encode="bins"),
        "even": Number((0, 1), bins="even"),
        "seven": Number((0, 1), n_bins=7),
        "private": Number((0, 1), bins="private", n_bins=3),
        "cut": Bins((1, 2)),
        "job": Category(["a", "b"]),
    }
    decided = decide(Schema(columns, TARGET), n, Guarantee(1.0, 1e-5), Adjacency.REPLACE_ONE).columns
    assert decided["linear"] == columns["linear"]
    assert decided["bins"].binned
    assert (decided["even"].bins, decided["even"].binned) == ("even", True)
    assert (decided["seven"].n_bins, decided["seven"].binned) == (7, True)
    assert (decided["private"].bins, decided["private"].n_bins) == ("private", 3)
    assert (decided["cut"], decided["job"]) == (columns["cut"], columns["job"])
    straight = decide(
        Schema(columns | {"x": Number((0, 1))}, TARGET, encode="linear"), n, Guarantee(1.0, 1e-5), Adjacency.ADD_REMOVE
    )
    assert straight.columns["x"].encode == "linear"


def test_deciding_twice_changes_nothing():
    once = decide(PLAIN, 30_000, Guarantee(1.0, 1e-5), Adjacency.REPLACE_ONE)
    assert decide(once, 300, Guarantee(0.1, 1e-5), Adjacency.ADD_REMOVE) == once
    assert not PLAIN.decided
    assert not once.decided  # its bins are private
    assert once.with_edges({name: even_edges(once.columns[name]) for name in once.private_edges}).decided


def even_edges(column):
    return tuple(step / column.n_bins for step in range(1, column.n_bins))


def test_bins_are_private_where_counts_stand_out_of_their_noise_and_even_elsewhere():
    wide = Schema({f"x{k}": Number((0, 1), encode="bins") for k in range(100)}, TARGET)
    for schema, n, where in ((PLAIN, 30_000, "private"), (wide, 2000, "even")):
        decided = decide(schema, n, Guarantee(1.0, 1e-5), Adjacency.REPLACE_ONE)
        assert {column.bins for column in decided.numbers.values()} == {where}


@pytest.mark.parametrize("options", [{"noise": "paper"}, {"accountant": "advanced-composition"}])
def test_the_papers_noise_goes_with_even_bins_only(options):
    problem = Problem(Logistic(), row_norm=PLAIN.bound)
    plan = FitOptions(problem, guarantee=Guarantee(1.0, 1e-5), schema=PLAIN, solver="dp-gd", **options).plan(10**6)
    assert {column.bins for column in plan.schema.numbers.values()} == {"even"}
    assert plan.calibrated.plan.ranges == ()
    asked = replace(PLAIN, columns={"x": Number((0, 1), bins="private")})
    with pytest.raises(ValueError, match="private bins require certified noise"):
        FitOptions(problem, guarantee=Guarantee(1.0, 1e-5), schema=asked, solver="dp-gd", **options).plan(10**6)


def test_the_plan_has_the_columns_of_the_decided_schema():
    plan = FitOptions(
        Problem(Logistic(), row_norm=PLAIN.bound), guarantee=Guarantee(1.0, 1e-5), schema=PLAIN
    ).plan(100_000)  # fmt: skip
    assert plan.n_features == plan.schema.n_features > PLAIN.n_features
    assert plan.statement.private_edges == tuple(PLAIN.numbers)
    assert plan.schema.bound == PLAIN.bound  # whatever is decided
