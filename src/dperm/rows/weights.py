"""Weights of rows as they are passed: public ones are checked, private ones bounded. No message shows a value."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.rows.cells import number_or_nan
from dperm.rows.labels import one_by_one

Array = NDArray[np.float64]


def weight_numbers(weights: Any, n_rows: int) -> Array | None:
    """One number per row, NaN for what is none; None if there are no weights.

    Raises
    ------
    InvalidParameterError
        If their shape or their type is another: both are public, as those of the table are.
    """
    if weights is None:
        return None
    given = weights if hasattr(weights, "dtype") else one_by_one(weights)
    # A masked entry is not a number; as objects, entries are read one by one, and none of them can raise.
    values = np.ma.filled(given.astype(object), np.nan) if np.ma.isMaskedArray(given) else np.asarray(given)
    if values.shape != (n_rows,):
        raise InvalidParameterError(
            f"weights must be one number per row: {n_rows} rows, weights of shape {values.shape}."
        )
    if values.dtype.kind in "cMmV":
        raise InvalidParameterError(f"weights must be real numbers, got {values.dtype}.")
    if values.dtype.kind in "OUS":
        return np.array([number_or_nan(value) for value in values.tolist()], dtype=np.float64)
    return values.astype(np.float64)


def bounded_weights(weights: Any, n_rows: int, bound: float, *, private: bool) -> Array | None:
    """The weights of a fit's rows, each in [0, bound]: a policy that the user declared says what becomes of others.

    Public weights are checked: one that is not in [0, bound] raises, and so do weights that are all 0. Private weights
    belong to their rows, so no value of one may raise: one that is negative or no number becomes 0, which ignores its
    row, and a larger one is clipped.
    Proof: docs/proofs/weights.md.

    Parameters
    ----------
    weights : array of shape (rows,) or None
        As passed.
    n_rows : int
        Of the table.
    bound : float
        The declared bound.
    private : bool
        Whether they belong to the rows.
    """
    numbers = weight_numbers(weights, n_rows)
    if numbers is None:
        return None
    if private:
        return np.minimum(np.where(numbers > 0.0, numbers, 0.0), bound)
    if not (numbers >= 0.0).all():
        raise InvalidParameterError(
            f"sample_weight must be a number between 0 and weight_bound = {bound:g} for every row; one is negative "
            "or not a number. With private_weights=True such rows are dropped."
        )
    if not (numbers <= bound).all():
        raise InvalidParameterError(
            f"sample_weight must lie between 0 and weight_bound = {bound:g}: declare a larger bound, or pass "
            "private_weights=True if weights are part of the private rows."
        )
    if not numbers.any():
        raise InvalidParameterError("sample_weight must not be zero for all rows.")
    return numbers
