"""A table as two, one to fit on and one to score on, and what a model loses on each row of the second."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.kernel.apart import two_parts
from dperm.kernel.exact.words import Stream
from dperm.kernel.units import Membership
from dperm.models.row_by_row import sums
from dperm.rows.columns import Columns
from dperm.rows.encoding import label_numbers, target_numbers
from dperm.rows.labels import class_numbers, numeric_target, one_by_one
from dperm.schema import Schema

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class RowsApart:
    """A table as two, with no row in common.

    Attributes
    ----------
    train, held_out : (table, target)
        To fit on, and to score on; the target is None where the table holds it.
    train_units : array of int or None
        The number of the unit of every row that is fitted on, where rows are protected by unit.
    held_out_units : Membership or None
        Whose the rows are that are scored on.
    """

    train: tuple[Any, Any]
    held_out: tuple[Any, Any]
    train_units: NDArray[np.int64] | None = None
    held_out_units: Membership | None = None

    def __reduce__(self) -> Any:
        """Rows are not to be written anywhere."""
        raise TypeError("rows cannot be pickled or copied: they never leave the trusted kernel.")


def rows_apart(
    X: Any, y: Any, slots: int, train_slots: int, stream: Stream, membership: Membership | None = None
) -> RowsApart:  # fmt: skip
    """The rows of a table in memory, put apart at random; parameters as of `two_parts`."""
    n_rows = len(Columns(X)) if _is_frame(X) else int(np.shape(X)[0])
    fit_on, score_on = two_parts(n_rows, slots, train_slots, stream, membership)
    y = one_by_one(y)
    train, held_out = ((_taken(X, rows), None if y is None else _taken(y, rows)) for rows in (fit_on, score_on))
    if membership is None:
        return RowsApart(train, held_out)
    numbers = membership.numbers
    return RowsApart(train, held_out, numbers[fit_on], replace(membership, numbers=numbers[score_on]))


def _is_frame(table: Any) -> bool:
    return hasattr(table, "columns") or type(table).__module__.startswith("pyarrow")


def _taken(values: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of a table, or entries of a column."""
    if sparse.issparse(values):
        return values.tocsr()[rows]
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if type(values).__module__.startswith("pyarrow"):
        return values.take(rows)
    return (values if hasattr(values, "shape") else np.asarray(values))[rows]


def plain_labels(y: Any, classes: Sequence[Any], majority: bool) -> NDArray[Any]:
    """Labels as texts, or as numbers: what a majority of all labels decides must not be decided again by a part."""
    places = class_numbers(one_by_one(y), classes, majority)
    known = np.isfinite(places)
    chosen = np.where(known, places, 0).astype(np.intp)
    if not isinstance(classes[0], str):
        return np.where(known, np.asarray(classes, dtype=np.float64)[chosen], np.nan)
    other = "?"
    while other in classes:
        other += "?"
    return np.where(known, np.asarray(classes, dtype=str)[chosen], other)


def plain_numbers(y: Any, majority: bool) -> Array:
    """Numbers, NaN for what is none; whether they are numbers at all was decided by all of them."""
    return np.asarray(numeric_target(np.asarray(one_by_one(y)), majority), dtype=np.float64)


def true_places(rows: tuple[Any, Any], schema: Schema | None, classes: Sequence[Any]) -> Array:
    """The index of every row's class among the declared ones, NaN for a row of none of them."""
    X, y = rows
    return class_numbers(y, classes) if schema is None else label_numbers(X, y, schema)


def true_numbers(rows: tuple[Any, Any], schema: Schema | None) -> Array:
    """The target in its own units, NaN where there is none."""
    X, y = rows
    return np.asarray(numeric_target(np.asarray(y)) if schema is None else target_numbers(X, y, schema), np.float64)


def wrong(scores: Array, places: Array) -> Array:
    """1 where the class with the highest score is another than the row's; 0 for a row of none."""
    best = (scores > 0).astype(np.float64) if scores.ndim == 1 else scores.argmax(axis=1).astype(np.float64)
    return np.where(np.isnan(places), 0.0, (best != places).astype(np.float64))


def log_losses(probabilities: Array, places: Array) -> Array:
    """−ln of the class's probability, as a share of what a probability of 1/(8·classes) loses, which is the most."""
    least = 1.0 / (8.0 * probabilities.shape[1])
    kept = np.clip(_of_class(probabilities, places), least, 1.0)
    return _counted(np.log(kept) / np.log(least), places)


def squared_errors_of_classes(probabilities: Array, places: Array) -> Array:
    """Half the squared distance between the probabilities and the row's class: the Brier score, between 0 and 1."""
    squares = sums(probabilities**2) - 2.0 * _of_class(probabilities, places) + 1.0
    return _counted(0.5 * squares, places)


def squared_errors(predicted: Array, numbers: Array, low: float, high: float) -> Array:
    """The squared error as a share of the target's declared range, to which both are clipped."""
    with np.errstate(all="ignore"):
        apart = (np.clip(predicted, low, high) - np.clip(numbers, low, high)) / (high - low)
        return _counted(apart**2, numbers)


def _counted(losses: Array, truth: Array) -> Array:
    """Losses in [0, 1]: 1 where the model gives no number, 0 for a row without a truth."""
    return np.where(np.isnan(truth), 0.0, np.nan_to_num(np.clip(losses, 0.0, 1.0), nan=1.0))


def _of_class(probabilities: Array, places: Array) -> Array:
    known = np.where(np.isnan(places), 0, places).astype(np.intp)
    return np.take_along_axis(probabilities, known[:, None], axis=1)[:, 0]
