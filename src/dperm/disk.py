"""Files that are written whole or not at all, files that are read with a limit, and what tells their contents apart."""

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from dperm.consequences import CONSEQUENCES
from dperm.errors import InvalidParameterError
from dperm.printable import one_line

_SQLITE = b"SQLite format 3\0"


def as_path(path: object) -> Path:
    """The path of a file, or one sentence if it is none."""
    if not isinstance(path, str | Path) or not str(path):
        raise InvalidParameterError(f"a path must be a non-empty string, got {type(path).__name__}.")
    return Path(path)


def check_output(path: Path, *, force: bool, inputs: Iterable[Path] = (), kept: Iterable[Path] = ()) -> None:
    """Raise if a file must not be written: before anything is read or spent.

    Parameters
    ----------
    path : Path
        Where something is to be written.
    force : bool
        Whether a regular file that is there may be replaced.
    inputs : iterable of Path
        What the command reads.
    kept : iterable of Path
        Files that nothing may replace, and folders in which nothing may be written: a ledger and its witnesses.
    """
    try:
        found = _kind_of(path)
        if not path.parent.is_dir():
            raise _not_written(path, "its folder does not exist")
        if any(_is_same(path, other) for other in inputs):
            raise _not_written(path, "it is an input of this command")
        if any(_is_same(path, other) or _is_same(path.parent, other) for other in kept) or _is_database(path, found):
            raise _not_written(path, "it is a ledger")
        if found not in (None, "a file"):
            raise _not_written(path, f"it is {found}")
        if found is not None and not force:
            raise InvalidParameterError(f"{one_line(path)} already exists; use --force to overwrite.")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise _not_written(path, "its folder is read-only")
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidParameterError):
            raise
        raise _not_written(path, getattr(error, "strerror", None) or "it is not a valid file name") from None


def _not_written(path: Path, why: str) -> InvalidParameterError:
    return InvalidParameterError(f"{one_line(path)} cannot be written: {why}.")


def _kind_of(path: Path) -> str | None:
    """What is there, links not followed; None for nothing."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    for kind, is_kind in (("a file", stat.S_ISREG), ("a folder", stat.S_ISDIR), ("a symbolic link", stat.S_ISLNK)):
        if is_kind(mode):
            return kind
    return "no regular file"


def _is_same(path: Path, other: Path) -> bool:
    """Whether two names lead to one file, there or not."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return path.resolve() == other.resolve()


def _is_database(path: Path, found: str | None) -> bool:
    if found != "a file":
        return False
    with suppress(PermissionError), path.open("rb") as stream:
        return stream.read(len(_SQLITE)) == _SQLITE
    return False


