"""Bounded rows: clipped to the declared bounds, never copied, never measured for anybody outside `kernel/`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.kernel.coded import CodedRows
from dperm.kernel.row_norms import is_canonical, row_norms
from dperm.kernel.sampling import Batches, Sample
from dperm.kernel.units import Members, Numbers, UnitRows
from dperm.mechanisms.setting import MOST_ROWS
from dperm.problem import Problem

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Rows of one piece of a table, bounded; the arrays never leave `kernel/`.

    Attributes
    ----------
    table : array, CSR matrix or CodedRows
        The values as handed in.
    target : array
        Encoded and clipped targets.
    scale : array
        min(1, R/‖x_i‖₂, B/‖x_i‖_∞): makes the row obey the declared norm and the bound on its entries.
    weight : array
        The row's weight; 0 for a row that is ignored (a value that is not finite, or an unknown label).
    facts : object
        What became of the rows, for the data holder: nothing here looks at it. None for a part of a block.
    units : array of int or None
        Number of every row's unit, −1 for none; None where each row is its own unit.
    n_units : int
        How many units the table has.
    kept_members : Members or None
        Its rows by unit, where they were found before.
    """

    table: Any
    target: Array
    scale: Array
    weight: Array
    facts: Any = None
    units: Numbers | None = None
    n_units: int = 0
    kept_members: Members | None = None

    @classmethod
    def from_table(
        cls, X: Any, y: Any, problem: Problem, weights: Array | None = None, units: UnitRows | None = None,
        facts: Callable[..., Any] | None = None,
    ) -> "Block":  # fmt: skip
        """Read a piece of a table once and bound every row: the one place where any row of a fit is bounded.

        Parameters
        ----------
        X, y : array-like
            Features and numeric targets.
        problem : Problem
            Declares the bounds.
        weights : array, optional
            Weight per row, 1 if absent; clipped to [0, `problem.weight_bound`], and 0 where it is not a number.
        units : UnitRows, optional
            Whose every row is; its weight there multiplies the other, so that all rows of a unit together weigh no more
            than `problem.weight_bound`.
        facts : callable, optional
            Counts what became of the rows, from the table, the targets before and after encoding, the norms, what rows
            are multiplied by, the range that targets are clipped to, and the weights of rows in their units.
        """
        table = as_table(X)
        given = _numbers(np.asarray(y))
        lengths = {given.shape, *(() if weights is None else (np.shape(weights),))}
        if units is not None:
            lengths |= {units.numbers.shape, units.weights.shape}
        if lengths != {(table.shape[0],)}:
            raise InvalidTableError("a table, its target, weights and units must have one entry per row each.")
        target = problem.loss.encode(given)
        norms, entries = row_norms(table)
        usable = np.isfinite(norms) & np.isfinite(given) & np.isfinite(target)
        scale = np.ones(target.size)
        if problem.loss.scales_rows:
            sizes = [np.where(usable, size, np.inf) for size in (norms, entries)]
            scale = _bounding_scale(sizes, (problem.row_norm, problem.largest_entry), table.shape[1])
        # A bound below 1 holds for rows without weights too: the sensitivity rests on it.
        weight = np.ones(target.size) if weights is None else np.nan_to_num(np.asarray(weights, dtype=np.float64))
        weight = np.clip(weight, 0.0, problem.weight_bound)
        shares = None if units is None else units.weights
        known = None
        if facts is not None:
            known = facts(table, given, target, norms, scale, problem.loss.clipped_range, shares)
        weight = np.where(usable, weight if units is None else weight * units.weights, 0.0)
        whose = (None, 0) if units is None else (units.numbers, units.n)
        return cls(table, np.where(usable, target, 0.0), scale, weight, known, *whose)

    def __len__(self) -> int:
        """Number of rows."""
        return int(self.target.size)

    def __reduce__(self) -> Any:
        """Blocks are not to be written anywhere."""
        raise TypeError("rows cannot be pickled or copied: they never leave the trusted kernel.")

    @cached_property
    def members(self) -> Members | None:
        """Its rows by unit: found when they are first needed."""
        if self.units is None or self.kept_members is not None:
            return self.kept_members
        return Members.of(self.units, self.n_units)

    def batches(self, sample: Sample, place: int, n_steps: int = 1) -> Batches:
        """The rows of a sample, given the block's index in the table: row by row, or unit by unit."""
        if self.members is None:
            return sample.batches(len(self), place, n_steps)
        return sample.batches_by_unit(self.members, n_steps)

    def take(self, chosen: NDArray[np.intp]) -> "Block":
        """The chosen rows, for one sum."""
        # Of an array, `take` is several times as fast as an index.
        table = self.table.take(chosen, axis=0) if isinstance(self.table, np.ndarray) else self.table[chosen]
        return Block(table, self.target[chosen], self.scale[chosen], self.weight[chosen])

    def cut(self, most: int = MOST_ROWS) -> Iterator["Block"]:
        """Blocks of at most this many rows, without a copy; the first has the facts of all."""
        if len(self) <= most:
            yield self
            return
        for first in range(0, len(self), most):
            rows = slice(first, first + most)
            facts = self.facts if first == 0 else None
            units = None if self.units is None else self.units[rows]
            yield Block(
                _rows(self.table, rows), self.target[rows], self.scale[rows], self.weight[rows], facts, units,
                self.n_units,
            )  # fmt: skip


