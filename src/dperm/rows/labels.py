"""Tables and targets as scikit-learn hands them over, and labels as numbers. No message shows a value."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.rows.cells import number_or_nan, number_table

Array = NDArray[np.float64]

_NESTED = (list, tuple, np.ndarray)


def read_table(estimator: Any, X: Any, *, fitting: bool) -> Any:
    """Check a table the scikit-learn way (names, shape, type) but never for the values in it: they are numbers by then.

    A cell that is not a number is NaN, like one that is missing.
    """
    from sklearn.utils.validation import validate_data  # not every user of dperm needs it

    X, message = number_table(X, majority=not fitting or estimator.unit is None), ""
    try:
        return validate_data(estimator, X, reset=fitting, accept_sparse="csr", ensure_all_finite=False)
    except Exception as error:  # whatever it raises, it could show a value
        if isinstance(error, TypeError | ValueError | OverflowError):
            message = str(error)
    # Raised here and not above, so that a message that shows values is not kept as the context of ours.
    if message.startswith(("Found array with", "X has", "The feature names", "Found a sparse")):
        raise InvalidParameterError(message)  # speaks of shapes and names only
    if message.startswith("Complex data not supported"):
        raise InvalidParameterError("Complex data not supported.")
    if message.startswith("Expected 2D array"):
        raise InvalidParameterError("Expected 2D array. Reshape your data: one row per person, one column per feature.")
    raise InvalidParameterError("the table must be a 2-d array of real numbers; encode text first.")


def read_target(estimator: Any, y: Any, n_rows: int) -> NDArray[Any]:
    """Check a target the scikit-learn way, but never for the values in it.

    Entries of a list are read one by one: what one of them is changes nothing about the others.
    """
    from sklearn.utils.validation import column_or_1d  # not every user of dperm needs it

    if y is None:
        raise InvalidParameterError(
            f"requires y to be passed, but the target y is None: {type(estimator).__name__} is supervised."
        )
    listed, y = isinstance(y, list | tuple), one_by_one(y)
    # Which entries are lists counts as public if most of them are; one unit may have most of them.
    if listed and estimator.unit is None and 2 * sum(issubclass(type(entry), _NESTED) for entry in y) > len(y):
        raise InvalidParameterError("y should be a 1d array, got a list of lists instead.")
    _check_kind(y)
    try:
        target = np.asarray(column_or_1d(y, warn=True))
    except Exception:
        target = None
    # Raised here and not above, so that a message that shows values is not kept as the context of ours.
    if target is None:
        raise InvalidParameterError(f"y should be a 1d array, got an array of shape {np.shape(y)} instead.")
    if target.shape[0] != n_rows:
        raise InvalidParameterError(f"the table has {n_rows} rows and the target {target.shape[0]}.")
    return target


def one_by_one(y: Any) -> Any:
    """A list as an array of objects, every entry as it is; an array as it is.

    numpy would read the list as a whole: one entry of another kind or length changes what all of them become.
    """
    return np.fromiter(y, dtype=object, count=len(y)) if isinstance(y, list | tuple) else y


def _check_kind(y: Any) -> None:
    """Raise for a type that holds neither labels nor numbers; it is public, like the shape."""
    kind = getattr(y, "dtype", None)
    if getattr(kind, "kind", "O") in "cMmV":
        raise InvalidParameterError(f"Complex data not supported, nor dates: the target holds {kind}.")


def numeric_target(y: NDArray[Any], majority: bool = True) -> NDArray[Any]:
    """A target as numbers: NaN, which drops the row, for what is none.

    Whether the target holds numbers at all is decided by the majority of its entries and counts as public. Where rows
    are protected by unit, one unit may have most of them: then nothing is decided by a `majority`.
    """
    if y.dtype.kind not in "OUS":
        return y
    found = np.array([number_or_nan(value) for value in y.tolist()], dtype=np.float64)
    if majority and 2 * np.count_nonzero(np.isnan(found)) > found.size:
        raise InvalidParameterError("the target must be real numbers; encode text first.")
    return found


def distinct_labels(y: NDArray[Any]) -> tuple[Any, ...]:
    """The labels that occur in y: a fact about the rows, so the caller must mark its result as not for release."""
    from sklearn.utils.multiclass import check_classification_targets  # not every user of dperm needs it

    if y.dtype.kind == "O":
        kind = str if holds_text(y) else (numbers.Real, np.bool_)
        found = {plain for label in y.tolist() if (plain := _plain(label, kind)) is not None}
        return tuple(sorted(found))
    try:
        check_classification_targets(y)
        return tuple(np.unique(y).tolist())
    except (TypeError, ValueError) as error:
        known = str(error).startswith("Unknown label type")
    if known:
        raise InvalidParameterError("Unknown label type: these are not classes; declare them with classes=[...].")
    raise InvalidParameterError("the classes cannot be read from y; declare them with classes=[...].")


def _plain(label: Any, kind: Any) -> Any:
    """A label of a kind as Python's own text or number; None for any other, whatever it raises."""
    try:
        if not isinstance(label, kind) or label != label:
            return None
        if isinstance(label, np.generic):
            label = label.item()
        if type(label) in (str, bool, int, float):
            return label
        return "".join(label) if kind is str else int(label) if isinstance(label, numbers.Integral) else float(label)
    except Exception:
        return None


def holds_text(labels: NDArray[Any]) -> bool:
    """Whether most labels are texts: no single one decides, however many are missing, and it counts as public."""
    # isinstance would ask an object for its class.
    return 2 * sum(issubclass(type(label), str) for label in labels.tolist()) > labels.size


def weights_by_class(places: Array, class_weights: Sequence[float], weights: Array | None = None) -> Array:
    """Weight of every row from the public weight of its class, times its own; 0 for a label that is not declared."""
    known = np.isfinite(places)
    of_class = np.where(known, np.asarray(class_weights)[np.where(known, places, 0).astype(np.intp)], 0.0)
    return of_class if weights is None else of_class * weights


def class_numbers(y: Any, classes: Sequence[Any], majority: bool = True) -> Array:
    """Position of every label in the declared classes; NaN for a label that is not among them.

    `majority` as of `numeric_target`.
    """
    labels = np.asarray(y)
    declares_text = isinstance(classes[0], str)
    is_text = holds_text(labels) if labels.dtype.kind == "O" else labels.dtype.kind == "U"
    decided = majority or labels.dtype.kind != "O"
    if decided and is_text != declares_text and (is_text or labels.dtype.kind in "iufb"):
        raise InvalidParameterError("the labels and the declared classes must be of one kind: text or numbers.")
    if labels.dtype.kind == "O":  # looked up one by one: comparing with a missing value may not give a boolean
        positions = {label: float(position) for position, label in enumerate(classes)}
        return np.array([_position(label, positions) for label in labels])
    places = np.full(labels.shape, np.nan)
    for position, label in enumerate(classes):
        places[labels == label] = position
    return places


def _position(label: Any, positions: dict[Any, float]) -> float:
    try:
        return positions.get(label, np.nan)
    except Exception:  # what cannot be looked up is not among them, whatever it raises
        return np.nan
