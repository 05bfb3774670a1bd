"""A private histogram of rows per privacy unit, for choosing max_rows."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from dperm.accounting.events import Event
from dperm.disk import fingerprint
from dperm.errors import InvalidParameterError
from dperm.files.content import HEAD
from dperm.files.plan_data import part_from, plan_to_dict
from dperm.kernel.rows_per_unit import FEWEST_ROWS, cells_of_units
from dperm.kernel.units import Membership
from dperm.ledger import Budget
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.setting import PublicTable
from dperm.plan.sums import SumsPlan, plan_sums
from dperm.plan.transaction import Transaction, check_budget, check_releasable, undeclared_n
from dperm.printable import one_line
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.statement import PrivacyStatement
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.ids import codes_of_array
from dperm.validation import count

KIND = "rows-per-unit"
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
    privacy_ : PrivacyStatement
        What is promised; it names the unit.
    event_ : Event
        What is accounted for.
    ledger_entry_ : dict or None
        What the ledger holds for it.
    plan_ : dict
        The plan as plain data: what its file holds.
    """

    counts: tuple[float, ...]
    deviation: float
    privacy_: PrivacyStatement
    event_: Event
    ledger_entry_: dict[str, Any] | None = None
    plan_: dict[str, Any] = field(default_factory=dict)

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
            f"no count exceeds the noise threshold {_short(self.threshold)}, so they say nothing about rows per "
            "unit; a larger ε would, or more units."
        )

    def rows_used(self, max_rows: int | None = None) -> float:
        """About how many rows of a unit are used in the mean, if at most this many are; all of them by default."""
        most = math.inf if max_rows is None else count("max_rows", max_rows)
        return math.fsum(share * min(rows, most) for share, rows in zip(self.shares, _MIDDLE, strict=True))

    @property
    def rows_of_equal_weight(self) -> float:
        """Rows per unit that would vary as much as the means of all rows of units do: the harmonic mean."""
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
        """The contents of its file; "fingerprint" is the SHA-256 of everything else."""
        content = HEAD | {
            "kind": KIND, "fewest_rows": list(FEWEST_ROWS), "counts": list(self.counts),
            "privacy": self.privacy_.to_dict(), "plan": self.plan_, "ledger": self.ledger_entry_,
        }  # fmt: skip
        return content | {"fingerprint": fingerprint(content)}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "RowsPerUnit":
        """Read what `to_dict` gave; raises if it does not fit together."""
        if set(content) != {*HEAD, "kind", "fewest_rows", "counts", "privacy", "plan", "ledger", "fingerprint"}:
            raise ValueError("keys")
        statement = PrivacyStatement.from_dict(content["privacy"])
        part = part_from(content["plan"], Adjacency.parse(statement.adjacency), None)  # every unit is one line
        counts = tuple(content["counts"])
        if content["fewest_rows"] != list(FEWEST_ROWS) or not all(type(number) is float for number in counts):
            raise ValueError("counts")
        if [getattr(item.query, "sizes", ()) for item in part.planned] != [(len(counts),)] or statement.unit is None:
            raise ValueError("plan")
        (deviation,) = part.calibrated.deviations
        found = cls(counts, deviation, statement, part.event, content["ledger"], content["plan"])
        str(found)  # its numbers are numbers
        return found


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
    """Private histogram of rows per privacy unit, with (ε, δ)-differential privacy for one unit.

    It is a release like any other: its ε adds to that of the fits. A small ε is enough: 0.05 for thousands of units.

    Parameters
    ----------
    ids : array of shape (rows,), or data frame
        The id of every row's unit, or a table with a column of this name.
    unit : str
        Name of the privacy unit, e.g. "patient_id", as in fits and budgets.
    epsilon, delta : float
        The guarantee. δ = 0 gives the least noise for this alone; δ > 0 composes better with other releases.
    adjacency : {"replace_one", "add_remove"}
        Neighbouring relation: one record replaced, or one added/removed.
    n : int, optional
        The public number of units; required under add_remove, and with missing_units="ignore".
    missing_units : {"separate", "ignore"}
        Rows without an id: count each as its own unit, or drop them.
    budget : Budget, optional
        The dataset's budget in a ledger, charged before anything is counted.
    random_state : int, optional
        Seed. Makes the result reproducible, and not for release.

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
            "the number of units is private under add_remove, and with missing_units='ignore': declare n."
        )
    if n is not None:
        check_budget(_plan(count("n", n), side, guarantee, whose), budget)  # before anything is read
    membership = Membership.of(whose, _codes(ids, unit))
    plan = _plan(membership.n if n is None else n, side, guarantee, whose)
    with Transaction(plan, budget, random_state, found=membership.n, unit=whose) as transaction:
        released = plan.answer(transaction, [lambda: [cells_of_units(membership)]])
        found = RowsPerUnit(
            tuple(released.answers[0].tolist()), released.deviations[0], released.statement, released.event,
            transaction.ledger_entry, plan_to_dict(plan),
        )  # fmt: skip
        transaction.write(found, lambda: str(found.to_dict()["fingerprint"]))
    return found


def _plan(n: int, adjacency: Adjacency, guarantee: Guarantee, unit: PrivacyUnit) -> SumsPlan:
    """Every unit is one line of the table that is counted, so that replacing one moves two counts by 1."""
    noise = "Laplace" if guarantee.delta == 0.0 else "Gaussian"
    counts = CellCounts(PublicTable(n, adjacency), "units by their number of rows", (len(FEWEST_ROWS),), noise)
    return plan_sums([counts], guarantee, unit=unit)


def _codes(ids: Any, unit: str) -> Any:
    """Which rows have the same id, of an array or of the column of that name."""
    if len(getattr(ids, "shape", ())) == 2 or hasattr(ids, "column_names"):
        if unit not in list(getattr(ids, "column_names", getattr(ids, "columns", ()))):
            raise InvalidParameterError(f"there is no column {unit!r}: pass the ids, or a frame with this column.")
        ids = ids[unit]
    return codes_of_array(ids, len(ids))


def _short(number: float) -> str:
    return f"{number:.2g}" if number < 10.0 else f"{number:.0f}"


def _names() -> list[str]:
    ends = [f"{low}" if high == low + 1 else f"{low}–{high - 1}" for low, high in pairwise(FEWEST_ROWS)]
    return [*ends, f"{FEWEST_ROWS[-1]} or more"]
