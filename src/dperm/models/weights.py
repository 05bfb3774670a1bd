"""Weights of rows in a fit: who may give them, which policy bounds them, what the statement says of them."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.kernel.source import Source
from dperm.models.units import Protecting, protected_unit
from dperm.rows.columns import Columns, as_numbers
from dperm.rows.weights import bounded_weights
from dperm.validation import positive, truth

Array = NDArray[np.float64]


class Weighted(Protecting, Protocol):
    """What an estimator says about weights."""

    weight_bound: float
    private_weights: bool


def check_policy(model: Weighted) -> None:
    """Raise unless the declared bound is a number and the policy a boolean."""
    positive("weight_bound", model.weight_bound)
    truth("private_weights", model.private_weights)


def expects_weights(model: Weighted) -> bool:
    """Whether the parameters announce weights, without which a fit is refused."""
    return model.weight_bound != 1.0 or model.private_weights


def check_given(model: Weighted, X: Any, sample_weight: Any) -> None:
    """Raise if there are weights where none can be, or none where they were announced; nothing is read."""
    if sample_weight is None:
        if expects_weights(model):
            raise InvalidParameterError(
                "weight_bound and private_weights require sample_weight: remove them, or route sample_weight to fit."
            )
    elif isinstance(X, Source):
        raise InvalidParameterError(
            "sample_weight requires a table in memory; for files and clusters use class_weight."
        )
    elif protected_unit(model) is not None and not model.private_weights:
        raise InvalidParameterError(
            "with a unit the weights must be private: pass private_weights=True, or remove sample_weight."
        )
    elif isinstance(sample_weight, str) and model.schema is None:
        raise InvalidParameterError("sample_weight can name a column only with a schema; otherwise pass an array.")


def weights_of_rows(model: Weighted, sample_weight: Any, n_rows: int) -> Array | None:
    """The weights of this many rows by the declared policy, None without any."""
    return bounded_weights(sample_weight, n_rows, model.weight_bound, private=model.private_weights)


def weights_of_table(model: Weighted, table: Any, sample_weight: Any) -> Array | None:
    """The same for a table with a schema, of which they may be a column."""
    if sample_weight is None:
        return None
    columns = Columns(table)
    if isinstance(sample_weight, str):
        sample_weight = as_numbers(columns.arrow(sample_weight), sample_weight)
    return weights_of_rows(model, sample_weight, len(columns))


def facts_of_weights(model: Weighted, given: bool) -> dict[str, Any]:
    """What the statement says: nothing if no weights were given."""
    if not given:
        return {}
    return {"weights": "private" if model.private_weights else "public", "weight_bound": float(model.weight_bound)}
