"""Compiled functions that are kept on disk, so that a second process does not compile them again.

numba keeps machine code beside a module (in `__pycache__`, or in the user's cache where that cannot be written) and
finds it again by the types of the arguments. The type of a function that is handed to a kernel, a loss's derivative for
instance, is that very function, and numba tells two processes' copies of it apart by a random name. Here the functions
of this package get names that follow from its source code: another process finds what was compiled, and changed code is
never mistaken for the old one. What is compiled for anybody else's function is not kept.
"""

import functools
import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.types import Dispatcher

# Sums over columns may be reordered (that is what makes them fast); NaN and infinity keep their meaning, and a
# division by zero gives one of them instead of an exception, which a single row could cause.
_KERNEL = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "nsz", "contract"}}
# A loss's derivative is compiled as it is written: no reordering inherited from the kernels.
_AS_WRITTEN = {"nogil": True, "error_model": "numpy", "fastmath": False}

# What is compiled, or called by what is, comes from these files and folders; this file says how it is compiled. The
# rest of `trusted/` only calls kernels: nothing of it gets into machine code, so it may change without a new name.
_COMPILED_SOURCES = (
    "problem",
    "trusted/objectives",
    "trusted/row_norms.py",
    "trusted/exact",
    "trusted/compiling.py",
)


def compile_kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel of this package when it is first called, or take it from disk."""
    return _kept(numba.njit(**_KERNEL)(function))


def compile_exact(function: Callable[..., Any]) -> Any:
    """The same without any reordering: rounding is as written."""
    return _kept(numba.njit(**_AS_WRITTEN)(function))


@functools.cache
def compiled(function: Callable[..., Any]) -> Any:
    """Compile a loss's derivative, or another function of numbers, once per process."""
    return _named(numba.njit(**_AS_WRITTEN)(function))


def compile_with_fallback(function: Callable[..., Any]) -> Any:
    """The same for a function that calls interpreted code in rare cases: it holds Python's lock."""
    return _kept(numba.njit(**{**_AS_WRITTEN, "nogil": False})(function))


def _kept(dispatcher: Any) -> Any:
    dispatcher._cache = _Cache(dispatcher.py_func)
    return _named(dispatcher)


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's own, but for functions of other people, for files that cannot be read, and for called functions.

    numba compiles a function again when its own file has changed. Here it does when any file has that compiled code
    comes from.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = _sources_digest()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(Exception):  # an unreadable file must cost time and nothing else
            return super().load_overload(sig, target_context) if _is_ours(sig) else None
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if _is_ours(sig):
            try:
                super().save_overload(sig, data)
            except Exception:  # the list of what was kept before cannot be read: begin a new one
                with suppress(Exception):
                    self.flush()
                    super().save_overload(sig, data)


def _is_ours(sig: Any) -> bool:
    handed = (kind.dispatcher.py_func for kind in getattr(sig, "args", sig) if isinstance(kind, Dispatcher))
    return all(_has_fixed_code(function) for function in handed)


def _has_fixed_code(function: Callable[..., Any]) -> bool:
    return function.__module__.startswith("dperm.") and function.__closure__ is None


def _named(dispatcher: Any) -> Any:
    function = dispatcher.py_func
    if _has_fixed_code(function):
        dispatcher._set_uuid(f"{function.__module__}.{function.__qualname__} {_sources_digest()}")
    return dispatcher


@functools.cache
def _sources_digest() -> str:
    """Of all source files that compiled code comes from: numba itself looks at one of them only."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in _COMPILED_SOURCES:
        for content in _python_files(files("dperm") / source):
            digest.update(content)
    return digest.hexdigest()


def _python_files(source: Traversable) -> Iterator[bytes]:
    if source.is_dir():
        for entry in sorted(source.iterdir(), key=lambda entry: entry.name):
            yield from _python_files(entry)
    elif source.name.endswith(".py"):
        yield source.read_bytes()
