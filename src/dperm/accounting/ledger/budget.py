"""A budget by reference: create it, reserve from it, settle, look at it."""

import json
import os
import unicodedata
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dperm.accounting.events import Event
from dperm.accounting.guarantee import Adjacency, Guarantee
from dperm.accounting.ledger.accounts import Account, History, event_text, read_history, refusal
from dperm.accounting.ledger.places import user_folder, without_password
from dperm.errors import DpermError, InvalidParameter, LedgerDamaged

if TYPE_CHECKING:  # SQLAlchemy is an extra
    from dperm.accounting.ledger.tables import Entry, Ledger


def default_ledger() -> str:
    """The SQLite file that holds a user's budgets: `dperm/ledger.db` in $XDG_DATA_HOME, or in ~/.local/share."""
    return str(user_folder("XDG_DATA_HOME", ".local/share") / "ledger.db")


@dataclass(frozen=True)
class Budget:
    """A reference to what may be spent on a dataset: two strings, the same after copying, cloning or pickling.

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
        _check_text("dataset", self.dataset)
        if isinstance(self.ledger, os.PathLike):
            object.__setattr__(self, "ledger", os.fspath(self.ledger))
        if self.ledger is not None and (not isinstance(self.ledger, str) or not self.ledger or "\0" in self.ledger):
            raise InvalidParameter("ledger must be the path of a SQLite file or the URL of a database, as text.")

    def __repr__(self) -> str:
        ledger = self.ledger if self.ledger is None else without_password(self.ledger)
        return f"Budget(dataset={self.dataset!r}, ledger={ledger!r})"

    @classmethod
    def create(
        cls, dataset: str, guarantee: Guarantee, adjacency: str = "replace_one", ledger: str | None = None
    ) -> "Budget":
        """Set what all releases from a dataset together may spend, for good.

        Parameters
        ----------
        dataset : str
            A name of at most 200 characters; one that has a budget is refused, and nothing is changed.
        guarantee : Guarantee
            What all releases together must keep.
        adjacency : {"replace_one", "add_remove"}
            Which two tables it is about; every fit must be about the same.
        ledger : str, optional
            A SQLAlchemy URL, or the path of a SQLite file; by default `default_ledger()`.

        Returns
        -------
        Budget
            The reference to hand to fits.
        """
        budget = cls(dataset, ledger)
        if not isinstance(guarantee, Guarantee):
            raise InvalidParameter("guarantee must be a Guarantee, for instance Guarantee(3.0, 1e-5).")
        content = {
            "id": uuid.uuid4().hex,
            "epsilon": float(guarantee.epsilon),
            "delta": float(guarantee.delta),
            "adjacency": Adjacency.parse(adjacency).value,
        }
        if ledger is None:
            _make_folder(Path(default_ledger()).parent)
        budget._ledger().create(dataset, content)
        return budget

    def check(self, event: Event, adjacency: Adjacency) -> None:
        """Raise `BudgetExceeded` if a release would not fit now; the ledger is only read."""
        text = event_text(event)
        history = self._history(self._ledger().read(self.dataset), adjacency)
        if not history.epsilon(text) <= history.guarantee.epsilon:
            raise refusal(history, text)

    def reserve(self, event: Event, adjacency: Adjacency) -> "Reservation":
        """Charge a release before it runs. It is on disk when this returns, and nothing gives it back.

        Parameters
        ----------
        event : Event
            What will run.
        adjacency : Adjacency
            That of the fit, which must be the budget's.

        Returns
        -------
        Reservation
            To be settled with the fingerprint of what is released.

        Raises
        ------
        BudgetExceeded
            If it does not fit; nothing was written.
        LedgerDamaged
            If the ledger is not what it was; nothing was written.
        """
        text, entry = event_text(event), None
        with self._ledger().open(self.dataset) as chain:
            history = self._history(chain.entries, adjacency)
            if history.epsilon(text) <= history.guarantee.epsilon:
                entry = chain.append("reserved", {"events": json.loads(text)})
        if entry is None:  # the sentence takes a search, for which others need not wait
            raise refusal(history, text)
        return Reservation(self, entry.number, entry.digest)

    def account(self) -> Account:
        """What the budget is and what was spent of it, after the whole ledger was verified."""
        return self._history(self._ledger().read(self.dataset)).account()

    def confirm(self, number: int, digest: str, fingerprint: str) -> None:
        """Raise `LedgerDamaged` unless this reservation is in the ledger and was settled with this fingerprint.

        Parameters
        ----------
        number, digest : int, str
            Of the reservation, as a model file carries them.
        fingerprint : str
            Of what was released.
        """
        ledger = self._ledger()
        history = self._history(ledger.read(self.dataset))
        settled = history.settled.get(number) if history.has(number, digest) else None
        if settled is None or settled.fingerprint != fingerprint:
            what = "was settled with another release" if settled else "is not there, or was never settled"
            raise LedgerDamaged(
                f"reservation {number} of the budget {self.dataset!r} in {ledger} {what}, so the release or the ledger "
                "is not what it was; put the original or the newest intact copy of the ledger back."
            )

    def _ledger(self) -> "Ledger":
        return _open(self.ledger)

    def _history(self, entries: "Sequence[Entry]", adjacency: Adjacency | None = None) -> History:
        """Read the entries; refuse a release about other tables than the budget."""
        history = read_history(self._ledger(), entries)
        if adjacency is not None and Adjacency.parse(adjacency) is not history.adjacency:
            raise InvalidParameter(
                f"the budget {self.dataset!r} is for adjacency {history.adjacency} and this release for "
                f"{adjacency}, which do not add up; use adjacency={history.adjacency.value!r}, or another budget."
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
    """

    budget: Budget
    number: int
    digest: str

    def settle(self, fingerprint: str) -> None:
        """Note what was released, once.

        Parameters
        ----------
        fingerprint : str
            Of the release, at most 200 characters.
        """
        _check_text("fingerprint", fingerprint)
        ledger, dataset = self.budget._ledger(), self.budget.dataset
        with ledger.open(dataset) as chain:
            history = read_history(ledger, chain.entries)
            if not history.has(self.number, self.digest):
                raise ledger.damaged(dataset, self.number, "the reservation of this release is not there")
            if self.number in history.settled:
                raise InvalidParameter(
                    f"reservation {self.number} of the budget {dataset!r} is settled already; "
                    "every release needs a reservation of its own."
                )
            chain.append("settled", {"reservation": self.number, "fingerprint": fingerprint})


def budgets(ledger: str | None = None) -> tuple[Budget, ...]:
    """All budgets of a ledger, by name.

    Parameters
    ----------
    ledger : str, optional
        A SQLAlchemy URL, or the path of a SQLite file; by default `default_ledger()`.
    """
    return tuple(Budget(dataset, ledger) for dataset in _open(ledger).datasets())


def _open(ledger: str | None) -> "Ledger":
    try:
        from dperm.accounting.ledger.tables import Ledger
    except ModuleNotFoundError:
        raise DpermError("keeping a budget needs SQLAlchemy: pip install 'dperm[ledger]'.") from None
    return Ledger(default_ledger() if ledger is None else ledger)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidParameter(f"{name} must be text that is not empty.")
    if len(value) > 200 or any(unicodedata.category(character) in {"Cc", "Cs"} for character in value):
        raise InvalidParameter(f"{name} must be at most 200 characters, without control characters.")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(f"{folder} cannot be made: {error.strerror}.") from None
