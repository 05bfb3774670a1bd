"""Folders of the user, the files of a ledger, and how its address is shown."""

import os
import re
from pathlib import Path

from dperm.errors import InvalidParameterError


def user_folder(variable: str, default: str) -> Path:
    """`dperm` in the user's folder of this kind: that of the environment, or below the home folder."""
    folder = Path(os.environ.get(variable, ""))
    if folder.is_absolute():  # the standard says that a relative path is to be ignored
        return folder / "dperm"
    try:
        return Path("~", default).expanduser() / "dperm"
    except RuntimeError:
        raise InvalidParameterError(f"no home folder: set {variable} to a writable folder.") from None


def files_of(place: str) -> tuple[Path, ...]:
    """The files that a ledger may consist of: none for a server.

    Examples
    --------
    >>> [str(path) for path in files_of("sqlite:///team.db")]
    ['team.db', 'team.db-journal', 'team.db-wal', 'team.db-shm']
    """
    scheme, found, rest = place.partition("://")
    if found and not scheme.startswith("sqlite"):
        return ()
    name = rest.partition("?")[0].removeprefix("/") if found else place
    return tuple(Path(name + ending) for ending in ("", "-journal", "-wal", "-shm"))


def witness_folder() -> Path:
    """Where this machine keeps notes of every ledger it has seen."""
    return user_folder("XDG_STATE_HOME", ".local/state")


def without_password(place: str) -> str:
    """A URL that may be shown; of what is not a proper URL rather too much is hidden.

    Examples
    --------
    >>> without_password("postgresql+psycopg://ann:secret@db.example/ledger")
    'postgresql+psycopg://ann:***@db.example/ledger'
    """
    shown = re.sub(r":(?!//).*@", ":***@", place, flags=re.DOTALL)
    return re.sub(r"(password=)[^&]*", r"\1***", shown)
