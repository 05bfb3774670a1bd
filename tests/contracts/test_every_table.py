"""Whatever takes rows takes every kind of table, and gets the same from it."""

import functools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset as arrow_dataset

from contracts.sources import two_workers
from dperm import (
    Classes,
    InvalidParameterError,
    Number,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivatePipeline,
    PrivateSearch,
    PrivateStandardScaler,
    Schema,
    private_evaluate,
)
from dperm.audit import audit_table
from dperm.kernel.source import Source
from dperm.rows import Table
from dperm.rows.cluster import ClusterSource
from dperm.rows.memory import MemoryBudget
from dperm.rows.streamed import FileSource

N, COLUMNS = 900, ("x0", "x1", "x2")
SCHEMA = Schema({name: Number((-1, 1), encode="linear") for name in COLUMNS}, Classes("y", [0, 1]))
BY_PERSON = {"unit": "who", "contribution": "average"}


def frame(by_unit=False):
    """Multiples of 1/128, which float32 and text hold as they are."""
    rng = np.random.default_rng(0)
    X = rng.integers(-128, 129, size=(N, 3)) / 128.0
    table = pd.DataFrame(X, columns=list(COLUMNS))
    table["y"] = (X @ [1.0, 2.0, -1.0] + 0.3 * rng.normal(size=N) > 0).astype(int)
    return table.assign(who=np.arange(N) // 3) if by_unit else table


def dask_frame(table):
    dataframe = pytest.importorskip("dask.dataframe")
    two_workers()
    return dataframe.from_pandas(table, npartitions=3, sort=False)


def written(table, folder, kind):
    """Three files: of a name that sorts, and one of them with few rows."""
    for place, (first, last) in enumerate([(0, 7), (7, 500), (500, N)]):
        part = table.iloc[first:last]
        if kind == "csv":
            part.to_csv(folder / f"part-{place}.csv", index=False)
        else:
            part.to_parquet(folder / f"part-{place}.parquet", row_group_size=200)
    return folder


KINDS = {
    "pandas": lambda table, folder: table,
    "polars": lambda table, folder: pytest.importorskip("polars").from_pandas(table),
    "arrow": lambda table, folder: pa.Table.from_pandas(table, preserve_index=False),
    "csv": lambda table, folder: written(table, folder, "csv"),
    "parquet": lambda table, folder: str(written(table, folder, "parquet")),
    "pattern": lambda table, folder: str(written(table, folder, "parquet") / "*.parquet"),
    "paths": lambda table, folder: sorted(written(table, folder, "parquet").iterdir()),
    "dataset": lambda table, folder: arrow_dataset.dataset(written(table, folder, "parquet")),
    "table": lambda table, folder: Table(written(table, folder, "parquet"), memory=MemoryBudget(10**6), cache=False),
    "table in memory": lambda table, folder: Table(table),
    "file source": lambda table, folder: FileSource(written(table, folder, "parquet")),
    "cluster source": lambda table, folder: ClusterSource(written(table, folder, "parquet"), two_workers()),
    "dask": lambda table, folder: dask_frame(table),
}
STORED = [kind for kind in KINDS if kind not in ("pandas", "polars", "arrow", "table in memory")]


def kind_of(kind, tmp_path, by_unit=False, columns=None):
    table = frame(by_unit) if columns is None else frame(by_unit)[columns]
    return KINDS[kind](table, tmp_path)


@functools.cache
def model(unit=None):
    return PrivateLogisticRegression(
        8.0, 1e-6, schema=SCHEMA, random_state=0, row_warnings=False, **({} if unit is None else BY_PERSON)
    ).fit(frame(unit is not None))


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [None, "who"])
def test_a_fit_gets_the_same_from_every_table(kind, unit, tmp_path):
    given = kind_of(kind, tmp_path, unit is not None)
    asked = PrivateLogisticRegression(
        8.0, 1e-6, schema=SCHEMA, noise=None, row_warnings=False, **({} if unit is None else BY_PERSON)
    )
    exact = PrivateLogisticRegression(**asked.get_params()).fit(frame(unit is not None))
    np.testing.assert_allclose(asked.fit(given).coef_, exact.coef_, rtol=1e-6)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [None, "who"])