class WholeFile:
    """A file that appears when it is complete. Room for it is made at once, so that a full disk is detected early.

    Parameters
    ----------
    path : Path
        Where it will appear.
    replace : bool
        Whether it may take the place of a file that is there.
    room : int
        Bytes to set aside.
    told : bool
        Whether whatever ends the command says that the file is there: not of dperm's own notes.
    """

    def __init__(self, path: Path, *, replace: bool, room: int = 0, told: bool = True) -> None:
        self._path, self._replace, self._told = path, replace, told
        # Known before it is there, so that an interrupt at any moment leaves a file that `discard` finds.
        self._temporary = path.parent / f".dperm-{secrets.token_hex(8)}.part"
        try:
            found = _kind_of(path)
            if found not in (None, "a file"):
                raise _not_written(path, f"it is {found}")
            self._stream = open(self._temporary, "xb", opener=_private)  # noqa: SIM115 - `discard` closes it
            if room:
                self._stream.write(bytes(room))
                self._sync()
        except (OSError, ValueError) as error:
            self.discard()
            if isinstance(error, InvalidParameterError):
                raise
            raise _not_written(path, getattr(error, "strerror", None) or "it is not a valid file name") from None

    def __enter__(self) -> Self:
        return self

    def write(self, content: str | bytes) -> None:
        """Write everything and let the file appear: on disk when this returns."""
        self.begin().write(content.encode() if isinstance(content, str) else content)
        self.finish()

    def begin(self) -> BinaryIO:
        """Where to write what comes bit by bit; `finish` lets the file appear."""
        self._stream.seek(0)
        self._stream.truncate()
        return self._stream

    def finish(self) -> None:
        """Let the file appear: on disk when this returns."""
        self._sync()
        self._stream.close()
        # A temporary file is private; what is written gets the mode that the user's files have.
        path, temporary = self._path, self._temporary
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        if self._told:
            CONSEQUENCES.will_appear(path, temporary)
        if self._replace or not _linked(temporary, path):
            temporary.replace(path)
        _sync_folder(path.parent)

    def discard(self) -> None:
        """Remove what is not complete."""
        with suppress(OSError, AttributeError):
            self._stream.close()
        with suppress(OSError, AttributeError):
            self._temporary.unlink(missing_ok=True)

    # An interrupt may strike between any two lines of `__init__`, or between it and `with`.
    __del__ = discard

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def _sync(self) -> None:
        self._stream.flush()
        os.fsync(self._stream.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _linked(temporary: Path, path: Path) -> bool:
    """Give the file its name unless another has taken it meanwhile; False where a file cannot have two names."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        return False
    return True


def write_whole(path: Path, content: str | bytes, *, told: bool = True) -> None:
    """Write a file in one step: a crash leaves what was there before. `told` as of `WholeFile`."""
    with WholeFile(path, replace=True, told=told) as file:
        file.write(content)


def make_folder(path: Path) -> None:
    """Make a folder if it is not there, or raise one sentence."""
    try:
        if path.exists() and not path.is_dir():
            raise InvalidParameterError(f"{one_line(path)} is a file, not a folder.")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameterError(f"{one_line(path)} cannot be created: {error.strerror}.") from None


def _umask() -> int:
    """What the user takes off the mode of new files; it can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power failure, where the system has a way to."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_text(path: str | Path, most_bytes: int) -> str:
    """The text of a regular file, or one sentence: no device is read, and nothing that is too large.

    Parameters
    ----------
    path : str or Path
        Where it is.
    most_bytes : int
        The largest size.

    Raises
    ------
    InvalidParameterError
        If it cannot be read; UnicodeDecodeError if it is no UTF-8 text.
    """
    path = as_path(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InvalidParameterError(f"{one_line(path)} cannot be read: it is not a regular file.")
        with path.open("rb") as stream:
            content = stream.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidParameterError):
            raise
        why = getattr(error, "strerror", None) or "it is not a valid file name"
        raise InvalidParameterError(f"{one_line(path)} cannot be read: {why}.") from None
    if len(content) > most_bytes:
        raise InvalidParameterError(f"{one_line(path)} cannot be read: it is larger than {most_bytes} bytes.")
    return content.decode("utf-8")


def read_json(text: str) -> Any:
    """Plain data from JSON as the standard has it; ValueError for anything else, however deep or large.

    Refused besides: NaN and Infinity, a key that is there twice, and half of a surrogate pair.
    """
    try:
        text.encode()
        content = json.loads(text, parse_constant=_refuse_token, object_pairs_hook=_once_each)
        canonical(content).encode("ascii")
        json.dumps(content, ensure_ascii=False).encode()  # half of a pair can be written as an escape too
    except (ValueError, RecursionError):
        raise ValueError("it is not valid JSON") from None
    return content


def _refuse_token(token: str) -> None:
    raise ValueError(token)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key is duplicated")
    return dict(pairs)


def canonical(value: Any, *, allow_nan: bool = False) -> str:
    """The one JSON text of plain data: keys in order, no spaces, ASCII, numbers as Python writes them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=allow_nan)


def fingerprint(content: dict[str, Any]) -> str:
    """SHA-256 of plain data, also of what no release holds: anyone who checks a file must be able to compare."""
    return hashlib.sha256(canonical(content, allow_nan=True).encode()).hexdigest()
