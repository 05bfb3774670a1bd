"""How many rows were dropped or clipped in a fit: counts for the data holder, never part of what leaves.

A fit whose rows are nearly all ignored or clipped is private and useless, and its result cannot say so. The notice
below is shown where the fit was called, by a process that has the rows anyway. It is stored nowhere, changes nothing
about the fit, and is no error: docs/guarantee.md says why.
"""

import math
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import DroppedRowsWarning
from dperm.kernel.adding import add_up
from dperm.kernel.source import Source
from dperm.kernel.units import Membership

Array = NDArray[np.float64]

# A tenth of the rows lost costs as much as a tenth of ε. Fewer are the ordinary gaps of a table, and not worth a word.
MANY = 0.1
# Rows that are clipped keep their direction, so it takes more for a word: most of them, to less than a third.
_MOST, _FAR = 0.5, 3.0
# What is the same but for one in a hundred, or but for ten, is the same: no few persons decide what is said.
_ODD, _ODD_ROWS = 0.01, 10
# In a smaller table few rows are a large share, so nothing is said of it.
FEWEST = 200
_SAMPLED, _ROWS_AT_ONCE = 255, 4096
# Of a row's length: nearer rows are the same but for rounding.
_SAME = 1e-9


@dataclass(frozen=True)
class Usual:
    """The value that most rows have, and how many rows have it.

    Attributes
    ----------
    value : float
        The value.
    n : float
        Rows that have it.
    """

    value: float = 0.0
    n: float = 0.0

    def __add__(self, other: "Usual") -> "Usual":
        """Of both: of two values the more frequent is kept, so odd rows hide no more rows than they are."""
        larger = self if self.n >= other.n else other
        same = math.isclose(self.value, other.value, rel_tol=_SAME, abs_tol=1e-12)
        return Usual(larger.value, self.n + other.n) if same else larger


@dataclass(frozen=True)
class RowFacts:
    """Counts of what became of rows; exact, so they stay inside the trusted kernel.

    A row counts 1, or what it weighs among those of its unit: so nobody counts more than 1.

    Attributes
    ----------
    n_rows : float
        All rows.
    n_bad_values : float
        Ignored, because a value is not finite.
    n_bad_targets : float
        Ignored, because the target is none of the declared classes or no number.
    n_far : float
        Clipped to less than a third of their length.
    n_outside : float
        Numeric targets that were clipped to their range.
    n_usable : float
        Rows that are not ignored.
    target : Usual
        The most frequent target of those.
    row : Usual
        The most frequent row, by a public hash of it.
    """

    n_rows: float = 0.0
    n_bad_values: float = 0.0
    n_bad_targets: float = 0.0
    n_far: float = 0.0
    n_outside: float = 0.0
    n_usable: float = 0.0
    target: Usual = Usual()
    row: Usual = Usual()

    def __add__(self, other: "RowFacts") -> "RowFacts":
        """Of both."""
        return RowFacts(
            self.n_rows + other.n_rows,
            self.n_bad_values + other.n_bad_values,
            self.n_bad_targets + other.n_bad_targets,
            self.n_far + other.n_far,
            self.n_outside + other.n_outside,
            self.n_usable + other.n_usable,
            self.target + other.target,
            self.row + other.row,
        )

    def remarks(self) -> list[str]:
        """What makes the fit senseless, in words and about tens of per cent; empty for ordinary rows and few rows."""
        said = [
            (self.n_bad_values, MANY, "of the rows contain NaN/inf and are dropped"),
            (
                self.n_bad_targets,
                MANY,
                "of the rows have an undeclared label or no target and are dropped",
            ),
            (
                self.n_far,
                _MOST,
                f"of the rows are more than {_FAR:g} times as long as the row_norm they are clipped to: scale the "
                "columns with bounds=(lower, upper), bounds='private' or a schema",
            ),
            (
                self.n_outside,
                MANY,
                "of the targets are outside their range and are clipped to it: the range declared by target_bound or "
                "a schema, or [-1, 1] by default ([0, 1] for counts)",
            ),
        ]
        if self.n_rows < FEWEST:
            return []
        found = [
            f"about {tens_of_per_cent(count / self.n_rows)} % {words}"
            for count, share, words in said
            if count > share * self.n_rows
        ]
        if nearly_all(self.row.n, self.n_rows):
            found.append("nearly all encoded rows are the same")
        if nearly_all(self.target.n, self.n_usable):
            found.append("nearly all valid targets are the same")
        return found


# Of no rows.
NO_FACTS = RowFacts()


def nearly_all(count: float, n: float) -> bool:
    """Whether all are, but for one in a hundred or for ten; never where there are few."""
    return n >= FEWEST and n - count <= max(_ODD * n, _ODD_ROWS)


def tens_of_per_cent(share: float) -> int:
    """A share as it is said: so coarse that few rows do not change it, but at the middle between two tens."""
    return 10 * round(10.0 * share)


