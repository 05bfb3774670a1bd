"""How many rows the units of a table have: a private histogram, to choose max_rows by."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from dperm.accounting.events import Event
from dperm.disk import fingerprint
from dperm.errors import InvalidParameterError
from dperm.kernel.noise import Randomness
from dperm.kernel.rows_per_unit import FEWEST_ROWS, cells_of_units
from dperm.kernel.tally import Tally
from dperm.kernel.units import Membership
from dperm.ledger import Budget
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.setting import PublicTable
from dperm.plan.fit_plan import check_releasable, undeclared_n, warn_of_large_delta
from dperm.plan.sums import SumsRelease, plan_sums
from dperm.printable import one_line
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.joint_statement import JointStatement
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.base import check_count
from dperm.rows.ids import codes_of_array
from dperm.validation import count

# Stands for the units of a cell: its middle, and the least of the last one, which has no end.
_MIDDLE = (*((low + high - 1) / 2.0 for low, high in pairwise(FEWEST_ROWS)), FEWEST_ROWS[-1])
# Counts of empty cells are below so many deviations of their noise, but for less than 1 % of them. A few units too many
# in the last cells would have most of the rows.
_HARDLY_NOISE = 3.0
_CHOICES = (1, 2, 5, 10, 20, 50)


@dataclass(frozen=True, eq=False)
class RowsPerUnit:
    """How many units have how many rows, with noise.

    Attributes
    ----------
    counts : tuple of float
        Of units with 1, 2, 3–4, 5–9, 10–19, 20–49, 50–99 and 100 or more rows; noise may make them negative.
    deviation : float
        The standard deviation of the noise on each; up to three of them a count is taken for noise.
    privacy_ : JointStatement
        What is promised; it names the unit.
    event_ : Event
        What is accounted for.
    ledger_entry_ : dict or None
        What the ledger holds for it.
    """

    counts: tuple[float, ...]
    deviation: float
    privacy_: JointStatement
    event_: Event
    ledger_entry_: dict[str, Any] | None = None

    @property
    def threshold(self) -> float:
        """Counts up to this may well be noise alone, and are taken for 0."""
        return _HARDLY_NOISE * self.deviation

    @property
    def shares(self) -> tuple[float, ...]:
        """Of all units, about the share in every cell; raises if no count is above the threshold."""
        found = [number if number > self.threshold else 0.0 for number in self.counts]
        total = math.fsum(found)
        if total == 0.0:
            raise InvalidParameterError(self._nothing)
        return tuple(number / total for number in found)

    @property
    def _nothing(self) -> str:
        return (
            f"nothing stands out of the noise: no count is above {_short(self.threshold)}, so they say nothing about "
            "rows per unit; a larger ε would, or more units."
        )

    def rows_used(self, max_rows: int | None = None) -> float:
        """About how many rows of a unit are used in the mean, if at most so many are; all of them by default."""
        most = math.inf if max_rows is None else count("max_rows", max_rows)
        return math.fsum(share * min(rows, most) for share, rows in zip(self.shares, _MIDDLE, strict=True))

    @property
    def rows_of_equal_weight(self) -> float:
        """So many rows of each unit would vary as much as the means of all rows of units do: the harmonic mean."""
        return 1.0 / math.fsum(share / rows for share, rows in zip(self.shares, _MIDDLE, strict=True))

    def __str__(self) -> str:
        """The histogram, what a choice of max_rows would keep, and the statement."""
        unit = self.privacy_.unit
        assert unit is not None
        if max(self.counts) <= self.threshold:
            return f"{self._nothing}\n{self.privacy_}"
        lines = [
            f"units by their number of rows (each ± {_short(self.deviation)} for the noise; counts below "
            f"{_short(self.threshold)} are taken for noise):"
        ]
        for cell, number, share in zip(_names(), self.counts, self.shares, strict=True):
            lines.append(f"  {cell:>11}  {round(number):>10}  {100.0 * share:>4.0f} %")
        mean = _short(self.rows_used())
        lines.append(f"about {mean} row{'' if mean == '1' else 's'} per {unit.word}; with max_rows:")
        for most in _CHOICES:
            used = self.rows_used(most)
            kept = 100.0 * used / self.rows_used()
            lines.append(
                f"  {most:>11}  {kept:>4.0f} % of rows used, one {unit.word} weighs {used / most:.2g} in the mean"
            )
        return "\n".join([*map(one_line, lines), str(self.privacy_)])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "cells": _names(), "counts": list(self.counts), "deviation": self.deviation,
            "privacy": self.privacy_.to_dict(), "ledger": self.ledger_entry_,
        }  # fmt: skip


def rows_per_unit(
    ids: Any,
    unit: str,
    *,
    epsilon: float,
    delta: float = 0.0,
    adjacency: str = "replace_one",
    n: int | None = None,
    missing_units: str = "separate",
    budget: Budget | None = None,
    random_state: Any = None,
) -> RowsPerUnit:
    """Release how many units have how many rows, with (ε, δ)-differential privacy for one unit.

    It is a release like any other: its ε adds to that of the fits. A small one will do, 0.05 for thousands of units.

    Parameters
    ----------
    ids : array of shape (rows,), or data frame
        The id of every row's unit, or a table with a column of this name.
    unit : str
        What the ids stand for, "patient_id" for instance: the name that fits and budgets have for it.
    epsilon, delta : float
        The guarantee. δ = 0 has the least noise for this alone; above 0 costs less beside other releases.
    adjacency : {"replace_one", "add_remove"}
        Which two tables cannot be told apart.
    n : int, optional
        The public number of units; to be declared under add_remove, and where rows without an id are ignored.
    missing_units : {"separate", "ignore"}
        Whether a row without an id is a unit of its own, or ignored.
    budget : Budget, optional
        Charge it there, before anything is counted.
    random_state : int, optional
        Makes it repeatable, and the result not for release.

    Returns
    -------
    RowsPerUnit
        Prints as a table.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import rows_per_unit
    >>> ids = np.repeat(np.arange(3000), 4)
    >>> found = rows_per_unit(ids, "patient_id", epsilon=0.5, random_state=1)
    >>> round(found.rows_used(), 1)
    3.5
    """
    whose = PrivacyUnit(unit, contribution="average", missing=missing_units)
    side, guarantee = Adjacency.parse(adjacency), Guarantee(epsilon, delta)
    check_releasable(budget, random_state)
    if n is None and undeclared_n(side, whose):
        raise InvalidParameterError(
            "how many units there are is private under add_remove, and where rows without an id are ignored: declare n."
        )
    if n is not None and budget is not None:
        budget.check(_plan(count("n", n), side, guarantee, whose).event, side, whose, delta)  # before anything is read
    membership = Membership.of(whose, _codes(ids, unit))
    n = membership.n if n is None else n
    check_count(membership.n, n, side, whose)
    plan = _plan(n, side, guarantee, whose)
    warn_of_large_delta(delta, n, stacklevel=3, unit=whose)
    reservation = None if budget is None else budget.reserve(plan.event, side, whose, delta)
    with nullcontext() if reservation is None else reservation.noted():
        randomness = Randomness.from_random_state(random_state)
        (item,) = plan.calibrated.plan.planned
        counts = Tally(plan.calibrated, randomness).release(item, [cells_of_units(membership)])
        statement = replace(plan.statement(seeded=randomness.seeded), unit=whose)
        entry = None if reservation is None else reservation.to_dict()
        found = RowsPerUnit(tuple(counts.tolist()), plan.deviations[0], statement, plan.event, entry)
        if reservation is not None:
            reservation.settle(fingerprint(found.to_dict()))
    return found


def _plan(n: int, adjacency: Adjacency, guarantee: Guarantee, unit: PrivacyUnit) -> SumsRelease:
    """Every unit is one line of the table that is counted, so that replacing one moves two counts by 1."""
    noise = "Laplace" if guarantee.delta == 0.0 else "Gaussian"
    counts = CellCounts(PublicTable(n, adjacency), "units by their number of rows", (len(FEWEST_ROWS),), noise)
    return plan_sums([counts], guarantee)


def _codes(ids: Any, unit: str) -> Any:
    """Which rows have the same id, of an array or of the column of that name."""
    if len(getattr(ids, "shape", ())) == 2 or hasattr(ids, "column_names"):
        if unit not in list(getattr(ids, "column_names", getattr(ids, "columns", ()))):
            raise InvalidParameterError(f"there is no column {unit!r}: give the ids of rows, or a frame that has it.")
        ids = ids[unit]
    return codes_of_array(ids, len(ids))


def _short(number: float) -> str:
    return f"{number:.2g}" if number < 10.0 else f"{number:.0f}"


def _names() -> list[str]:
    ends = [f"{low}" if high == low + 1 else f"{low}–{high - 1}" for low, high in pairwise(FEWEST_ROWS)]
    return [*ends, f"{FEWEST_ROWS[-1]} or more"]
