"""A budget as one bar: what every release added to what is spent, as places in percent of the bar's width."""

from collections.abc import Sequence
from dataclasses import dataclass

from dperm.accounting.ledger.accounts import Account, Spending, rounded_up
from dperm.release.markup import change_in_words
from dperm.unit import Unit

# Segments that would be narrower, in percent, are drawn together with their neighbours of the same kind.
NARROWEST = 1.0


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
    before, after : float
        What was spent before it was charged and after, by the budget's rule.
    kind : str
        "this", "released" or "reserved".
    """

    release: Spending
    before: float
    after: float
    kind: str

    @property
    def increase(self) -> float:
        """What it added."""
        return max(self.after - self.before, 0.0)


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
    def unit(self) -> Unit | None:
        """Whose rows the budget protects together; None for single rows."""
        return None if self.account.unit is None else Unit(self.account.unit, contribution="average")

    @property
    def change(self) -> str:
        """By what two adjacent tables differ, in words."""
        return change_in_words(self.account.adjacency, self.unit)

    @property
    def this(self) -> Line | None:
        """The release that the page is about, if it is about one."""
        return next((line for line in self.lines if line.kind == "this"), None)

    @property
    def reserved(self) -> int:
        """How many releases are not settled."""
        return sum(line.release.settled_at is None for line in self.lines)

    @property
    def others(self) -> int:
        """How many are settled, but for the one that the page is about."""
        return sum(line.kind == "released" for line in self.lines)

    @property
    def longer_than_alone(self) -> bool:
        """Whether the rule for releases that are chosen in view of earlier results made one add more than its own ε."""
        longer = any(line.increase > line.release.epsilon * (1.0 + 1e-6) for line in self.lines)
        return longer and not self.account.rule.fixed_in_advance

    @property
    def segments(self) -> list[Segment]:
        """From the left to the right."""
        drawn: list[Segment] = []
        group: list[Line] = []
        for line in self.lines:
            together = bool(group) and line.kind == group[0].kind != "this"
            if group and not (together and self._width(group) < NARROWEST):
                drawn.append(self._segment(group))
                group = []
            group.append(line)
        return [*drawn, self._segment(group)] if group else drawn

    @property
    def drawn_together(self) -> bool:
        """Whether a segment stands for several releases."""
        return len(self.segments) < len(self.lines)

    def _place(self, epsilon: float) -> float:
        return round(min(100.0 * epsilon / self.account.guarantee.epsilon, 100.0), 3)

    def _width(self, group: Sequence[Line]) -> float:
        return self._place(group[-1].after) - self._place(group[0].before)

    def _segment(self, group: Sequence[Line]) -> Segment:
        first, last = group[0], group[-1]
        numbers = f"entry {first.release.number}"
        if len(group) > 1:
            numbers = f"entries {first.release.number} to {last.release.number}"
        text = f"{numbers}: spent rises from ε = {rounded_up(first.before)} to ε = {rounded_up(last.after)}"
        width = max(round(self._width(group), 3), 0.0)
        return Segment(first.kind, self._place(first.before), width, text)


def bar_of(account: Account, totals: Sequence[float], this: tuple[object, object] | None = None) -> Bar:
    """The bar of a budget.

    Parameters
    ----------
    account : Account
        The budget.
    totals : sequence of float
        What `account.totals()` returned.
    this : tuple of int and str, optional
        Number and digest of the entry that the page is about.
    """
    lines, before = [], 0.0
    for release, after in zip(account.releases, totals, strict=True):
        kind = "released" if release.settled_at else "reserved"
        kind = "this" if (release.number, release.digest) == this else kind
        lines.append(Line(release, before, after, kind))
        before = max(before, after)  # an accountant's rounding takes nothing back
    return Bar(account, tuple(lines))
