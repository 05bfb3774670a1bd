"""What the entries of a budget say, and what they cost together."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import TYPE_CHECKING

from dperm.accounting.events import Event, event_from_list
from dperm.errors import BudgetExceededError, InvalidParameterError
from dperm.ledger.names import check_text
from dperm.ledger.rule import (
    Rule,
    Texts,
    composed_epsilon,
    event_of,
    event_text,
    filtered_epsilon,
    one_release,
)
from dperm.printable import one_line
from dperm.privacy.guarantee import LARGEST_EPSILON, SMALLEST_EPSILON, Adjacency, Guarantee
from dperm.privacy.unit import PrivacyUnit
from dperm.validation import finite

if TYPE_CHECKING:  # SQLAlchemy takes a while to import
    from dperm.ledger.tables import Entry, Ledger


# The two kinds of analysts.
_LOOKS = "each release may depend on earlier results"
_FIXED = "all releases were fixed before the first"


@dataclass(frozen=True)
class Spending:
    """One release that was charged to a budget.

    Attributes
    ----------
    number, digest : int, str
        Its entry in the ledger.
    reserved_on : str
        The day on which it was charged, UTC. No finer time is kept, and none of its end: how long a release took can
        depend on the rows.
    epsilon : float
        ε of this release alone, at the budget's δ.
    event : Event
        What was charged.
    delta : float
        The δ of its promise.
    fingerprint : str or None
        Of what was released; None if that is not known, for instance after a crash. It counts as spent all the same.
    """

    number: int
    digest: str
    reserved_on: str
    epsilon: float
    event: Event
    delta: float
    fingerprint: str | None

    @property
    def is_settled(self) -> bool:
        """Whether the ledger knows what was released."""
        return self.fingerprint is not None


@dataclass(frozen=True)
class Account:
    """The verified state of a budget.

    Attributes
    ----------
    dataset : str
        Its name.
    adjacency : Adjacency
        Which two tables it is about.
    created : str
        The day, UTC.
    rule : Rule
        How the budget is checked.
    filtered : float
        ε at the budget's δ of everything reserved, for an analyst who may have chosen each release after seeing the
        results before it.
    composed : float
        The same, if all releases were fixed before the first.
    releases : tuple of Spending
        One for each reservation, the oldest first.
    unit : str or None
        Whose rows it protects together, by the name of the unit; None for single rows.
    newest : Entry or None
        The last entry of the budget when it was verified; every account from a ledger has one.

    Examples
    --------
    >>> from dperm.accounting.filter import Filter
    >>> rule = Rule(Filter.of(Guarantee(3.0, 1e-5)), fixed_in_advance=False)
    >>> account = Account("adult", Adjacency.REPLACE_ONE, "2026-11-16", rule, 0.0, 0.0, ())
    >>> account.left, round(account.largest(1e-5), 3)
    (3.0, 3.0)
    """

    dataset: str
    adjacency: Adjacency
    created: str
    rule: Rule
    filtered: float
    composed: float
    releases: tuple[Spending, ...]
    unit: str | None = None
    newest: "Entry | None" = None

    @property
    def guarantee(self) -> Guarantee:
        """What all releases together must keep."""
        return self.rule.filter.guarantee

    @property
    def protects(self) -> str:
        """Whom, in words."""
        return "one row" if self.unit is None else PrivacyUnit(self.unit, contribution="average").described

    @property
    def spent(self) -> float:
        """The one of the two ε that the budget is checked by."""
        return self.composed if self.rule.fixed_in_advance else self.filtered

    @property
    def left(self) -> float:
        """ε of a further release with δ = 0 that fits, whatever it is; others may fit that are larger."""
        left = self.rule.left(self.texts, self.adjacency)
        return left if left >= SMALLEST_EPSILON else 0.0

    @property
    def summary(self) -> str:
        """What is spent and left, in a line; rounded to the safe side."""
        spent, left = rounded_up(self.spent), rounded_down(self.left)
        unit = "" if self.unit is None else f", unit {one_line(self.unit)}"
        budget = f"(δ = {self.guarantee.delta:g}, {self.adjacency}{unit})"
        return f"ε = {spent} of {self.guarantee.epsilon:g} spent, at least {left} left {budget}"

    @property
    def explanation(self) -> str:
        """For whom that holds, and the other of the two numbers; rounded to the safe side."""
        if rounded_up(self.filtered) == rounded_up(self.composed):
            return f"this holds if {_FIXED if self.rule.fixed_in_advance else _LOOKS}"
        if self.rule.fixed_in_advance:
            return f"this holds if {_FIXED}; if {_LOOKS}, ε = {rounded_up(self.filtered)} is spent"
        return f"this holds if {_LOOKS}; if {_FIXED}, ε = {rounded_up(self.composed)} is spent"

    def largest(self, delta: float) -> float:
        """The largest ε at this δ of one further Gaussian release (pure for δ = 0) that fits; 0 if none does.

        Found by bisection, to a ten-thousandth of it, from below.
        """

        def fits(epsilon: float) -> bool:
            further = event_text(one_release(Guarantee(epsilon, delta), self.adjacency))
            return self.rule.epsilon((*self.texts, (further, delta)), self.adjacency) <= self.guarantee.epsilon

        low, high = 0.0, self.guarantee.epsilon
        while high < LARGEST_EPSILON and fits(high):
            # At a smaller δ a release may have a larger ε than the budget.
            low, high = high, min(2.0 * high, LARGEST_EPSILON)
        while high - low > 1e-4 * high and high > SMALLEST_EPSILON:
            middle = max(SMALLEST_EPSILON, 0.5 * (low + high))
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def totals(
        self, counts: Sequence[int], progress: Callable[[int, int], None] = lambda done, total: None
    ) -> dict[int, float]:
        """What was spent after this many releases, by the budget's rule.

        Parameters
        ----------
        counts : sequence of int
            After how many releases, for instance 1 and 2: ε of the first alone, and of the first two.
        progress : callable, optional
            Called with (totals computed, totals wanted): many different releases take a while.
        """
        texts, found = self.texts, dict[int, float]()
        for count in counts:
            found[count] = self.rule.epsilon(texts[:count], self.adjacency)
            progress(len(found), len(counts))
        return found

    @property
    def texts(self) -> Texts:
        """The releases as the rule reads them."""
        return tuple((event_text(release.event), release.delta) for release in self.releases)


@dataclass(frozen=True)
class Reserved:
    """A reservation: its entry, its events as canonical JSON, and the δ of its promise."""

    entry: "Entry"
    text: str
    delta: float


@dataclass(frozen=True)
class Settled:
    """What was released for a reservation, and the entry that says so."""

    entry: "Entry"
    fingerprint: str


@dataclass(frozen=True)
class History:
    """What the entries of a budget say."""

    created: "Entry"
    rule: Rule
    adjacency: Adjacency
    reserved: list[Reserved]
    settled: dict[int, Settled]
    unit: str | None
    newest: "Entry"

    @property
    def guarantee(self) -> Guarantee:
        """What all releases together must keep."""
        return self.rule.filter.guarantee

    def has(self, number: int, digest: str) -> bool:
        """Whether this reservation is among the entries."""
        return any((line.entry.number, line.entry.digest) == (number, digest) for line in self.reserved)

    def epsilon(self, text: str, delta: float) -> float:
        """ε of everything reserved and of a further release, at the budget's δ and by its rule."""
        return self.rule.epsilon((*self._texts, (text, delta)), self.adjacency)

    def account(self) -> Account:
        """The same with what each release costs."""
        filtered = filtered_epsilon(self._texts, self.rule.filter, self.adjacency)
        composed = composed_epsilon(self._texts, self.guarantee.delta, self.adjacency)
        releases = tuple(map(self._spending, self.reserved))
        dataset, created = self.created.dataset, self.created.written_on
        return Account(
            dataset, self.adjacency, created, self.rule, filtered, composed, releases, self.unit, self.newest
        )

    @property
    def _texts(self) -> Texts:
        return tuple((line.text, line.delta) for line in self.reserved)

    def _spending(self, line: Reserved) -> Spending:
        entry, settled = line.entry, self.settled.get(line.entry.number)
        return Spending(
            entry.number,
            entry.digest,
            entry.written_on,
            composed_epsilon(((line.text, line.delta),), self.guarantee.delta, self.adjacency),
            event_of(line.text),
            line.delta,
            None if settled is None else settled.fingerprint,
        )