def test_an_evaluation_gets_the_same_from_every_table(kind, unit, tmp_path):
    found = private_evaluate(model(unit), kind_of(kind, tmp_path, unit is not None), epsilon=1.0, random_state=3)
    same = private_evaluate(model(unit), frame(unit is not None), epsilon=1.0, random_state=3)
    assert found.to_dict() == same.to_dict()
    assert found.accuracy.value > 0.8


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [None, "who"])
@pytest.mark.parametrize("cls", [PrivateStandardScaler, PrivatePCA])
def test_a_transformer_gets_the_same_from_every_table(kind, unit, cls, tmp_path):
    more = {"bounds": (-1, 1)} if cls is PrivateStandardScaler else {"row_norm": 1.0}
    asked = cls(1.0, 1e-6, random_state=1, **more, **({} if unit is None else BY_PERSON))
    columns = [*COLUMNS, *(() if unit is None else ("who",))]
    found = asked.fit(kind_of(kind, tmp_path, unit is not None, columns)).mean_
    # Columns that lie apart in memory are added up in another order.
    np.testing.assert_allclose(found, asked.fit(frame(unit is not None)[columns]).mean_, rtol=1e-12)
    assert asked.n_features_in_ == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_gets_the_same_from_every_table(kind, tmp_path):
    grid = {"penalty": ["l2", None]}

    def winner(given):
        search = PrivateSearch(
            PrivateLogisticRegression(schema=SCHEMA), grid, epsilon=20.0, delta=1e-6, random_state=5, row_warnings=False
        )
        return search.fit(given).best_estimator_.coef_

    np.testing.assert_array_equal(winner(kind_of(kind, tmp_path)), winner(frame()))


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [None, "who"])
def test_a_diagnosis_gets_the_same_from_every_table(kind, unit, tmp_path):
    found, same = (
        model(unit).diagnose(given) for given in (kind_of(kind, tmp_path, unit is not None), frame(unit is not None))
    )
    assert str(found) == str(same)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("kind", STORED)
@pytest.mark.parametrize("unit", [None, "who"])
def test_a_pipeline_gets_the_same_from_every_table(kind, unit, tmp_path):
    def fitted(X, y, groups=None):
        steps = [("scale", PrivateStandardScaler(bounds=(-1, 1))), ("fit", PrivateLogisticRegression(classes=[0, 1]))]
        more = {} if unit is None else BY_PERSON
        return PrivatePipeline(steps, epsilon=8.0, delta=1e-6, random_state=2, **more).fit(X, y, groups)

    table = frame(unit is not None)
    found = fitted(kind_of(kind, tmp_path, unit is not None), "y", unit)
    same = fitted(table[list(COLUMNS)], table["y"], None if unit is None else table["who"])
    np.testing.assert_allclose(found.steps[-1][1].coef_, same.steps[-1][1].coef_, rtol=1e-9)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [None, "who"])
def test_an_audit_gets_the_same_from_every_table(kind, unit, tmp_path):
    asked = PrivateLogisticRegression(8.0, 1e-6, schema=SCHEMA, solver="dp-gd", **({} if unit is None else BY_PERSON))
    found, same = (
        audit_table(asked, given, canaries=20, random_state=4)
        for given in (kind_of(kind, tmp_path, unit is not None), frame(unit is not None))
    )
    assert found.attacks == same.attacks


def test_rows_in_a_source_of_their_own_are_fitted_only():
    class Own(Source):
        _n_rows = n_features = 1

        def _total(self, problem, part, objective, pool): ...

    with pytest.raises(InvalidParameterError, match="pass the table itself"):
        private_evaluate(model(), Own(), epsilon=1.0)


@pytest.mark.parametrize("kind", ["parquet", "dask"])
def test_stored_tables_name_their_target_and_ids(kind, tmp_path):
    given = kind_of(kind, tmp_path, by_unit=True)
    pipeline = PrivatePipeline([("fit", PrivateLogisticRegression(classes=[0, 1]))], epsilon=1.0, delta=1e-6)
    for refused in (
        lambda: pipeline.fit(given, np.zeros(N)),
        lambda: PrivateStandardScaler(1.0, bounds=(-1, 1), unit="who").fit(given, groups=np.zeros(N)),
        lambda: PrivateSearch(PrivateLogisticRegression(classes=[0, 1]), {"penalty": ["l2"]}).fit(given),
    ):
        with pytest.raises(InvalidParameterError):
            refused()
