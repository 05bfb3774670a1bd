"""Losses that are written in Python: numpy takes the slopes of many rows at once, and native code does the rest.

Where numba is installed (the extra of that name) it compiles the derivative instead, and native code calls it.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel import native
from dperm.problem.losses import Loss

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Rows whose slopes are taken at once.
_ROWS = 8192


@dataclass(frozen=True)
class WrittenSlope:
    """The derivative of a loss with what slopes and curvatures are clipped to."""

    loss: Loss
    bound: float
    curvature: float

    @property
    def outputs(self) -> int:
        """Margins of a row."""
        return self.loss.n_outputs

    def of(self, margins: Array, target: Array) -> Array:
        """ℓ' of every row, of shape (rows, outputs), not clipped."""
        found = np.zeros(margins.shape)
        with np.errstate(all="ignore"):
            if self.outputs == 1:
                found[:, 0] = self.loss.derivative(margins[:, 0], target, *self.loss.parameters)
            else:
                for margin, own, slope in zip(margins, target, found, strict=True):
                    self.loss.derivative(margin, own, slope, *self.loss.parameters)
        return found

    def clipped(self, margins: Array, target: Array) -> Array:
        """The same, every row clipped to the bound."""
        found = self.of(margins, target)
        native.clip_rows(found, self.bound)
        return found

    def part_sum(
        self, rows: native.Rows, part: int, w: Array, anchor: Array, chosen: Indices | None, start: int, stop: int,
        block: int, out: Array,
    ) -> None:  # fmt: skip
        """As `native.part_sum`."""
        at_once = min(block, _ROWS)
        for first in range(start, stop, at_once):
            last = min(first + at_once, stop)
            numbers = np.arange(first, last) if chosen is None else chosen[first:last]
            numbers = numbers[rows.weight[numbers] != 0.0]  # others may hold what is not a number
            slopes = self._bounded(rows, part, w, anchor, numbers)
            slopes *= rows.weight[numbers, None]
            if rows.intercept != 0.0:
                out[:, -1] += rows.intercept * slopes.sum(axis=0)
            slopes *= rows.scale[numbers, None]
            native.add_rows(rows, slopes, numbers, 0, numbers.size, block, out)

    def _bounded(self, rows: native.Rows, part: int, w: Array, anchor: Array, numbers: Indices) -> Array:
        """The clipped slopes of rows, or the changes of them between the anchor and w."""
        target, margins = rows.target[numbers], self._margins(rows, w, numbers)
        if part == native.GRADIENT:
            return self.clipped(margins, target)
        there = self._margins(rows, anchor, numbers)
        if part == native.DIFFERENCE:
            change = self.of(margins, target) - self.of(there, target)
        else:  # in the ball from 0 to β times how far the margins move
            centre = 0.5 * self.curvature * margins
            change = self.of(margins + there, target) - self.of(there, target) - centre
            for own, radius in zip(change, np.linalg.norm(centre, axis=1), strict=True):
                native.clip_vector(own, radius)
            change += centre
        native.clip_rows(change, self.bound)
        return change

    def _margins(self, rows: native.Rows, w: Array, numbers: Indices) -> Array:
        """Of every row, scaled and with its constant."""
        margins = native.margins(rows, w, numbers, 0, numbers.size) * rows.scale[numbers, None]
        return margins + rows.intercept * w[:, -1] if rows.intercept != 0.0 else margins

    def curvatures(self, scale: Array, target: Array, constant: float, step: float, margins: Array) -> None:
        """As `native.curvatures`."""
        if self.outputs == 1:
            margins *= scale[:, None]
            margins += constant
        found = np.empty(margins.shape)
        for k in range(self.outputs):
            shift = step * (np.arange(self.outputs) == k)
            up, down = (self.clipped(margins + sign * shift, target)[:, k] for sign in (1.0, -1.0))
            found[:, k] = (up - down) / (2.0 * step)
        margins[:] = np.where(found <= self.curvature, np.maximum(found, 0.0), self.curvature)


@functools.cache
def compiled_address(derivative: Callable[..., Any], parameters: tuple[float, ...], n_outputs: int) -> int | None:
    """Where numba puts a derivative that native code can call; None if numba cannot compile it.

    Parameters
    ----------
    derivative : callable
        Of a loss.
    parameters : tuple of float
        What it takes after margin and target.
    n_outputs : int
        Margins of a row.
    """
    import numba
    from numba import types

    numbers = types.CPointer(types.float64)
    function = numba.njit(error_model="numpy", fastmath=False)(derivative)

    def scalar(margin, target, _, n, out):  # type: ignore[no-untyped-def]
        for i in range(n):
            out[i] = function(margin[i], target[i], *parameters)

    def vector(margin, target, _, n, out):  # type: ignore[no-untyped-def]
        function(numba.carray(margin, (n,)), target, numba.carray(out, (n,)), *parameters)

    target = numbers if n_outputs == 1 else types.float64
    signature = types.void(numbers, target, numbers, types.int64, numbers)
    try:
        compiled = numba.cfunc(signature, error_model="numpy")(scalar if n_outputs == 1 else vector)
    except numba.core.errors.NumbaError:
        return None
    _KEPT.append(compiled)
    return int(compiled.address)


# Machine code lives as long as the object that owns it.
_KEPT: list[Any] = []
