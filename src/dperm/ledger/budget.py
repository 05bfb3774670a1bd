"""A budget by reference: create it, reserve from it, settle, look at it."""

import json
import os
import shlex
import time
import unicodedata
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dperm.accounting.events import Event, event_to_list
from dperm.accounting.events.one_of import total_pure_epsilon
from dperm.accounting.filter import Filter
from dperm.consequences import CONSEQUENCES, Charge
from dperm.disk import make_folder
from dperm.errors import DpermError, InvalidParameterError, LedgerDamagedError, NotSettledError
from dperm.ledger.accounts import (
    Account,
    History,
    promised_delta,
    read_history,
    refusal,
)
from dperm.ledger.names import check_text, new_name
from dperm.ledger.places import user_folder, without_password
from dperm.ledger.rule import Rule, event_text
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.unit import PrivacyUnit

if TYPE_CHECKING:  # SQLAlchemy takes a while to import
    from dperm.ledger.tables import Entry, Ledger

# A server that is restarted is back after a while. What is not settled then is settled by hand: dperm budget settle.
_SECONDS_BEFORE_SETTLING_AGAIN = (1.0, 5.0, 15.0)


def default_ledger() -> str:
    """The SQLite file that holds a user's budgets: `dperm/ledger.db` in $XDG_DATA_HOME, or in ~/.local/share."""
    return str(user_folder("XDG_DATA_HOME", ".local/share") / "ledger.db")


def _make_default_folder() -> None:
    try:
        make_folder(Path(default_ledger()).parent)
    except InvalidParameterError as error:
        sentence = str(error).removesuffix(".")
        raise InvalidParameterError(
            f"{sentence}; pass a persistent ledger: --ledger, DPERM_LEDGER or ledger=."
        ) from None


