"""Every source of rows of the package, found through its base class, and one that cuts a table into uneven blocks.

Values are multiples of 1/128, which a schema's encoding, in float32, does not round: all sources have the same rows.
"""

import atexit
import contextlib
import dataclasses
import functools
import itertools
import math
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from contracts.discovered import concrete
from dperm import Classes, Number, Problem, Schema
from dperm.audit.watched import _MadeUpSource
from dperm.kernel.source import EncodedRows, LocalSource, Source, TablePiece
from dperm.problem import L2, Logistic
from dperm.rows.arrays import ArraySource, TableSource
from dperm.rows.canaries import WithCanaries
from dperm.rows.cluster import ClusterSource
from dperm.rows.dask_client import open_cluster
from dperm.rows.memory import MemoryBudget
from dperm.rows.streamed import FileSource

N, P = 1200, 4
PROBLEM = Problem(Logistic(), L2(0.05), row_norm=2.0, intercept=True)
SCHEMA = Schema({f"x{j}": Number((-1, 1), encode="linear") for j in range(P)}, Classes("y", [0, 1]))
# Persons of the rows, in no order: rows of most of them are in several files.
PERSONS = 300
# Rows of the files of a table: one has none.
FILES = (0, 1, 1, 500, 510, N)


def schema_of(unit):
    return dataclasses.replace(SCHEMA, unit=unit)


def numbers(seed=0):
    """Values within [−1, 1], and labels that they explain in part; a few rows are ignored."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-128, 129, size=(N, P)) / 128.0
    y = np.where(X @ np.arange(1.0, P + 1) + 0.5 * rng.normal(size=N) > 0.2, 1.0, -1.0)
    X[17], y[18] = np.nan, np.nan
    return X, y


def persons(seed=1):
    """Whose every row is: NaN for three of them."""
    ids = np.random.default_rng(seed).integers(0, PERSONS, N) * 7.0
    ids[[3, 600, 601]] = np.nan
    return ids


def frame(X, y, ids=None):
    # A missing number would be read as the middle of its range, so the row without numbers has no label instead.
    table = pd.DataFrame(X, columns=list(SCHEMA.columns))
    table["y"] = np.where(np.isnan(y) | np.isnan(X).any(axis=1), 7, (y > 0).astype(int))
    return table if ids is None else table.assign(who=ids)


def files(X, y, ids=None):
    """The same rows as a folder of Parquet files."""
    folder = Path(tempfile.mkdtemp())
    table = frame(X, y, ids)
    for place, (first, last) in enumerate(itertools.pairwise(FILES)):
        table.iloc[first:last].to_parquet(folder / f"part-{place}.parquet", row_group_size=300)
    atexit.register(shutil.rmtree, folder)
    return folder


@functools.cache
def two_workers():
    """A cluster of two processes on this machine, for all tests of this process; they end with it."""
    opened = contextlib.ExitStack()
    atexit.register(opened.close)
    return opened.enter_context(open_cluster("local[2]"))


class FromFiles(FileSource):
    """A test's own: as small as its blocks get, and most of them on disk."""

    def __init__(self, X, y, ids=None, unit=None):
        super().__init__(files(X, y, ids), schema_of(unit), memory=MemoryBudget(10**6))


class OnCluster(ClusterSource):
    """A test's own: the same files, read by two workers."""

    def __init__(self, X, y, ids=None, unit=None):
        super().__init__(files(X, y, ids), two_workers(), schema_of(unit), memory=MemoryBudget(10**6))


class CutSource(LocalSource):
    """A test's own: rows in blocks of very different sizes, one of them empty, handed over one after another."""

    def __init__(self, X, y, edges=(0, 1, 1, 500, 510, N), weights=None):
        self.X, self.y, self.weights = X, y, np.ones(len(y)) if weights is None else weights
        self.edges, self.passes = edges, 0

    @property
    def _n_rows(self):
        return self.X.shape[0]

    @property
    def n_features(self):
        return self.X.shape[1]

    def _pieces(self):
        self.passes += 1
        return [TablePiece(len(self.y), self._read)]

    def _read(self, problem):
        for first, last in itertools.pairwise(self.edges):
            rows = slice(first, last)
            yield EncodedRows(self.X[rows], self.y[rows], self.weights[rows])


# How a test makes one of the same rows; a source that is not here fails the tests.
MAKE = {
    ArraySource: lambda X, y: ArraySource(X, y),
    TableSource: lambda X, y: TableSource(frame(X, y), None, SCHEMA),
    FileSource: lambda X, y: FromFiles(X, y),
    ClusterSource: lambda X, y: OnCluster(X, y),
    _MadeUpSource: lambda X, y: _MadeUpSource(X, y),
    WithCanaries: lambda X, y: WithCanaries(ArraySource(X[:700], y[:700]), X[700:], y[700:]),
}
SOURCES = [*(cls for cls in concrete(Source) if cls.__module__.startswith("dperm.")), CutSource]


def made(cls, X, y):
    return CutSource(X, y) if cls is CutSource else MAKE[cls](X, y)


# The same with the rows of a person protected together. Audits make up tables of rows, and protect each by itself.
MAKE_BY_UNIT = {
    ArraySource: lambda X, y, ids, unit: ArraySource(X, y, None, ids, unit),
    TableSource: lambda X, y, ids, unit: TableSource(frame(X, y, ids), None, schema_of(unit)),
    FileSource: FromFiles,
    ClusterSource: OnCluster,
}
BY_ROW_ONLY = {_MadeUpSource, WithCanaries}


class Counted:
    """How many additions a part went through."""

    def __init__(self, n_parts=1, depth=0):
        self.n_parts, self.depth = n_parts, depth

    def __add__(self, other):
        return Counted(self.n_parts + other.n_parts, max(self.depth, other.depth) + 1)


def most_additions(n):
    """That one of n parts goes through, by docs/proofs/gradient.md."""
    return 0 if n == 1 else 16 + math.ceil(math.log2(math.ceil(n / 16)))
