"""What kernels for margin losses are handed: rows, and the slope of a loss."""

import importlib.util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel import native
from dperm.kernel.block import Block
from dperm.kernel.objectives.written_slopes import WrittenSlope, compiled_address
from dperm.problem import losses
from dperm.problem.losses import Loss

Array = NDArray[np.float64]

# The derivatives that native code has, under the name of their loss. A subclass with its own derivative has another.
_NATIVE = {
    kind.derivative: kind.name
    for kind in (getattr(losses, name) for name in losses.__all__)
    if getattr(kind, "name", None) in (*native.SCALAR_SLOPES, *native.VECTOR_SLOPES)
}


def rows_of(block: Block, intercept: float) -> native.Rows:
    """Of a block; the intercept is 0 where there is no constant column."""
    return native.Rows(block.table, block.scale, block.weight, block.target, intercept)


def slope_of(loss: Loss, bound: float, curvature: float = 0.0) -> "native.Slope | WrittenSlope":
    """ℓ' of a loss: native, or compiled by numba where that is installed, or as it is written, for many rows at once.

    Parameters
    ----------
    loss : Loss
        Gives the derivative and its parameters.
    bound : float
        What slopes, or changes of them, are clipped to (norm, if they are vectors).
    curvature : float
        What curvatures are clipped to.
    """
    known: Any = _NATIVE.get(loss.derivative)
    if known is None and importlib.util.find_spec("numba") is not None:
        known = compiled_address(loss.derivative, loss.parameters, loss.n_outputs)
    if known is None:
        return WrittenSlope(loss, bound, curvature)
    return native.Slope(known, loss.n_outputs, loss.parameters, bound, curvature)


def shaped(loss: Loss, w: Array) -> Array:
    """One row of coefficients per output."""
    return np.ascontiguousarray(w, dtype=np.float64).reshape(loss.n_outputs, -1)
