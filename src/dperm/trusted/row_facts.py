"""What became of the rows of a fit: counts for the person who holds the rows, never part of what leaves.

A fit whose rows are nearly all ignored or clipped is private and useless, and its result cannot say so. The notice
below is shown where the fit was called, by a process that has the rows anyway. It is stored nowhere, changes nothing
about the fit, and is no error: docs/guarantee.md says why.
"""

import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import AboutYourRowsWarning

Array = NDArray[np.float64]

# A tenth of the rows lost costs as much as a tenth of ε. Fewer are the ordinary gaps of a table, and not worth a word.
_MANY = 0.1
# Rows that are clipped keep their direction, so it takes more for a word: most of them, to less than a third.
_MOST, _FAR = 0.5, 3.0
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class RowFacts:
    """Counts of what became of rows; exact, so they stay inside the trusted boundary.

    Attributes
    ----------
    n_rows : int
        All rows.
    n_bad_values : int
        Ignored, because a value is not finite.
    n_bad_targets : int
        Ignored, because the target is none of the declared classes or no number.
    n_far : int
        Clipped to less than a third of their length.
    n_outside : int
        Numeric targets that were clipped to their declared range.
    targets : (float, float)
        The smallest and the largest target that counts.
    all_alike : bool
        Whether all rows of a block are the same.
    """

    n_rows: int
    n_bad_values: int
    n_bad_targets: int
    n_far: int
    n_outside: int
    targets: tuple[float, float]
    all_alike: bool

    def __add__(self, other: "RowFacts") -> "RowFacts":
        """Of both."""
        return RowFacts(
            self.n_rows + other.n_rows,
            self.n_bad_values + other.n_bad_values,
            self.n_bad_targets + other.n_bad_targets,
            self.n_far + other.n_far,
            self.n_outside + other.n_outside,
            (min(self.targets[0], other.targets[0]), max(self.targets[1], other.targets[1])),
            self.all_alike and other.all_alike,
        )

    def remarks(self) -> list[str]:
        """What makes the fit senseless, in words and whole per cents; empty for ordinary rows."""
        said = [
            (self.n_bad_values, _MANY, "of the rows hold a value that is not finite, and are ignored"),
            (
                self.n_bad_targets,
                _MANY,
                "of the rows have a label that is none of the declared classes, or no target, and are ignored",
            ),
            (
                self.n_far,
                _MOST,
                f"of the rows are more than {_FAR:g} times as long as the row_norm that they are clipped to, so scale "
                "the columns: bounds=(lower, upper), bounds='private' or a schema",
            ),
            (self.n_outside, _MANY, "of the targets lie outside their declared range, and are clipped to it"),
        ]
        found = [
            f"{100.0 * count / self.n_rows:.0f} % {words}"
            for count, share, words in said
            if count > share * self.n_rows
        ]
        if self.all_alike:
            found.append("all rows are the same once they are encoded")
        if self.targets[0] == self.targets[1]:
            found.append("all targets that count are the same")
        return found


# Of no rows.
NO_FACTS = RowFacts(0, 0, 0, 0, 0, (np.inf, -np.inf), True)


def facts_of(
    table: Any, given: Array, target: Array, norms: Array, scale: Array, clipped_range: tuple[float, float] | None
) -> RowFacts:
    """Count, while a block is made.

    Parameters
    ----------
    table : array or CSR matrix
        The rows.
    given, target : array
        Targets before and after encoding.
    norms, scale : array
        Norms, NaN where a value is not finite, and what rows are multiplied by.
    clipped_range : (float, float) or None
        What numeric targets are clipped to.
    """
    finite, known = np.isfinite(norms), np.isfinite(given) & np.isfinite(target)
    usable = target[finite & known]
    return RowFacts(
        target.size,
        int(np.count_nonzero(~finite)),
        int(np.count_nonzero(~known)),
        int(np.count_nonzero(scale[finite & known] * _FAR < 1.0)),
        0 if clipped_range is None else count_outside(given, *clipped_range),
        (float(usable.min()), float(usable.max())) if usable.size else (np.inf, -np.inf),
        _all_alike(table),
    )


def count_outside(numbers: Array, low: float, high: float) -> int:
    """How many numbers lie outside a range."""
    return int(np.count_nonzero((numbers < low) | (numbers > high)))


def _all_alike(table: Any) -> bool:
    """Whether every row is the first one; the search ends where one is not."""
    n_rows = table.shape[0]
    if n_rows < 2:
        return False
    if sparse.issparse(table):
        stored = np.diff(table.indptr)
        if not (stored == stored[0]).all():
            return False
        parts = [part.reshape(n_rows, stored[0]) for part in (table.indices, table.data)]
    else:
        parts = [table]
    return all(
        bool((part[first : first + _ROWS_AT_ONCE] == part[0]).all())
        for part in parts
        for first in range(0, n_rows, _ROWS_AT_ONCE)
    )


def warn_about(facts: RowFacts, further: Sequence[str] = ()) -> None:
    """Show what is wrong with the rows to whoever called the fit; nothing for ordinary rows, and never an error.

    Parameters
    ----------
    facts : RowFacts
        Of all rows.
    further : sequence of str
        What else there is to say, of units for instance.
    """
    remarks = [*facts.remarks(), *further]
    if not remarks:
        return
    notice = AboutYourRowsWarning(
        f"{'; '.join(remarks)}. This is about the rows themselves and without noise: it is for you who hold them, is "
        "not part of the result, and must not be passed on. `diagnose` says more."
    )
    try:
        # Without a place in anybody's code there is no registry that would keep the text.
        warnings.warn_explicit(notice, None, "<dperm>", 1)
    except Exception:
        # A filter makes errors of warnings, or what shows them fails: an outcome must not depend on the rows.
        with suppress(Exception):
            sys.stderr.write(f"{AboutYourRowsWarning.__name__}: {notice}\n")
