"""How kernels are compiled: what may be reordered, and what is computed as it is written."""

import functools
from collections.abc import Callable
from typing import Any

import numba

from dperm.code_cache import kept, named

# Sums over columns may be reordered (that is what makes them fast); NaN and infinity keep their meaning, and a
# division by zero gives one of them instead of an exception, which a single row could cause.
_KERNEL = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "nsz", "contract"}}
# A loss's derivative is compiled as it is written: no reordering inherited from the kernels.
_AS_WRITTEN = {"nogil": True, "error_model": "numpy", "fastmath": False}


def compile_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel of this package when it is first called, or take it from disk."""
    return kept(numba.njit(**_KERNEL)(function))


def compile_exact(function: Callable[..., Any]) -> Any:
    """The same without any reordering: rounding is as written."""
    return kept(numba.njit(**_AS_WRITTEN)(function))


@functools.cache
def compiled(function: Callable[..., Any]) -> Any:
    """Compile a loss's derivative, or another function of numbers, once per process."""
    return named(numba.njit(**_AS_WRITTEN)(function))


def compile_with_fallback(function: Callable[..., Any]) -> Any:
    """The same for a function that calls interpreted code in rare cases: it holds Python's lock."""
    return kept(numba.njit(**{**_AS_WRITTEN, "nogil": False})(function))
