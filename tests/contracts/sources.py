"""Every source of rows of the package, found through its base class, and one that cuts a table into uneven blocks."""

import numpy as np
import pandas as pd

from contracts.discovered import concrete
from dperm import L2, Classes, Logistic, Number, Problem, Schema
from dperm.trusted.block import Block
from dperm.trusted.sources import ArraySource, Source, TableSource
from dperm.trusted.sources.canaries import WithCanaries
from dperm.trusted.watched import _MadeUpSource

N, P = 1200, 4
PROBLEM = Problem(Logistic(), L2(0.05), row_norm=2.0, intercept=True)
SCHEMA = Schema({f"x{j}": Number((-1, 1)) for j in range(P)}, Classes("y", [0, 1]))


def numbers(seed=0):
    """Values within [−1, 1], and labels that they explain in part; a few rows are ignored."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(N, P))
    y = np.where(X @ np.arange(1.0, P + 1) + 0.5 * rng.normal(size=N) > 0.2, 1.0, -1.0)
    X[17], y[18] = np.nan, np.nan
    return X, y


def frame(X, y):
    # A missing number would be read as the middle of its range, so the row without numbers has no label instead.
    table = pd.DataFrame(X, columns=list(SCHEMA.columns))
    table["y"] = np.where(np.isnan(y) | np.isnan(X).any(axis=1), 7, (y > 0).astype(int))
    return table


class CutSource(Source):
    """A test's own: rows in blocks of very different sizes, one of them empty, handed over one after another."""

    def __init__(self, X, y, edges=(0, 1, 1, 500, 510, N), weights=None):
        self.X, self.y, self.weights = X, y, np.ones(len(y)) if weights is None else weights
        self.edges, self.passes, self.kept = edges, 0, {}

    @property
    def n_rows(self):
        return self.X.shape[0]

    @property
    def n_features(self):
        return self.X.shape[1]

    def blocks(self, problem):
        self.passes += 1
        for first, last in zip(self.edges[:-1], self.edges[1:], strict=True):
            rows = slice(first, last)
            if (first, last, problem) not in self.kept:
                self.kept[first, last, problem] = Block.from_table(
                    self.X[rows], self.y[rows], problem, self.weights[rows]
                )
            yield self.kept[first, last, problem]


# How a test makes one of the same rows; a source that is not here fails the tests.
MAKE = {
    ArraySource: lambda X, y: ArraySource(X, y),
    TableSource: lambda X, y: TableSource(frame(X, y), None, SCHEMA),
    _MadeUpSource: lambda X, y: _MadeUpSource(X, y),
    WithCanaries: lambda X, y: WithCanaries(ArraySource(X[:700], y[:700]), X[700:], y[700:]),
}
SOURCES = [*concrete(Source), CutSource]


def made(cls, X, y):
    return CutSource(X, y) if cls is CutSource else MAKE[cls](X, y)
