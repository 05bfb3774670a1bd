"""What scikit-learn's models make of the same tables without privacy: the ceilings of the demo."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.tables import Tables
from dperm.schema import Classes, Number

Array = NDArray[np.float64]

_BINS = 32


def trees(tables: Tables) -> Array:
    """Decisions of a hundred rounds of histogram gradient boosting on the test rows: above 0 is the second class."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    train, test, is_number = _as_numbers(tables)
    model = HistGradientBoostingClassifier(categorical_features=~is_number, early_stopping=False, random_state=0)
    return np.asarray(model.fit(train, is_second(tables, tables.train)).decision_function(test))


def linear_on_bins(tables: Tables) -> Array:
    """The same of logistic regression with an entry for every category, and for every bin of a number."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    train, test, is_number = _as_numbers(tables)
    for place in np.flatnonzero(is_number):
        edges = _edges(train[:, place])
        for rows in (train, test):
            rows[:, place] = np.searchsorted(edges, rows[:, place], side="right")
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(solver="newton-cholesky"))
    return np.asarray(model.fit(train, is_second(tables, tables.train)).decision_function(test))


def _edges(values: Array) -> Array:
    """Where to cut a number: its most frequent value is a bin by itself, the others have equally many rows each."""
    found, counts = np.unique(values, return_counts=True)
    common = found[counts.argmax()]
    quantiles = np.quantile(values[values != common], np.linspace(0.0, 1.0, _BINS + 1)[1:-1])
    return np.unique([*quantiles, common, np.nextafter(common, np.inf)])


def _as_numbers(tables: Tables) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Both tables as arrays, categories by their position in the alphabet, and which columns are numbers."""
    train, test = [], []
    for name, column in tables.schema.columns.items():
        values = np.array([*tables.train.column(name).to_pylist(), *tables.test.column(name).to_pylist()])
        if not isinstance(column, Number):
            values = np.unique(values, return_inverse=True)[1]
        train.append(values[: tables.train.num_rows])
        test.append(values[tables.train.num_rows :])
    is_number = np.array([isinstance(column, Number) for column in tables.schema.columns.values()])
    return np.column_stack(train).astype(np.float64), np.column_stack(test).astype(np.float64), is_number


def is_second(tables: Tables, rows: Any) -> NDArray[np.bool_]:
    """Which rows are of the second class."""
    target = tables.schema.target
    assert isinstance(target, Classes)
    return np.isin(rows.column(target.column).to_pylist(), target.classes[1])
