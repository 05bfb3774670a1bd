"""Rows behind the wall: clipped to the declared bounds, never copied, never measured for anybody outside."""

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from dperm.accounting.guarantee import ROWS_ALLOWED_PER_DECLARED, Adjacency
from dperm.errors import InvalidParameter
from dperm.problem import Problem
from dperm.trusted.differences import BoundedRows, difference_sum, printed_steps, stochastic_steps
from dperm.trusted.hessians import hessian_sum
from dperm.trusted.kernels import gradient_sum, is_canonical, row_norms

Array = NDArray[np.float64]


def as_table(X: Any) -> Any:
    """Bring a table into a form that the kernels read, CSR or a numeric array, without a copy where it is one."""
    if sparse.issparse(X):
        table = X if X.format == "csr" else X.tocsr()
        if table.dtype.kind not in "fiub":
            raise InvalidParameter("the table must hold real numbers.")
        if not _is_plain(table.dtype):
            table = table.astype(np.float64)
        return table if is_canonical(table) else _canonical(table)
    table = np.ma.filled(X.astype(np.float64), np.nan) if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    if table.ndim != 2:
        raise InvalidParameter(f"the table must have two dimensions (rows and columns), got {table.ndim}.")
    if table.dtype.kind == "O":
        # Data frames with missing whole numbers know how to become floats.
        table = (
            X.to_numpy(dtype=np.float64, na_value=np.nan)
            if hasattr(X, "isna") and _holds_numbers(X)
            else _numbers(table)
        )
    if table.dtype.kind not in "fiub":
        raise InvalidParameter(f"the table must hold real numbers, got {table.dtype}.")
    return table if _is_plain(table.dtype) else table.astype(np.float64)


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether the kernels can be compiled for it."""
    return dtype.isnative and (dtype.kind != "f" or dtype.itemsize in (4, 8))


def _holds_numbers(frame: Any) -> bool:
    return all(getattr(kind, "kind", "O") in "fiub" for kind in frame.dtypes)


def _numbers(values: NDArray[Any]) -> Array:
    """Turn Python objects into floats; the message must not show the one that is not a number."""
    try:
        if values.dtype.kind != "c":
            return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    # Raised here and not above, so that the message with the value is not kept as its context.
    raise InvalidParameter("the values must be real numbers; encode text first.")


def _canonical(table: Any) -> Any:
    """Copy a CSR matrix with its columns in order and duplicates added up."""
    try:
        copy = table.astype(np.float64)
        copy.has_canonical_format = False
        copy.has_sorted_indices = False
        copy.check_format(full_check=True)
        copy.sum_duplicates()
    except ValueError:
        copy = None
    if copy is None or not is_canonical(copy):
        raise InvalidParameter("the sparse table is malformed.")
    return copy


def table_shape(X: Any, y: Any) -> tuple[int, int]:
    """Number of rows and columns, read without looking at a value."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X, dtype=object).shape
    if len(shape) != 2:
        raise InvalidParameter(f"the table must have two dimensions (rows and columns), got {len(shape)}.")
    n_targets = y.shape if hasattr(y, "shape") else np.asarray(y, dtype=object).shape
    if len(n_targets) != 1:
        raise InvalidParameter(f"the target must have one dimension, got {len(n_targets)}.")
    if shape[0] != n_targets[0]:
        raise InvalidParameter(f"the table has {shape[0]} rows and the target {n_targets[0]}.")
    if shape[0] < 1 or shape[1] < 1:
        raise InvalidParameter(f"the table needs at least one row and one column, got {shape[0]} × {shape[1]}.")
    return int(shape[0]), int(shape[1])


def check_row_count(n_rows: int, n: int, adjacency: Adjacency) -> None:
    """Raise if the table is not one that the guarantee speaks of."""
    if adjacency is Adjacency.REPLACE_ONE and n_rows != n:
        raise InvalidParameter(
            f"under replace_one the public n is the number of rows: {n_rows} rows, n = {n}; "
            "for folds of a table declare no n."
        )
    if n_rows > ROWS_ALLOWED_PER_DECLARED * n + 1:
        raise InvalidParameter(f"the declared n = {n} is too small for this table; declare about its number of rows.")


