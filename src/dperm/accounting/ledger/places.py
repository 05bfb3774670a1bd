"""Folders of the user, and how the place of a ledger is shown."""

import os
import re
from pathlib import Path

from dperm.errors import InvalidParameter


def user_folder(variable: str, default: str) -> Path:
    """`dperm` in the user's folder of this kind: that of the environment, or below the home folder."""
    folder = Path(os.environ.get(variable, ""))
    if folder.is_absolute():  # the standard says that a relative path is to be ignored
        return folder / "dperm"
    try:
        return Path("~", default).expanduser() / "dperm"
    except RuntimeError:
        raise InvalidParameter(f"this user has no home folder; set {variable} to a folder that may be used.") from None


def without_password(place: str) -> str:
    """A URL that may be shown; of what is no proper URL rather too much is hidden.

    Examples
    --------
    >>> without_password("postgresql+psycopg://ann:secret@db.example/ledger")
    'postgresql+psycopg://ann:***@db.example/ledger'
    """
    shown = re.sub(r":(?!//).*@", ":***@", place, flags=re.DOTALL)
    return re.sub(r"(password=)[^&]*", r"\1***", shown)
