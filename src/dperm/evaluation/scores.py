"""What a public model says of rows, and what every row then adds to counts and sums.

Every function takes one block of rows and gives one line per row, which depends on that row alone. A row without a
known class or number, or of which the model says nothing finite, adds nothing: cell −1, or NaN.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dperm.errors import InvalidTableError
from dperm.rows.labels import class_numbers

Array = NDArray[np.float64]
# From the truth and the prediction of a block of rows to what they add.
Term = Callable[[Array, Array], NDArray[Any]]
# Truth and prediction, a block of rows after the other.
Blocks = Callable[[], Iterable[tuple[Array, Array]]]


def parts_of(blocks: Blocks, terms: Sequence[Term]) -> list[Callable[[], Iterable[NDArray[Any]]]]:
    """What rows add to several sums, read and predicted once: when the first of the sums is computed.

    Parameters
    ----------
    blocks : callable
        Reads rows and predicts.
    terms : sequence of callables
        One per sum.
    """
    kept: list[list[NDArray[Any]]] = []

    def column(place: int) -> Iterable[NDArray[Any]]:
        if not kept:
            kept.extend([term(truth, predicted) for term in terms] for truth, predicted in blocks())
        return (block[place] for block in kept)

    return [lambda place=place: column(place) for place in range(len(terms))]  # type: ignore[misc]


def predicted_by(model: Any, rows: Any, kind: str, classes: Sequence[Any] | None, n_rows: int) -> Array:
    """What a model says of rows: one column per class, or one number each.

    Parameters
    ----------
    model : object
        With the method that `kind` stands for.
    rows : table or array
        A block of rows.
    kind : {"probability", "score", "label", "number"}
        From `predict_proba`, `decision_function`, or `predict`.
    classes : sequence or None
        The public classes.
    n_rows : int
        How many rows there are in the block.

    Raises
    ------
    InvalidTableError
        If the model raises, of whose error no text is kept, or gives something of another shape.
    """
    method = {"probability": "predict_proba", "score": "decision_function"}.get(kind, "predict")
    found: Any = None
    failed = ""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a warning may show a value
            found = np.asarray(getattr(model, method)(rows))
            if kind == "label":
                places = class_numbers(found, classes or ())
                found = np.where(np.isnan(places)[:, None], np.nan, places[:, None] == np.arange(len(classes or ())))
            elif kind == "score" and found.ndim == 1:
                found = np.column_stack([expit(-found), expit(found)])
            found = np.asarray(found, dtype=np.float64)
    except Exception as error:
        failed = type(error).__name__
    # Raised here and not above, so that a message that shows values is not kept as the context of ours.
    if failed:
        raise InvalidTableError(f"the model failed on these rows: {method} raised {failed}.")
    if found.ndim == 0 or len(found) != n_rows:
        raise InvalidTableError(f"{method} must return one line per row.")
    if kind == "number":
        if found.size != len(found):
            raise InvalidTableError(f"{method} must return one number per row.")
        return found.reshape(-1)  # type: ignore[no-any-return]
    if found.ndim != 2 or found.shape[1] != len(classes or ()):
        raise InvalidTableError(f"{method} must return one column per class.")
    return found  # type: ignore[no-any-return]


def predicted_row_by_row(
    model: Any, rows: Any, kind: str, classes: Sequence[Any] | None, n_rows: int
) -> tuple[Array, InvalidTableError | None]:  # fmt: skip
    """What a model says of rows, NaN for a row at which it raises, and why if it raises at all of them.

    Where all rows at once fail they are tried in halves, down to the row that fails; parameters as of `predicted_by`.
    """
    try:
        return predicted_by(model, rows, kind, classes, n_rows), None
    except InvalidTableError as error:
        failed = error
    if n_rows < 2:
        return np.full(n_rows if kind == "number" else (n_rows, len(classes or ())), np.nan), failed
    half, cut = n_rows // 2, getattr(rows, "iloc", rows)
    first, why = predicted_row_by_row(model, cut[:half], kind, classes, half)
    second, also = predicted_row_by_row(model, cut[half:], kind, classes, n_rows - half)
    return np.concatenate([first, second]), why and also


def _known(truth: Array, scores: Array) -> NDArray[np.bool_]:
    return np.isfinite(truth) & np.isfinite(scores).all(axis=1)


def _cells(cells: NDArray[Any], known: NDArray[np.bool_]) -> NDArray[np.int32]:
    return np.where(known, cells, -1).astype(np.int32)[:, None]


def binned_by_class(truth: Array, scores: Array, edges: Sequence[float]) -> NDArray[np.int32]:
    """Cell of the true class (of two) and of the bin of the second class's score; a bin holds its upper edge.

    Parameters
    ----------
    truth : array
        0 or 1, NaN for a row that counts nowhere.
    scores : array of shape (rows, 2)
        Of both classes.
    edges : sequence of float
        Inner edges, rising.
    """
    known = _known(truth, scores)
    bins = np.searchsorted(np.asarray(edges), np.where(known, scores[:, 1], 0.0), side="left")
    return _cells(np.where(known, truth, 0.0).astype(np.intp) * (len(edges) + 1) + bins, known)


def confusion_cells(truth: Array, scores: Array) -> NDArray[np.int32]:
    """Cell of the true class and of the class with the highest score, the first of several."""
    known = _known(truth, scores)
    best = np.where(known[:, None], scores, 0.0).argmax(axis=1)
    return _cells(np.where(known, truth, 0.0).astype(np.intp) * scores.shape[1] + best, known)


def confidence_cells(truth: Array, scores: Array, edges: Sequence[float]) -> NDArray[np.int32]:
    """Cell of whether the class with the highest score is the true one, and of the bin of that score."""
    known = _known(truth, scores)
    inside = np.where(known[:, None], scores, 0.0)
    right = inside.argmax(axis=1) == np.where(known, truth, -1.0)
    bins = np.searchsorted(np.asarray(edges), inside.max(axis=1), side="left")
    return _cells(right * (len(edges) + 1) + bins, known)


def log_losses(truth: Array, probabilities: Array, most: float) -> Array:
    """−log of the true class's probability, in [0, most]; one number per row, NaN for a row that counts nowhere."""
    known = _known(truth, probabilities)
    places = np.where(known, truth, 0.0).astype(np.intp)
    own = np.take_along_axis(probabilities, places[:, None], axis=1)[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.clip(-np.log(np.clip(own, 0.0, 1.0)), 0.0, most)
    return np.where(known, losses, np.nan)[:, None]


def errors_and_targets(
    truth: Array, predicted: Array, target_range: tuple[float, float], error_bound: float
) -> tuple[Array, Array]:
    """Absolute errors over `error_bound`, in [0, 1], and targets in [−1, 1]; NaN for a row that counts nowhere.

    Parameters
    ----------
    truth, predicted : array
        Clipped to the range, infinities too.
    target_range : (float, float)
        The public range of the target.
    error_bound : float
        A larger error counts as this one.
    """
    low, high = target_range
    known = ~(np.isnan(truth) | np.isnan(predicted))
    inside, expected = (np.clip(np.where(known, values, low), low, high) for values in (truth, predicted))
    errors = np.clip(np.abs(inside - expected) / error_bound, 0.0, 1.0)
    targets = np.clip((inside - low) / (high - low) * 2.0 - 1.0, -1.0, 1.0)
    return np.where(known, errors, np.nan), np.where(known, targets, np.nan)
