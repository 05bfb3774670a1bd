"""What a command has charged and written so far: whatever ends it, at whatever moment, says so.

An interrupt may strike between any two instructions. So a charge is noted before the ledger commits it, as one that may
be there, and of a file the disk is asked.
"""

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from dperm.printable import one_line

# More names than this are counted.
_MOST_NAMES = 3


@dataclass
class Charge:
    """Something that a ledger may have been told.

    Attributes
    ----------
    text : str
        What is known of it, for a sentence.
    reservation : tuple or None
        Its dataset and number, if it is one.
    is_open : bool
        Whether it is a reservation that is not settled yet.
    """

    text: str
    reservation: tuple[str, int] | None = None
    is_open: bool = False

    def __post_init__(self) -> None:
        """What is reserved is to be settled."""
        self.is_open = self.reservation is not None


@dataclass
class Consequences:
    """What this process has done that stays."""

    charges: list[Charge] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _files: list[tuple[Path, tuple[int, int]]] = field(default_factory=list)

    def forget(self) -> None:
        """Begin again: another command of the same process."""
        self.charges.clear()
        self.notes.clear()
        self._files.clear()

    def charge(self, charge: Charge) -> Charge:
        """Note a charge before it is committed; its text may change afterwards."""
        self.charges.append(charge)
        return charge

    def settled(self, dataset: str, number: int) -> None:
        """Note that the ledger knows what was released."""
        for charge in self.charges:
            charge.is_open = charge.is_open and charge.reservation != (dataset, number)

    def will_appear(self, path: Path, temporary: Path) -> None:
        """Note a file before it gets its name; it counts once the name leads to it."""
        self._files.append((path, _identity(temporary)))

    def in_words(self) -> list[str]:
        """What was charged and written, in sentences without an end; nothing if nothing was."""
        there = [path for path, identity in self._files if _is_there(path, identity)]
        sentences = [charge.text for charge in self.charges] + _written(there) + self.notes
        if any(charge.reservation for charge in self.charges) and not there and not self.notes:
            sentences.append("no file was written")
        if there and any(charge.is_open for charge in self.charges):
            sentences.append(f"settle it with: dperm budget settle {shlex.quote(one_line(there[-1]))}")
        return sentences


def _written(there: list[Path]) -> list[str]:
    if not there:
        return []
    names = ", ".join(map(one_line, there[:_MOST_NAMES]))
    more = len(there) - _MOST_NAMES
    return [f"{names} {f'and {more} more ' if more > 0 else ''}{'was' if len(there) == 1 else 'were'} written"]


def _identity(path: Path) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _is_there(path: Path, identity: tuple[int, int]) -> bool:
    try:
        return _identity(path) == identity
    except OSError:
        return False


CONSEQUENCES = Consequences()