def bounded_rows(X: Any, row_norm: float, entry_bound: float | None = None) -> Any:
    """Rows that are to be predicted, clipped as a fit clips its own.

    Parameters
    ----------
    X : array, data frame or CSR matrix
        Rows. One with a value that is not finite, which a fit ignores, stays as it is.
    row_norm : float
        The bound on the l2 norm of a row.
    entry_bound : float, optional
        The bound on its entries.
    """
    table = as_table(X)
    sizes = [np.where(np.isfinite(size), size, 0.0) for size in row_norms(table)]
    largest = row_norm if entry_bound is None else min(row_norm, entry_bound)
    scale = _bounding_scale(sizes, (row_norm, largest), table.shape[1])
    if (scale == 1.0).all():
        return table
    if not sparse.issparse(table):
        return table * scale[:, None]
    return csr_of(table.data * np.repeat(scale, np.diff(table.indptr)), table.indices, table.indptr, table.shape[1])


def _bounding_scale(sizes: list[Array], bounds: tuple[float, float], width: int) -> Array:
    """What every row is multiplied by, at most 1, so that its norm and its largest entry obey their bounds."""
    # A few ulp below the bounds, so that the scaled row, measured again, does not exceed them.
    room, scale = 1.0 - 8.0 * width * 2.0**-53, np.ones(sizes[0].size)
    for size, bound in zip(sizes, bounds, strict=True):
        limit = bound * room
        scale = np.minimum(scale, limit / np.maximum(size, limit))
    return scale


def _rows(table: Any, rows: slice) -> Any:
    """Consecutive rows that share memory with the table."""
    if not sparse.issparse(table):
        return table[rows]
    starts = table.indptr[rows.start : rows.stop + 1]
    stored = slice(int(starts[0]), int(starts[-1]))
    return csr_of(table.data[stored], table.indices[stored], starts - starts[0], table.shape[1])


def csr_of(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], n_columns: int) -> Any:
    """A CSR matrix of arrays that were checked before; scipy would check them again, and copy what is a small view."""
    table = sparse.csr_matrix((indptr.size - 1, n_columns), dtype=data.dtype)
    table.data, table.indices, table.indptr = data, indices, indptr
    return table


def as_table(X: Any) -> Any:
    """Bring a table into a form that the kernels read, CSR, codes or a numeric array; no copy where it is one."""
    if isinstance(X, CodedRows):
        return X
    if sparse.issparse(X):
        table = X if X.format == "csr" else X.tocsr()
        if table.dtype.kind not in "fiub":
            raise InvalidParameterError("the table must contain real numbers.")
        if table.dtype not in (np.float32, np.float64) or not table.dtype.isnative:
            table = table.astype(np.float64)
        return table if is_canonical(table) else _canonical(table)
    table = np.asarray(X)
    if table.ndim != 2:
        raise InvalidParameterError(f"the table must have two dimensions (rows and columns), got {table.ndim}.")
    if table.dtype.kind not in "fiub":
        raise InvalidParameterError(f"the table must contain real numbers, got {table.dtype}.")
    return table if _is_plain(table.dtype) else table.astype(np.float64)


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether the kernels read it as it is."""
    return dtype.isnative and (dtype.kind != "f" or dtype.itemsize in (4, 8))


def _numbers(values: NDArray[Any]) -> Array:
    """Turn Python objects into floats; the message must not show the one that is not a number."""
    try:
        if values.dtype.kind != "c":
            return values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    # Raised here and not above, so that the message with the value is not kept as its context.
    raise InvalidParameterError("the values must be real numbers; encode text first.")


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
        raise InvalidParameterError("the sparse table is malformed.")
    return copy
