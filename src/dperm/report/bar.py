"""A budget as one bar: what every release added to what is spent, as positions in percent of the bar's width."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dperm.ledger.accounts import Account, Spending, rounded_up
from dperm.privacy.markup import change_in_words
from dperm.privacy.unit import PrivacyUnit

# Segments that would be narrower, in percent, are drawn together with their neighbours of the same kind.
NARROWEST = 1.0

# Composing releases that are fixed in advance takes seconds where they are many and of different kinds. With more of
# them than the first number, this many totals as the second are computed.
_MANY_FIXED, _TOTALS_OF_MANY = 50, 25


@dataclass(frozen=True)
class Segment:
    """One release, or several that follow each other.

    Attributes
    ----------
    kind : str
        "this", "released" or "reserved".
    left, width : float
        Percent of the bar.
    text : str
        What it stands for.
    """

    kind: str
    left: float
    width: float
    text: str


@dataclass(frozen=True)
class Line:
    """A release in the table of a budget.

    Attributes
    ----------
    release : Spending
        What the ledger says of it.
    before, after : float or None
        What was spent before it was charged and after, by the budget's rule; None if that was not computed.
    kind : str
        "this", "released" or "reserved".
    """

    release: Spending
    before: float | None
    after: float | None
    kind: str

    @property
    def increase(self) -> float:
        """What it added; 0 if that was not computed."""
        return 0.0 if self.before is None or self.after is None else max(self.after - self.before, 0.0)


@dataclass(frozen=True)
class Bar:
    """A budget for the templates.

    Attributes
    ----------
    account : Account
        The budget.
    lines : tuple of Line
        Every release, the oldest first.
    """

    account: Account
    lines: tuple[Line, ...]

    @property
    def unit(self) -> PrivacyUnit | None:
        """Whose rows the budget protects together; None for single rows."""
        return None if self.account.unit is None else PrivacyUnit(self.account.unit, contribution="average")

    @property
    def change(self) -> str:
        """By what two neighbouring datasets differ, in words."""
        return change_in_words(self.account.adjacency, self.unit)

    @property
    def this(self) -> Line | None:
        """The release that the page is about, if it is about one."""
        return next((line for line in self.lines if line.kind == "this"), None)

    @property
    def reserved(self) -> int:
        """How many releases are not settled."""
        return sum(not line.release.is_settled for line in self.lines)

    @property
    def others(self) -> int:
        """How many are settled, but for the one that the page is about."""
        return sum(line.kind == "released" for line in self.lines)

    @property
    def longer_than_alone(self) -> bool:
        """Whether the rule for adaptive releases made one add more than its own ε."""
        longer = any(line.increase > line.release.epsilon * (1.0 + 1e-6) for line in self.lines)
        return longer and not self.account.rule.fixed_in_advance

    @property
    def has_all_totals(self) -> bool:
        """Whether it is known of every release what was spent after it."""
        return all(line.after is not None for line in self.lines)

    @property
    def segments(self) -> list[Segment]:
        """From the left to the right."""
        drawn: list[Segment] = []
        group: list[Line] = []
        for line in self.lines:
            if group and group[-1].after is not None:
                together = line.kind == group[0].kind != "this" and self._width(group) < NARROWEST
                if not together:
                    drawn.append(self._segment(group))
                    group = []
            group.append(line)
        return [*drawn, self._segment(group)] if group else drawn

    @property
    def drawn_together(self) -> bool:
        """Whether a segment stands for several releases."""
        return len(self.segments) < len(self.lines)

    def _place(self, epsilon: float | None) -> float:
        assert epsilon is not None  # a group begins and ends where a total is known
        return round(min(100.0 * epsilon / self.account.guarantee.epsilon, 100.0), 3)

    def _width(self, group: Sequence[Line]) -> float:
        return self._place(group[-1].after) - self._place(group[0].before)

    def _segment(self, group: Sequence[Line]) -> Segment:
        first, last = group[0], group[-1]
        assert first.before is not None
        assert last.after is not None
        numbers = f"entry {first.release.number}"
        if len(group) > 1:
            numbers = f"entries {first.release.number} to {last.release.number}"
        text = f"{numbers}: spent rises from ε = {rounded_up(first.before)} to ε = {rounded_up(last.after)}"
        width = max(round(self._width(group), 3), 0.0)
        kind = first.kind if len({line.kind for line in group}) == 1 else "released"
        return Segment(kind, self._place(first.before), width, text)


def bar_of(
    account: Account,
    this: tuple[object, object] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Bar:
    """The bar of a budget.

    Parameters
    ----------
    account : Account
        The budget.
    this : tuple of int and str, optional
        Number and digest of the entry that the page is about.
    progress : callable, optional
        Called with (totals computed, totals wanted).
    """
    place = next((at for at, release in enumerate(account.releases) if (release.number, release.digest) == this), None)
    totals = _rising(account.totals(_counts(account, place), progress))
    return Bar(
        account,
        tuple(
            Line(
                release,
                totals.get(at),
                totals.get(at + 1),
                "this" if at == place else "released" if release.is_settled else "reserved",
            )
            for at, release in enumerate(account.releases)
        ),
    )


def _counts(account: Account, place: int | None) -> list[int]:
    """After how many releases the total is computed: always before and after the one at this index, and at the end."""
    n = len(account.releases)
    few = n <= _MANY_FIXED or not account.rule.fixed_in_advance
    counts = set(range(n, 0, -1 if few else -n // _TOTALS_OF_MANY))
    return sorted(counts if place is None else counts | {place, place + 1} - {0})


def _rising(totals: Mapping[int, float]) -> dict[int, float]:
    """The same from 0 on, without what an accountant's rounding would take back."""
    found, largest = {0: 0.0}, 0.0
    for count, total in totals.items():
        found[count] = largest = max(largest, total)
    return found
