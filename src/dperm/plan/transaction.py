"""The transaction that every release goes through: check, reserve, answer, write, settle."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, Self, TypeVar

from dperm.accounting.composition import epsilon_of
from dperm.errors import InvalidParameterError, NoiseTooLargeError, NotSettledError
from dperm.kernel.noise import Randomness, check_random_state
from dperm.kernel.source import Source, check_count
from dperm.ledger import Budget, Reservation
from dperm.plan.large_delta import warn_of_large_delta
from dperm.plan.release_plan import ReleasePlan
from dperm.privacy.caveats import Caveat
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.unit import PrivacyUnit

ReleaseT = TypeVar("ReleaseT")


@dataclass(eq=False)
class Transaction:
    """Owns a release from the first check to the last entry in the ledger.

    Entering it checks that the rows are some that the plan speaks of and reserves the cost: it is on disk before a row
    is read. The block answers, and hands what is released to `write`. Leaving it settles. Whatever ends the block says
    that the reservation counts as spent; nothing gives it back.

    Parameters
    ----------
    plan : ReleasePlan
        What will be released.
    budget : Budget or None
        What to charge; None charges nothing.
    random_state : int or None
        Seed. Makes the run reproducible, and the result not for release.
    found : int
        How many rows, or units, there are.
    unit : PrivacyUnit or None
        What the rows are grouped by.
    n_declared : bool
        Whether somebody declared n; where it was read from rows and is not public, the result is not for release.
    rows : Source, optional
        The rows themselves, for a plan that reads them from a source.
    """

    plan: ReleasePlan
    budget: Budget | None
    random_state: Any
    _: KW_ONLY
    found: int
    unit: PrivacyUnit | None = None
    n_declared: bool = True
    rows: Source | None = None
    _reservation: Reservation | None = field(default=None, init=False)
    _written: tuple[Any, str] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Check, and reserve."""
        check_releasable(self.budget, self.random_state)
        plan = self.plan
        if self.unit != plan.unit:
            raise InvalidParameterError("the plan and the table have different privacy units.")
        check_count(self.found, plan.n, plan.adjacency, plan.unit)
        check_promise(plan)
        warn_of_large_delta(plan.delta, plan.n, plan.unit)
        if self.budget is not None:
            self._reservation = self.budget.reserve(*plan.charge)
        return self

    @cached_property
    def randomness(self) -> Randomness:
        """The streams of this run, drawn once the cost is reserved."""
        return Randomness.from_random_state(self.random_state)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What keeps the result from being released, besides a seed."""
        return () if self.n_declared else undeclared_n(self.plan.adjacency, self.plan.unit)

    @property
    def ledger_entry(self) -> dict[str, Any] | None:
        """What the ledger holds for it, as a release carries it."""
        return None if self._reservation is None else self._reservation.to_dict()

    def write(
        self, release: ReleaseT, fingerprint: Callable[[], str], save: Callable[[ReleaseT], object] | None = None
    ) -> None:  # fmt: skip
        """Keep what is released; the ledger is told of it when the block ends.

        Parameters
        ----------
        release : object
            What is released: it is not lost if the ledger cannot be told.
        fingerprint : callable
            Computes its fingerprint, if there is a ledger to tell.
        save : callable, optional
            Called with it now: what was accounted for is on disk before the ledger is told.
        """
        if save is not None:
            save(release)
        if self._reservation is not None:
            self._written = (release, fingerprint())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Settle what was written, or say what is spent."""
        if self._reservation is None:
            return
        if error is not None:
            error.add_note(self._reservation.spent)
        elif self._written is not None:
            release, fingerprint = self._written
            try:
                self._reservation.settle(fingerprint)
            except BaseException as unsettled:
                unsettled.add_note(self._reservation.spent)
                if isinstance(unsettled, NotSettledError):
                    unsettled.release = release  # it was accounted for, so it is not to be lost
                raise


def check_promise(plan: ReleasePlan) -> None:
    """Raise if a plan whose result may be released costs more than it promises: a search for noise is not believed."""
    if plan.promise.guarantee is None or not plan.statement.for_release:
        return
    if not epsilon_of(plan.event, plan.delta, plan.adjacency) <= plan.guarantee.epsilon:
        raise NoiseTooLargeError("the plan's noise does not keep its guarantee; nothing was read or spent.")


def check_budget(plan: ReleasePlan, budget: Budget | None) -> None:
    """Raise `BudgetExceededError` if the budget has no room for a release now; the ledger is only read."""
    if budget is not None:
        budget.check(*plan.charge)


def check_releasable(budget: object, random_state: Any) -> None:
    """Raise unless it is a budget, or None, and what is charged to it can be released."""
    check_random_state(random_state)
    if budget is not None and not isinstance(budget, Budget):
        raise InvalidParameterError(f"budget must be a dperm Budget, got {type(budget).__name__}.")
    if budget is not None and random_state is not None:
        raise InvalidParameterError("random_state and budget cannot be combined: a seeded fit is not private.")


def undeclared_n(adjacency: Adjacency, unit: PrivacyUnit | None = None) -> tuple[Caveat, ...]:
    """What keeps a release from being published if nobody declared n."""
    if adjacency is Adjacency.ADD_REMOVE:
        return (Caveat.N_READ,)
    if unit is not None and unit.missing == "ignore":  # one that is replaced by rows without an id is not counted
        return (Caveat.UNITS_COUNTED,)
    return ()