@dataclass(frozen=True)
class Budget:
    """The privacy budget of a dataset in a ledger. The object is two strings: it can be copied, cloned and pickled.

    Parameters
    ----------
    dataset : str
        The name under which the budget was created.
    ledger : str, optional
        A SQLAlchemy URL, or the path of a SQLite file; by default `default_ledger()`.

    Examples
    --------
    >>> Budget("adult", "postgresql+psycopg://ann:secret@db.example/ledger")
    Budget(dataset='adult', ledger='postgresql+psycopg://ann:***@db.example/ledger')
    """

    dataset: str
    ledger: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be a name or a place."""
        # As `create` writes it: a name that looks the same is the same.
        object.__setattr__(self, "dataset", unicodedata.normalize("NFC", check_text("dataset", self.dataset)))
        if isinstance(self.ledger, os.PathLike):
            object.__setattr__(self, "ledger", os.fspath(self.ledger))
        if self.ledger is not None and (not isinstance(self.ledger, str) or not self.ledger or "\0" in self.ledger):
            raise InvalidParameterError("ledger must be a string: the path of a SQLite file or a database URL.")

    def __repr__(self) -> str:
        ledger = self.ledger if self.ledger is None else without_password(self.ledger)
        return f"Budget(dataset={self.dataset!r}, ledger={ledger!r})"

    @classmethod
    def create(
        cls,
        dataset: str,
        guarantee: Guarantee,
        adjacency: str = "replace_one",
        ledger: str | None = None,
        fixed_in_advance: bool = False,
        unit: str | None = None,
    ) -> "Budget":
        """Set what all releases from a dataset together may spend, for good.

        Parameters
        ----------
        dataset : str
            A name of at most 200 visible characters, kept in Unicode's composed form; one that has a budget, or
            looks like one that has, is refused, and nothing is changed.
        guarantee : Guarantee
            What all releases together must keep.
        adjacency : {"replace_one", "add_remove"}
            Which two tables it is about; every fit must be about the same.
        ledger : str, optional
            A SQLAlchemy URL, or the path of a SQLite file; by default `default_ledger()`.
        fixed_in_advance : bool
            Declare that solver, settings, ε and δ of every release are fixed before the first of them. More fits into
            the budget then, and every page has this declaration to sign. By default each release may be chosen in view
            of the results before it.
        unit : str, optional
            Whom the budget protects: the name of the unit that every release must have, "patient_id" for instance,
            whatever its max_rows. By default one row.

        Returns
        -------
        Budget
            The reference to hand to fits.
        """
        budget = cls(dataset, ledger)
        if not isinstance(guarantee, Guarantee):
            raise InvalidParameterError("guarantee must be a Guarantee, e.g. Guarantee(3.0, 1e-5).")
        if not isinstance(fixed_in_advance, bool):
            raise InvalidParameterError(f"fixed_in_advance must be True or False, got {fixed_in_advance!r}.")
        if unit is not None:
            check_text("unit", unit)
        rule = Rule(Filter.of(guarantee), fixed_in_advance)
        content = {"id": uuid.uuid4().hex, "adjacency": Adjacency.parse(adjacency).value, "unit": unit}
        content |= rule.to_content()
        if ledger is None:
            _make_default_folder()
        place = budget._ledger()
        budget = cls(new_name(dataset, place.datasets()), ledger)
        look = f"dperm budget show {shlex.quote(budget.dataset)}"
        charge = CONSEQUENCES.charge(Charge(f"the budget {budget.dataset!r} may have been created: {look}"))
        try:
            place.create(budget.dataset, content)
        except DpermError:
            CONSEQUENCES.charges.remove(charge)
            raise
        charge.text = f"the budget {budget.dataset!r} was created"
        return budget

    def check(
        self, event: Event, adjacency: Adjacency, unit: PrivacyUnit | None = None, delta: float | None = None
    ) -> None:
        """Raise `BudgetExceededError` if a release would not fit now; the ledger is only read."""
        text = event_text(event)
        history = self._for_release(self._ledger().read(self.dataset), adjacency, unit)
        promised = self._promised(event, delta, history)
        if not history.epsilon(text, promised) <= history.guarantee.epsilon:
            raise refusal(history, text, promised)

    def reserve(
        self, event: Event, adjacency: Adjacency, unit: PrivacyUnit | None = None, delta: float | None = None
    ) -> "Reservation":
        """Charge a release before it runs. It is on disk when this returns, and nothing gives it back.

        Parameters
        ----------
        event : Event
            What will run.
        adjacency : Adjacency
            That of the fit, which must be the budget's.
        unit : PrivacyUnit, optional
            That of the fit, which must be the budget's too; None for one row.
        delta : float, optional
            The δ of its promise, which need not be the budget's: where releases are added up, this is what it takes
            of the budget's δ. By default the budget's, and 0 for what is pure.

        Returns
        -------
        Reservation
            To be settled with the fingerprint of what is released.

        Raises
        ------
        BudgetExceededError
            If it does not fit; nothing was written.
        LedgerDamagedError
            If the ledger is not what it was; nothing was written.
        """
        text, entry = event_text(event), None
        try:
            with self._ledger().open(self.dataset) as chain:
                history = self._for_release(chain.entries, adjacency, unit)
                promised = self._promised(event, delta, history)
                if history.epsilon(text, promised) <= history.guarantee.epsilon:
                    entry = chain.append("reserved", {"events": json.loads(text), "delta": promised})
                    # The database may write it whatever happens from here on.
                    look = f"dperm budget show {shlex.quote(self.dataset)}"
                    perhaps = f"reservation {entry.number} counts as spent if it is there: {look}"
                    charge = CONSEQUENCES.charge(Charge(perhaps, (self.dataset, entry.number)))
        except BaseException as error:
            if entry is not None:
                error.add_note(perhaps)
            raise
        if entry is None:  # the sentence takes a search, for which others need not wait
            raise refusal(history, text, promised)
        reservation = Reservation(self, entry.number, entry.digest, history.rule.fixed_in_advance)
        charge.text = reservation.spent
        return reservation

    def account(self) -> Account:
        """What the budget is and what was spent of it, after the whole ledger was verified."""
        return read_history(self._ledger(), self._ledger().read(self.dataset)).account()

    def confirm(self, number: int, digest: str, fingerprint: str) -> None:
        """Raise `LedgerDamagedError` unless this reservation is in the ledger and was settled with this fingerprint.

        Parameters
        ----------
        number, digest : int, str
            Of the reservation, as a model file carries them.
        fingerprint : str
            Of what was released.
        """
        ledger = self._ledger()
        history = read_history(ledger, ledger.read(self.dataset))
        settled = history.settled.get(number) if history.has(number, digest) else None
        if settled is None or settled.fingerprint != fingerprint:
            absent = "was never settled" if history.has(number, digest) else "is not there"
            what = "was settled with a different release" if settled else absent
            raise LedgerDamagedError(
                f"reservation {number} of the budget {self.dataset!r} in {ledger} {what}, so the release or the "
                "ledger was changed; restore the original or the newest intact copy of the ledger."
            )

    def _ledger(self) -> "Ledger":
        return _open(self.ledger)

    @staticmethod
    def _promised(event: Event, delta: float | None, history: History) -> float:
        if delta is not None:
            return promised_delta(delta)
        return history.guarantee.delta if total_pure_epsilon(event) is None else 0.0

    def _for_release(self, entries: "Sequence[Entry]", adjacency: Adjacency, unit: PrivacyUnit | None) -> History:
        """Read the entries; refuse a release about other tables than the budget."""
        history = read_history(self._ledger(), entries)
        if Adjacency.parse(adjacency) is not history.adjacency:
            raise InvalidParameterError(
                f"the budget {self.dataset!r} is for adjacency {history.adjacency} and this release for {adjacency}, "
                f"which cannot be composed; use adjacency={history.adjacency.value!r}, or another budget."
            )
        protected = None if unit is None else unit.name
        if protected != history.unit:
            budget, release = (
                "single rows" if name is None else f"unit {name!r}" for name in (history.unit, protected)
            )
            ways = [] if history.unit is None else [f"declare unit={history.unit!r} for the release"]
            if protected is not None:
                create = f"dperm budget create NAME --unit {shlex.quote(protected)}"
                ways.append(f"create a budget for {release} (`{create}`) or use one that has it")
            raise InvalidParameterError(
                f"the budget {self.dataset!r} protects {budget} and this release {release}, which cannot be "
                f"composed; {', or '.join(ways)}."
            )
        return history


@dataclass(frozen=True)
class Reservation:
    """A release that is charged to a budget.

    Attributes
    ----------
    budget : Budget
        What it is charged to.
    number, digest : int, str
        Its entry in the ledger.
    fixed_in_advance : bool
        Whether the budget is for releases that are fixed in advance.
    """

    budget: Budget
    number: int
    digest: str
    fixed_in_advance: bool = False

    @property
    def spent(self) -> str:
        """That it counts, in words."""
        return f"reservation {self.number} of the budget {self.budget.dataset!r} counts as spent"

    def to_dict(self) -> dict[str, object]:
        """The entry, as plain data that a release can carry."""
        return {
            "dataset": self.budget.dataset,
            "number": self.number,
            "digest": self.digest,
            "fixed_in_advance": self.fixed_in_advance,
        }

    def settle(self, fingerprint: str) -> None:
        """Note what was released, once; again and again for a while if the ledger cannot be used.

        Parameters
        ----------
        fingerprint : str
            Of the release, at most 200 characters.

        Raises
        ------
        NotSettledError
            If the ledger could not be used; the reservation counts as spent, and may be settled later.
        """
        check_text("fingerprint", fingerprint)
        for seconds in (*_SECONDS_BEFORE_SETTLING_AGAIN, None):
            try:
                self._settle(fingerprint)
                return CONSEQUENCES.settled(self.budget.dataset, self.number)
            except (InvalidParameterError, LedgerDamagedError):
                raise
            except DpermError as error:
                if seconds is None:
                    raise NotSettledError(f"the ledger was not told what was released: {error}") from None
                time.sleep(seconds)
        return None

    def _settle(self, fingerprint: str) -> None:
        ledger, dataset = self.budget._ledger(), self.budget.dataset
        with ledger.open(dataset) as chain:
            history = read_history(ledger, chain.entries)
            if not history.has(self.number, self.digest):
                raise ledger.damaged(dataset, self.number, "the reservation of this release is missing")
            settled = history.settled.get(self.number)
            if settled is None:
                day = chain.entries[self.number].written_on
                chain.append("settled", {"reservation": self.number, "fingerprint": fingerprint}, day)
            elif settled.fingerprint != fingerprint:  # the same again is an answer that was lost on its way
                raise InvalidParameterError(
                    f"reservation {self.number} of the budget {dataset!r} is already settled; every release needs "
                    "its own reservation."
                )


def settle_file(content: dict[str, Any], event: Event, ledger: str | None = None) -> None:
    """Tell the ledger of a release whose file was written and that it could not be told of.

    Parameters
    ----------
    content : dict
        Of the file: its "ledger" entry and its "fingerprint".
    event : Event
        What its plan costs.
    ledger : str, optional
        As of `Budget`.
    """
    entry = content["ledger"]
    budget, key = Budget(entry["dataset"], ledger), (entry["number"], entry["digest"])
    found = [release for release in budget.account().releases if (release.number, release.digest) == key]
    if [event_to_list(release.event) for release in found] != [event_to_list(event)]:
        raise InvalidParameterError(
            f"entry {entry['number']} of {entry['dataset']!r} in the ledger has different events."
        )
    Reservation(budget, *key).settle(content["fingerprint"])


def budgets(ledger: str | None = None) -> tuple[Budget, ...]:
    """All budgets of a ledger, by name.

    Parameters
    ----------
    ledger : str, optional
        A SQLAlchemy URL, or the path of a SQLite file; by default `default_ledger()`, which need not be there yet.
    """
    place = _open(ledger)
    if ledger is not None and place.is_missing_file():
        raise InvalidParameterError(f"there is no file {place}.")
    return tuple(Budget(dataset, ledger) for dataset in place.datasets())


def _open(ledger: str | None) -> "Ledger":
    from dperm.ledger.tables import Ledger  # SQLAlchemy takes a moment to load

    return Ledger(default_ledger() if ledger is None else ledger)
