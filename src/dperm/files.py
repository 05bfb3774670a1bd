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
        Path(temporary).chmod(0o644)  # a temporary file is private, a released one need not be
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def canonical(value: Any, *, allow_nan: bool = False) -> str:
    """The one JSON text of plain data: keys in order, no spaces, ASCII, numbers as Python writes them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=allow_nan)


def fingerprint(content: dict[str, Any]) -> str:
    """SHA-256 of plain data, also of what no release holds: whoever checks a file must be able to compare."""
    return hashlib.sha256(canonical(content, allow_nan=True).encode()).hexdigest()
