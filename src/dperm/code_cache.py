"""Compiled functions that are kept on disk, so that a second process does not compile them again.

Machine code is kept in the folder that DPERM_CACHE names; otherwise numba keeps it beside the module (in `__pycache__`,
or in the user's cache where that cannot be written). What is kept is run when it is loaded, so a folder that another
user could write is not used. Where no folder is left, every process compiles anew, and one warning says so.

Compiled code is found again by the types of the arguments. The type of a function that is handed to a kernel, a loss's
derivative for instance, is that very function, and numba tells two processes' copies of it apart by a random name. Here
the functions of this package get names that follow from its source code: another process finds what was compiled, and
changed code is never mistaken for the old one. What is compiled for anybody else's function is not kept.
"""

import functools
import hashlib
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    NullCache,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)
from numba.core.types import Dispatcher

from dperm.errors import InvalidParameterError, NotKeptWarning
from dperm.printable import one_line
from dperm.progress import WaitingBar

# What is compiled, or called by what is, comes from these files and folders. The rest of `kernel/` only calls kernels:
# nothing of it gets into machine code, so it may change without a new name.
_COMPILED_SOURCES = (
    "problem",
    "kernel/objectives",
    "kernel/row_norms.py",
    "kernel/exact",
    "kernel/compiling.py",
    "code_cache.py",
)

_NOT_KEPT = (
    "compiled code cannot be cached, so every process compiles it again (about 10 s): set DPERM_CACHE to a folder "
    "that only you can write, inside folders that only you or root can write."
)


def kept(dispatcher: Any) -> Any:
    """A compiled function whose machine code is kept on disk."""
    try:
        dispatcher._cache = _Cache(dispatcher.py_func)
    except RuntimeError:  # numba's word for no folder that can be used
        dispatcher._cache = _NoFolder()
    return named(dispatcher)


def named_folder() -> Path | None:
    """The folder that DPERM_CACHE names: never a relative one, which anybody may have made where dperm is called."""
    named = os.environ.get("DPERM_CACHE")
    if not named:
        return None
    if not os.path.isabs(named):
        raise InvalidParameterError(f"DPERM_CACHE is {one_line(named)}, a relative path: use an absolute one.")
    return Path(named)


def _is_only_ours(folder: str) -> bool:
    """Whether only this user and root can write this folder and, as far as it matters, those above it.

    In a sticky folder such as /tmp nobody can replace what is not theirs. A group counts as the user's own if it has
    the user's number, as where every user has a group to themselves, and as root's if it has number 0.
    """
    if not hasattr(os, "geteuid"):  # Windows
        return True
    user, path = os.geteuid(), Path(folder)
    groups = {0, user} & {0, os.getegid()}
    try:
        found = [place.lstat() for place in (path, *path.parents)]
    except OSError:
        return False
    for place in found:
        others = place.st_mode & (stat.S_IWOTH if place.st_gid in groups else stat.S_IWOTH | stat.S_IWGRP)
        is_sticky_above = place is not found[0] and place.st_mode & stat.S_ISVTX
        if not stat.S_ISDIR(place.st_mode) or place.st_uid not in (0, user) or (others and not is_sticky_above):
            return False
    return path.is_absolute()


class _NamedFolder:
    """Where numba keeps a function's machine code if DPERM_CACHE is set: the interface of its locators.

    Names do not depend on where the package is, and the folder need not be writable: an image can bring it along.
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._function, self._folder = function, folder

    @classmethod
    def from_function(cls, function: Callable[..., Any], _file: str) -> "_NamedFolder | None":
        """The locator of a function, None without a folder."""
        named = named_folder()
        if named is None:
            return None
        found = cls(function, Path(os.path.realpath(named / "kernels")))
        with suppress(OSError):
            found.ensure_cache_path()
        return found

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        """Make the folder."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def get_source_stamp(self) -> str:
        """What must be the same for machine code to be used."""
        return _sources_digest()

    def get_disambiguator(self) -> str:
        """Tells functions of the same name apart."""
        return f"{self._function.__module__}-{self._function.__code__.co_firstlineno}"