def read_table(estimator: Any, X: Any, *, fitting: bool) -> Any:
    """Check a table the scikit-learn way (names, shape, type) but never for the values in it."""
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


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """A table with its bounded rows; the arrays never leave `trusted/`.

    Attributes
    ----------
    table : array or CSR matrix
        The values as handed in.
    target : array
        Encoded and clipped targets.
    scale : array
        min(1, R/‖x_i‖₂, B/‖x_i‖_∞): makes the row obey the declared norm and the bound on its entries.
    weight : array
        The row's weight; 0 for a row that counts as nothing (a value that is not finite, or an unknown label).
    """

    table: Any
    target: Array
    scale: Array
    weight: Array

    @classmethod
    def from_table(cls, X: Any, y: Any, problem: Problem, weights: Array | None = None) -> "Rows":
        """Read a table once and bound every row.

        Parameters
        ----------
        X, y : array-like
            Features and numeric targets.
        problem : Problem
            Declares the bounds.
        weights : array, optional
            Weight per row, at most `problem.weight_bound`; 1 if absent.
        """
        table = as_table(X)
        given = _numbers(np.asarray(y))
        target = problem.loss.encode(given)
        norms, entries = row_norms(table)
        usable = np.isfinite(norms) & np.isfinite(given) & np.isfinite(target)
        # A few ulp below the bounds, so that the scaled row, measured again, does not exceed them.
        room = 1.0 - 8.0 * table.shape[1] * 2.0**-53
        scale = np.ones(target.size)
        for size, bound in ((norms, problem.row_norm), (entries, problem.largest_entry)):
            limit = bound * room
            scale = np.minimum(scale, limit / np.maximum(np.where(usable, size, np.inf), limit))
        weight = np.ones(target.size)
        if weights is not None:
            weight = np.clip(np.nan_to_num(np.asarray(weights, dtype=np.float64)), 0.0, problem.weight_bound)
        return cls(table, np.where(usable, target, 0.0), scale, np.where(usable, weight, 0.0))

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.target.size)

    def __reduce__(self) -> Any:
        """Rows are not to be written anywhere."""
        raise TypeError("rows cannot be pickled or copied: they never leave the trusted side.")

    def take(self, chosen: NDArray[np.intp]) -> "Rows":
        """The chosen rows."""
        return Rows(self.table[chosen], self.target[chosen], self.scale[chosen], self.weight[chosen])

    def difference_sum(
        self, problem: Problem, bound: float, chosen: NDArray[np.intp], w: Array, anchor: Array, pool: Executor
    ) -> Array:
        """Σ over the chosen rows of ∇f(w, z_i) − ∇f(anchor, z_i), every row's part at most `bound` long."""
        return difference_sum(self._bounded(problem), bound / problem.slope_scale, chosen, w, anchor, pool)

    def printed_steps(self, problem: Problem, bound: float, *more: Any) -> tuple[Array, Array]:
        """The printed inner loop, every row's difference at most `bound` long."""
        return printed_steps(self._bounded(problem), bound / problem.slope_scale, *more)

    def stochastic_steps(self, problem: Problem, *more: Any) -> tuple[Array, Array]:
        """Noisy SGD steps, every row's gradient at most `lipschitz` long."""
        return stochastic_steps(self._bounded(problem), problem.slope_bound(self.table.shape[1]), *more)

    def _bounded(self, problem: Problem) -> BoundedRows:
        return BoundedRows(
            problem.loss, self.table, self.scale, self.weight, self.target, problem.intercept_value
        )  # fmt: skip

    def gradient_sum(self, problem: Problem, w: Array, pool: Executor, bound: float | None = None) -> Array:
        """Σ ∇f(w, z_i), every row's part at most `lipschitz` long, or `bound` if that is given."""
        slope_bound = problem.slope_bound(self.table.shape[1]) if bound is None else bound / problem.slope_scale
        return gradient_sum(
            problem.loss, slope_bound, self.table, self.scale, self.weight, self.target,
            w, problem.intercept_value, pool,
        )  # fmt: skip

    def hessian_sum(self, problem: Problem, w: Array, stride: int = 1, bound: float = math.inf) -> Array:
        """Σ ℓ''(⟨w, x_i⟩, y_i) x_i x_iᵀ over every stride-th row, every row's part at most `smoothness` long.

        Rows whose gradient is cut to `bound` have no curvature.
        """
        return hessian_sum(
            problem.loss, bound / problem.slope_scale, problem.curvature_bound(self.table.shape[1]), self.table,
            self.scale, self.weight, self.target, w, problem.intercept_value, stride,
        )  # fmt: skip