def read_history(ledger: "Ledger", entries: "Sequence[Entry]") -> History:
    """Read verified entries, or raise `LedgerDamagedError` if they make no sense."""
    reserved: dict[int, Reserved] = {}
    settled: dict[int, Settled] = {}
    number = 0
    try:
        first = json.loads(entries[0].content)
        rule = Rule.from_content(first)
        adjacency = Adjacency.parse(first["adjacency"])
        unit = None if first["unit"] is None else check_text("unit", first["unit"])
        for entry in entries[1:]:
            number, content = entry.number, json.loads(entry.content)
            if entry.kind == "reserved":
                text = event_text(event_from_list(content["events"]))
                reserved[number] = Reserved(entry, text, promised_delta(content["delta"]))
            elif entry.kind == "settled" and content["reservation"] in reserved.keys() - settled.keys():
                settled[content["reservation"]] = Settled(entry, str(content["fingerprint"]))
            else:
                raise ValueError(entry.kind)
    except (ValueError, KeyError, TypeError):
        raise ledger.damaged(entries[0].dataset, number, "this version of dperm cannot read it") from None
    return History(entries[0], rule, adjacency, list(reserved.values()), settled, unit, entries[-1])


def promised_delta(delta: object) -> float:
    """The δ of a release's promise, or raise."""
    if not 0.0 <= finite("delta", delta) < 1.0:
        raise InvalidParameterError(f"delta must be 0 (pure ε) or lie strictly between 0 and 1, got {delta!r}.")
    return float(finite("delta", delta))


def refusal(history: History, text: str, promised: float) -> BudgetExceededError:
    """The sentence for a release that does not fit."""
    account, delta = history.account(), history.guarantee.delta
    would_be, largest = history.epsilon(text, promised), account.largest(delta)
    kind = "pure" if delta == 0.0 else "Gaussian"
    return BudgetExceededError(
        f"the budget {account.dataset!r} is ε = {account.guarantee.epsilon:g} at δ = {delta:g} under "
        f"{account.adjacency}, of which ε = {rounded_up(account.spent)} is spent, and this release would make it "
        + (f"ε = {rounded_up(would_be)}" if math.isfinite(would_be) else "infinite: it is not private at this δ")
        + (
            f"; one further {kind} release of at most ε = {rounded_down(largest)} at this δ fits."
            if largest > 0.0
            else f"; no further {kind} release fits at this δ, the budget is used up."
        )
    )


def rounded_up(epsilon: float) -> str:
    """ε in four digits, no less than it is."""
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(float(epsilon)))):g}"


def rounded_down(epsilon: float) -> str:
    """ε in four digits, no more than it is."""
    return f"{float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal(repr(float(epsilon)))):g}"