class _OnlyOurs:
    """Put before a locator of numba: numba goes on to the next one where a folder cannot be made or is not ours."""

    _cache_path: str

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)  # type: ignore[call-arg]
        if os.path.isabs(self._cache_path):  # without a home it is below a folder "~" in the current one
            self._cache_path = os.path.realpath(self._cache_path)

    def ensure_cache_path(self) -> None:
        """Make the folder."""
        if os.path.isabs(self._cache_path):
            super().ensure_cache_path()  # type: ignore[misc]
        if not _is_only_ours(self._cache_path):
            raise PermissionError


class _Chosen(_OnlyOurs, UserProvidedCacheLocator):  # type: ignore[misc]
    """The folder of NUMBA_CACHE_DIR."""


class _InTree(_OnlyOurs, InTreeCacheLocator):  # type: ignore[misc]
    """Beside the module."""


class _UserWide(_OnlyOurs, UserWideCacheLocator):  # type: ignore[misc]
    """Among the user's caches."""


class _Located(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_NamedFolder, _Chosen, _InTree, _UserWide)


class _Cache(FunctionCache):  # type: ignore[misc]
    """numba's own, but for functions of other people, for files that cannot be read, and for called functions.

    numba compiles a function again when its own file has changed. Here it does when any file has that compiled code
    comes from.
    """

    _impl_class = _Located

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        if not _is_only_ours(self.cache_path):  # DPERM_CACHE, or what NUMBA_CACHE_LOCATOR_CLASSES names
            raise RuntimeError
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


class _NoFolder(NullCache):  # type: ignore[misc]
    """Of a kernel that every process compiles."""


class _Compiling(event.Listener):  # type: ignore[misc]
    """Shows on a terminal that kernels are compiled, and warns once where they cannot be kept.

    numba calls it with its lock held, so by one thread at a time; what a kernel calls is compiled within it.
    """

    def __init__(self) -> None:
        self._depth, self._has_warned, self._bar = 0, False, WaitingBar()

    def on_start(self, event: Any) -> None:
        """A function was not found and is about to be compiled."""
        cache = _cache_of_kernel(event)
        if cache is not None:
            self._depth += 1
            if self._depth == 1:
                self._tell(_can_keep(cache), _is_ours(event.data["args"]))

    def on_end(self, event: Any) -> None:
        """It is compiled."""
        if _cache_of_kernel(event) is not None:
            self._depth -= 1
            if self._depth == 0:
                self._bar.stop()

    def _tell(self, can_keep: bool, is_ours: bool) -> None:
        if not can_keep and not self._has_warned:
            self._has_warned = True
            warnings.warn(_NOT_KEPT, NotKeptWarning, stacklevel=2)
        self._bar.start("compiling once, about 10 s" if can_keep and is_ours else "compiling, about 10 s")


event.register("numba:compile", _Compiling())


def _cache_of_kernel(event: Any) -> Any:
    """None for a function that is no kernel of this package, a loss's derivative for instance."""
    cache = getattr(event.data["dispatcher"], "_cache", None)
    return cache if isinstance(cache, _Cache | _NoFolder) else None


def _can_keep(cache: Any) -> bool:
    return isinstance(cache, _Cache) and os.access(cache.cache_path, os.W_OK | os.X_OK)


def _is_ours(sig: Any) -> bool:
    return all(_has_fixed_code(function) for function in _functions_in(getattr(sig, "args", sig)))


def _functions_in(kinds: Any) -> Iterator[Callable[..., Any]]:
    """Functions that a kernel is handed, within tuples too."""
    for kind in kinds:
        if isinstance(kind, Dispatcher):
            yield kind.dispatcher.py_func
        elif isinstance(kind, numba.types.BaseTuple):
            yield from _functions_in(kind)


def _has_fixed_code(function: Callable[..., Any]) -> bool:
    return function.__module__.startswith("dperm.") and function.__closure__ is None


def named(dispatcher: Any) -> Any:
    """A compiled function under a name that other processes give it too."""
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
