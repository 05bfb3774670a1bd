"""Tables and targets as scikit-learn hands them over, and labels as numbers. No message shows a value."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameter

Array = NDArray[np.float64]


def read_table(estimator: Any, X: Any, *, fitting: bool) -> Any:
    """Check a table the scikit-learn way (names, shape, type) but never for the values in it."""
    from sklearn.utils.validation import validate_data  # not every user of dperm needs it

    try:
        return validate_data(estimator, X, reset=fitting, accept_sparse="csr", ensure_all_finite=False)
    except (TypeError, ValueError, OverflowError) as error:
        message = str(error)
    # Raised here and not above, so that a message that shows values is not kept as the context of ours.
    if message.startswith(("Found array with", "X has", "The feature names", "Found a sparse")):
        raise InvalidParameter(message)  # speaks of shapes and names only
    if message.startswith("float() argument must be"):
        raise TypeError(message)  # names a type
    if message.startswith("Complex data not supported"):
        raise InvalidParameter("Complex data not supported.")
    if message.startswith("Expected 2D array"):
        raise InvalidParameter("Expected 2D array. Reshape your data: one row a person, one column a feature.")
    raise InvalidParameter("the table must hold real numbers in rows and columns; encode text first.")


def read_target(estimator: Any, y: Any, n_rows: int) -> NDArray[Any]:
    """Check a target the scikit-learn way, but never for the values in it."""
    from sklearn.utils.validation import column_or_1d  # not every user of dperm needs it

    if y is None:
        raise InvalidParameter(
            f"requires y to be passed, but the target y is None: {type(estimator).__name__} is supervised."
        )
    target = np.asarray(column_or_1d(y, warn=True))
    if target.shape[0] != n_rows:
        raise InvalidParameter(f"the table has {n_rows} rows and the target {target.shape[0]}.")
    return target


def distinct_labels(y: Any) -> tuple[Any, ...]:
    """The labels that occur in y: a fact about the rows, so the caller must mark its result as not for release."""
    from sklearn.utils.multiclass import check_classification_targets  # not every user of dperm needs it

    try:
        check_classification_targets(y)
        return tuple(np.unique(y).tolist())
    except (TypeError, ValueError) as error:
        known = str(error).startswith("Unknown label type")
    if known:
        raise InvalidParameter("Unknown label type: these are not classes; declare them with classes=[...].")
    raise InvalidParameter("the classes cannot be read from y; declare them with classes=[...].")


def weights_by_class(numbers: Array, class_weights: Sequence[float]) -> Array:
    """Weight of every row from the public weight of its class; 0 for a label that is not declared."""
    known = np.isfinite(numbers)
    return np.where(known, np.asarray(class_weights)[np.where(known, numbers, 0).astype(np.intp)], 0.0)


def class_numbers(y: Any, classes: Sequence[Any]) -> Array:
    """Position of every label in the declared classes; NaN for a label that is not among them."""
    labels = np.asarray(y)
    declares_text = isinstance(classes[0], str)
    if (labels.dtype.kind in "iufb" and declares_text) or (labels.dtype.kind == "U" and not declares_text):
        raise InvalidParameter("the labels and the declared classes must be of one kind: text or numbers.")
    if labels.dtype.kind == "O":  # looked up one by one: comparing with a missing value may not give a truth value
        positions = {label: float(position) for position, label in enumerate(classes)}
        return np.array([positions.get(label, np.nan) if label.__hash__ else np.nan for label in labels])
    numbers = np.full(labels.shape, np.nan)
    for position, label in enumerate(classes):
        numbers[labels == label] = position
    return numbers
