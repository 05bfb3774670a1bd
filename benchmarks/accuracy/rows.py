"""Rows for the peers and the ceilings, encoded from the same columns and ranges that dperm's schema declares.

`scaled` rows have a number per numeric column, mapped to [−1, 1], and a 1 for a category; `binned` ones a 1 for the
bin of a number as well. A constant is the last column, and rows are divided so that no table can make one longer than
1: that bound comes from the schema, and holds for whoever clips to it.
"""

import math
from typing import Any

import numpy as np
import pandas as pd
from data import Data
from scipy import sparse

# An hour of the day has a bin of its own.
N_BINS = 24


def raw(data: Data, table: Any) -> Any:
    """A float per column: clipped numbers, and places among the categories; one that is not declared comes last."""
    if sparse.issparse(table):
        return table
    return np.column_stack([_raw(table[name], rule) for name, rule in data.columns.items()])


def _raw(values: pd.Series, rule: dict[str, Any]) -> Any:
    if "range" in rule:
        return np.clip(pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64), *rule["range"])
    places = {str(text): place for place, text in enumerate(rule["values"])}
    return values.astype(str).map(places).fillna(len(places)).to_numpy(dtype=np.float64)


def scaled(data: Data, *, reference: bool = False) -> tuple[Any, Any]:
    """Training and test rows with linear columns, CSR; `reference` leaves out the first category of each column."""
    if sparse.issparse(data.train):
        return _bounded(data.train, data.row_norm), _bounded(data.test, data.row_norm)
    return tuple(
        _bounded(
            sparse.hstack(
                [
                    _scaled(values, rule)[:, int(reference and "values" in rule) :]
                    for values, rule in _pairs(data, table)
                ],
                format="csr",
            ),
            math.sqrt(len(data.columns)),
        )
        for table in (data.train, data.test)
    )


def binned(data: Data) -> tuple[Any, Any]:
    """Training and test rows with numbers binned at quantiles of the training rows, which no private fit knows."""
    edges = {
        name: _edges(values)
        for (values, rule), name in zip(_pairs(data, data.train), data.columns, strict=True)
        if "range" in rule
    }
    return tuple(
        _bounded(
            sparse.hstack(
                [
                    _one_hot(np.searchsorted(edges[name], values, side="right"), len(edges[name]) + 1)
                    if name in edges
                    else _scaled(values, rule)
                    for (values, rule), name in zip(_pairs(data, table), data.columns, strict=True)
                ],
                format="csr",
            ),
            math.sqrt(len(data.columns)),
        )
        for table in (data.train, data.test)
    )


def _edges(values: Any) -> Any:
    """Quantiles of the numbers besides the most frequent one, which often is a 0 and gets a bin of its own."""
    found, counts = np.unique(values, return_counts=True)
    common = found[counts.argmax()]
    quantiles = np.quantile(values[values != common], np.linspace(0.0, 1.0, N_BINS)[1:-1])
    return np.unique([*quantiles, common, np.nextafter(common, np.inf)])


def _pairs(data: Data, table: Any) -> list[tuple[Any, dict[str, Any]]]:
    return list(zip(raw(data, table).T, data.columns.values(), strict=True))


def _scaled(values: Any, rule: dict[str, Any]) -> Any:
    if "values" in rule:
        # What is not declared has a column only where the schema gives it one.
        return _one_hot(values.astype(np.int64), len(rule["values"]) + (rule.get("missing") == "column"))
    low, high = rule["range"]
    return sparse.csr_matrix(((values - low) / (high - low) * 2.0 - 1.0)[:, None])


def _one_hot(places: Any, n_columns: int) -> Any:
    """A 1 in the column of its place; zeros for a place beyond the last."""
    n = len(places)
    known = places < n_columns
    return sparse.csr_matrix((np.ones(known.sum()), (np.arange(n)[known], places[known])), shape=(n, n_columns))


def _bounded(rows: Any, norm: float) -> Any:
    """With a constant 1, divided by the longest norm that this allows."""
    bordered = sparse.hstack([rows, np.ones((rows.shape[0], 1))], format="csr")
    return (bordered / math.hypot(norm, 1.0)).tocsr()
