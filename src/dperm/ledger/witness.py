"""What this machine has seen of every ledger, so that an older copy of a database is detected.

There is one file per budget. Its name is the whole note:
`ledger-<id of the budget>-<number of an entry>-<digest of that entry>`.
A file is never written over, so two processes cannot set each other back.
"""

import functools
import os
import re
import warnings

from dperm.disk import write_whole
from dperm.errors import DpermError, NoWitnessWarning
from dperm.ledger.places import witness_folder

_NAME = re.compile(r"ledger-([0-9a-f]{32})-([0-9]{1,18})-([0-9a-f]{64})")

Seen = tuple[int, str]


def seen() -> dict[str, Seen]:
    """The number and digest of the newest entry that was seen of every budget, by its id."""
    newest: dict[str, Seen] = {}
    try:
        names = os.listdir(witness_folder())
    except (OSError, DpermError):  # nothing was seen yet; `remember` warns where nothing can be kept
        names = []
    for match in filter(None, map(_NAME.fullmatch, names)):
        identity, entry = match[1], (int(match[2]), match[3])
        newest[identity] = max(entry, newest.get(identity, entry))
    return newest


def remember(identity: str, number: int, digest: str, dataset: str) -> None:
    """Note that the budget of this id had this entry, or warn once if no note can be written."""
    try:
        folder = witness_folder()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"ledger-{identity}-{number}-{digest}"
        if path.exists():
            return
        write_whole(path, f"{dataset}\n", told=False)
        for other in folder.glob(f"ledger-{identity}-*"):
            match = _NAME.fullmatch(other.name)
            if match and int(match[2]) < number:
                other.unlink(missing_ok=True)
    except (OSError, DpermError):
        _warn_once()


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "the state of the ledger cannot be recorded in XDG_STATE_HOME (or ~/.local/state), so a restored older copy "
        "would not be detected here; set XDG_STATE_HOME to a persistent folder.",
        NoWitnessWarning,
        stacklevel=2,
    )
