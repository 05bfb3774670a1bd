"""exp without overflow: numpy's for arrays, and one for compiled kernels that computes several at a time."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

_LOWEST, _HIGHEST = -708.0, 709.0
_ROUNDER = 1.5 * 2.0**52  # adding it rounds a float64 to a whole number, which then stands in the low bits
_LOG2_E = 1.4426950408889634
_LN_2_HIGH, _LN_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


def exp(x: Any) -> Any:
    """e^x for x within [−708, 709], and the value at the nearer end beyond: never 0, never infinite."""
    return np.exp(np.clip(x, _LOWEST, _HIGHEST))


@intrinsic
def _as_float(_context, _bits):  # type: ignore[no-untyped-def]
    return types.float64(types.int64), lambda _c, builder, _s, values: builder.bitcast(values[0], ir.DoubleType())


@intrinsic
def _as_bits(_context, _number):  # type: ignore[no-untyped-def]
    return types.int64(types.float64), lambda _c, builder, _s, values: builder.bitcast(values[0], ir.IntType(64))


# Without fastmath=False the flags of the calling kernel would be inherited, and reordering undoes the rounding trick.
@overload(exp, jit_options={"error_model": "numpy", "fastmath": False})
def _compiled_exp(x):  # type: ignore[no-untyped-def]
    # e^x = 2^k e^r with |r| ≤ ½ ln 2 and a Taylor polynomial for e^r: 1e-14 relative, no call and no branch.
    def implementation(x):  # type: ignore[no-untyped-def]
        x = min(max(x, _LOWEST), _HIGHEST)
        shifted = x * _LOG2_E + _ROUNDER
        k = shifted - _ROUNDER
        r = (x - k * _LN_2_HIGH) - k * _LN_2_LOW
        e = 1.0 / 39916800.0
        e = e * r + 1.0 / 3628800.0
        e = e * r + 1.0 / 362880.0
        e = e * r + 1.0 / 40320.0
        e = e * r + 1.0 / 5040.0
        e = e * r + 1.0 / 720.0
        e = e * r + 1.0 / 120.0
        e = e * r + 1.0 / 24.0
        e = e * r + 1.0 / 6.0
        e = e * r + 0.5
        e = e * r + 1.0
        e = e * r + 1.0
        return _as_float(_as_bits(e) + (_as_bits(shifted) << 52))

    return implementation
