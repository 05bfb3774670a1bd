"""What scikit-learn's models make of the same tables without privacy: the ceilings of the demo."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.tables import Tables
from dperm.schema import Classes, Number

Array = NDArray[np.float64]


def trees(tables: Tables) -> Array:
    """Decisions of histogram gradient boosting at its defaults on the test rows: above 0 is the second class."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    train, test, is_number = _as_numbers(tables)
    model = HistGradientBoostingClassifier(categorical_features=~is_number, random_state=0)
    model.fit(train, is_second(tables, tables.train))
    return np.asarray(model.decision_function(test))


def linear_on_bins(tables: Tables) -> Array:
    """The same of logistic regression on 32 bins at the quantiles of every number, and one entry per category."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

    train, test, is_number = _as_numbers(tables)
    encode = ColumnTransformer(
        [
            ("numbers", KBinsDiscretizer(32, encode="onehot", subsample=None), is_number),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ~is_number),
        ]
    )
    model = make_pipeline(encode, LogisticRegression(max_iter=1000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # many people have the same capital gain, so that some bins are empty
        model.fit(train, is_second(tables, tables.train))
    return np.asarray(model.decision_function(test))


def _as_numbers(tables: Tables) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Both tables as arrays, categories by their place in the alphabet, and which columns are numbers."""
    train, test = [], []
    for name in tables.schema.columns:
        values = np.array([*tables.train.column(name).to_pylist(), *tables.test.column(name).to_pylist()])
        if not isinstance(tables.schema.columns[name], Number):
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
