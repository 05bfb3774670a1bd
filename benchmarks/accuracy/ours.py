"""dperm at its defaults: a guarantee, an adjacency, and the schema as it is in its file, or arrays. Nothing else."""

import dataclasses
import warnings
from typing import Any

import numpy as np
from data import Data, schema_file

from dperm import Classes, PrivateLinearRegression, PrivateLogisticRegression, load_schema


def fit(data: Data, epsilon: float, delta: float, adjacency: str, seed: int) -> float:
    """The measure of one fit; the seed makes it repeatable, and not for release."""
    kind = PrivateLinearRegression if data.measure == "R²" else PrivateLogisticRegression
    options = {"adjacency": adjacency, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a seed, and δ that is more than 1/n on Covertype, for everybody alike
        if data.columns:
            model = kind(epsilon, delta, schema=_schema(data), **options).fit(data.train)
        else:
            classes = list(range(data.n_classes))
            model = kind(epsilon, delta, classes=classes, row_norm=data.row_norm, **options).fit(data.train, data.y)
        if data.measure == "AUC":
            return data.score(model.decision_function(data.test))
        return data.score(_places(data, model.predict(data.test)))


def _schema(data: Data) -> Any:
    schema = load_schema(schema_file(data.name.partition("-")[0]))
    if data.name == "covertype-2":  # the same columns, another question
        schema = dataclasses.replace(schema, target=Classes(data.target["column"], data.target["classes"]))
    return schema


def _places(data: Data, predictions: Any) -> Any:
    """Predicted classes by their place; numbers as they are."""
    if "classes" not in data.target:
        return predictions
    names = [entry[0] if isinstance(entry, list) else entry for entry in data.target["classes"]]
    return np.array([names.index(label) for label in predictions.tolist()])
