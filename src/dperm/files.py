"""Files that are written whole or not at all, and what tells their contents apart."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from dperm.errors import InvalidParameter


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file in one step: a crash leaves what was there before."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be written: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        # A temporary file is private; what is written gets the mode that the user's files have.
        Path(temporary).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        Path(temporary).replace(path)
        _sync_folder(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


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


def canonical(value: Any, *, allow_nan: bool = False) -> str:
    """The one JSON text of plain data: keys in order, no spaces, ASCII, numbers as Python writes them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=allow_nan)


def fingerprint(content: dict[str, Any]) -> str:
    """SHA-256 of plain data, also of what no release holds: whoever checks a file must be able to compare."""
    return hashlib.sha256(canonical(content, allow_nan=True).encode()).hexdigest()