def facts_of(
    table: Any, given: Array, target: Array, norms: Array, scale: Array, clipped_range: tuple[float, float] | None,
    weights: Array | None = None, clipped: NDArray[np.bool_] | None = None,
) -> RowFacts:  # fmt: skip
    """Count, while a block is made: see `Block.from_table`.

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
    weights : array, optional
        What every row weighs among those of its unit.
    clipped : array, optional
        Which targets were clipped before they were encoded.
    """
    if clipped is None and clipped_range is not None:
        clipped = outside(given, *clipped_range)
    weights = np.ones(target.size) if weights is None else weights
    finite, known = np.isfinite(norms), np.isfinite(given) & np.isfinite(target)
    usable = finite & known
    return RowFacts(
        float(weights.sum()),
        float(weights[~finite].sum()),
        float(weights[~known].sum()),
        float(weights[usable & (scale * _FAR < 1.0)].sum()),
        0.0 if clipped is None else float(weights[clipped].sum()),
        float(weights[usable].sum()),
        _usual_target(target, np.where(usable, weights, 0.0)),
        _usual_row(table, norms, weights),
    )


def outside(numbers: Array, low: float, high: float) -> NDArray[np.bool_]:
    """Which numbers lie outside a range."""
    return np.asarray((numbers < low) | (numbers > high))


def _sample(weights: Array) -> NDArray[np.intp]:
    """Indices of a few rows, evenly by what rows weigh: nobody's rows are more than a few of them."""
    heaped = np.cumsum(weights)
    if not weights.size or heaped[-1] <= 0.0:
        return np.empty(0, np.intp)
    return np.asarray(np.searchsorted(heaped, heaped[-1] * (np.arange(_SAMPLED) + 0.5) / _SAMPLED))


def _usual_target(target: Array, weights: Array) -> Usual:
    chosen = target[_sample(weights)]
    if not chosen.size:
        return Usual()
    value = float(np.sort(chosen)[chosen.size // 2])
    return Usual(value, float(weights[target == value].sum()))


def _usual_row(table: Any, norms: Array, weights: Array) -> Usual:
    """Rows are compared by their product with one public vector: those whose products agree are the same row."""
    vector = np.random.default_rng(0).uniform(1.0, 2.0, table.shape[1])
    room = _SAME * np.linalg.norm(vector) * norms  # NaN, hence no row at all, where a value is not finite

    def products(rows: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(table[rows] @ vector, dtype=np.float64)

    places = _sample(np.where(np.isfinite(norms), weights, 0.0))
    if not places.size:
        return Usual()
    chosen = products(places)
    value = float(np.sort(chosen)[chosen.size // 2])
    if 2 * np.count_nonzero(np.abs(chosen - value) <= room[places]) < places.size:
        return Usual()  # rows differ: no need to look at all
    same = np.concatenate([
        np.abs(products(slice(first, first + _ROWS_AT_ONCE)) - value) <= room[first : first + _ROWS_AT_ONCE]
        for first in range(0, table.shape[0], _ROWS_AT_ONCE)
    ])  # fmt: skip
    return Usual(value, float(weights[same].sum()))


class ReadSource(Source):
    """Rows that were read here: what is wrong with them can be told."""

    def _warn(self, facts: Sequence[RowFacts]) -> None:
        """Of all rows, and of their units."""
        warn_about(add_up(facts or [NO_FACTS]), unit_remarks(self._members()))


def warn_about(facts: RowFacts, further: Sequence[str] = ()) -> None:
    """Show what is wrong with the rows to the caller of the fit; nothing for ordinary rows, and never an error.

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
    notice = DroppedRowsWarning(
        f"{'; '.join(remarks)}. This is computed from the rows without noise: it is for the data holder, not part of "
        "the result, and must not be passed on. `diagnose` tells more."
    )
    try:
        # Without a location in anybody's code there is no registry that would keep the text.
        warnings.warn_explicit(notice, None, "<dperm>", 1)
    except Exception:
        # A filter makes errors of warnings, or what shows them fails: an outcome must not depend on the rows.
        with suppress(Exception):
            sys.stderr.write(f"{DroppedRowsWarning.__name__}: {notice}\n")


def unit_remarks(membership: Membership | None) -> list[str]:
    """What the data holder should know: that a unit is no more than a row, or that many rows are not used.

    Every unit counts as one, however many rows it has.
    """
    if membership is None or membership.n < FEWEST:
        return []
    unit, counts, limit = membership.unit, membership.counts, membership.unit.max_rows
    if nearly_all(int(np.count_nonzero(counts <= 1)), membership.n):
        return [f"hardly any {unit.word} has more than one row, so the unit protects little more than single rows"]
    if limit is None:
        return []
    unused = float(np.mean(1.0 - limit / np.maximum(counts, limit)))
    if unused <= MANY:
        return []
    return [
        f"of the rows of one {unit.word} about {tens_of_per_cent(unused)} %, in the mean over all units, "
        f"are beyond {limit}, and are not used"
    ]
