"""Sums over rows under one guarantee: planned from public numbers, then released."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.calibration import calibrate
from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.kernel.noise import GENERATOR, Randomness
from dperm.kernel.source import check_count
from dperm.kernel.tally import Tally
from dperm.kernel.units import Membership
from dperm.ledger import Budget, Reservation
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.plan import Planned
from dperm.mechanisms.second_moment import SecondMoment
from dperm.mechanisms.sums_plan import CalibratedSums, SumsPlan
from dperm.plan.fit_plan import check_releasable
from dperm.privacy.guarantee import Guarantee
from dperm.privacy.joint_statement import JointStatement

Array = NDArray[np.float64]
Sum = BoundedSum | CellCounts | SecondMoment

# Computes what rows add, when it is called: one array after the other.
Parts = Callable[[], Iterable[NDArray[Any]]]


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """Noisy sums and what is promised about them.

    Attributes
    ----------
    answers : tuple of arrays
        One per planned sum, in their order.
    deviations : tuple of float
        The standard deviation of the noise on every number of each.
    statement : JointStatement
        What is promised.
    event : Event
        The accounting event.
    reservation : Reservation or None
        What the ledger holds for it, to be settled by whoever keeps the result.
    """

    answers: tuple[Array, ...]
    deviations: tuple[float, ...]
    statement: JointStatement
    event: Event
    reservation: Reservation | None = None


@dataclass(frozen=True)
class SumsRelease:
    """Sums that are planned and calibrated, with no row read yet.

    Attributes
    ----------
    guarantee : Guarantee
        What all of them together keep.
    calibrated : CalibratedSums
        The sums and their noise.
    """

    guarantee: Guarantee
    calibrated: CalibratedSums

    @property
    def event(self) -> Event:
        """The accounting event of all sums."""
        return self.calibrated.event()

    @property
    def deviations(self) -> tuple[float, ...]:
        """The standard deviation of the noise on one number of every sum."""
        root = {"Laplace": 2.0**0.5, "Gaussian": 1.0}
        planned = self.calibrated.plan.planned
        return tuple(self.calibrated.sigma(item) * root[item.query.distribution] for item in planned)

    @property
    def parts(self) -> tuple[str, ...]:
        """What is released, in words."""
        plan, words = self.calibrated.plan, []
        for item in plan.planned:
            scale = "σ =" if item.query.distribution == "Gaussian" else "scale"
            noise = f"{item.query.distribution}, {scale} {self.calibrated.sigma(item):.3g}"
            words.append(f"{item.query.what} ({noise})")  # type: ignore[attr-defined]
        return tuple(words)

    def statement(self, *, seeded: bool = False, caveats: tuple[str, ...] = ()) -> JointStatement:
        """What is promised of a run."""
        plan = self.calibrated.plan
        return JointStatement.of(
            self.event, self.guarantee, plan.adjacency, plan.n, self.parts,
            generator=GENERATOR, seeded=seeded, caveats=caveats, unit=plan.unit,
        )  # fmt: skip

    def run(
        self,
        parts: Sequence[Parts],
        n_rows: int,
        *,
        budget: Budget | None = None,
        random_state: Any = None,
        caveats: tuple[str, ...] = (),
        membership: Membership | None = None,
    ) -> ReleasedSums:
        """Reserve the cost, read the rows, release the sums; whoever keeps them settles the reservation.

        Parameters
        ----------
        parts : sequence of callables
            One per planned sum: what rows add to it, computed behind the trusted boundary.
        n_rows : int
            How many rows there are.
        budget : Budget, optional
            Reserve the cost there before a row is read.
        random_state : int, optional
            Makes the run repeatable, and the result not for release.
        caveats : tuple of str
            What else keeps the result from being released.
        membership : Membership, optional
            Whose the rows are, in the order of all parts: needed where the plan protects a unit.
        """
        plan = self.calibrated.plan
        check_releasable(budget, random_state)
        if plan.unit != (None if membership is None else membership.unit):
            raise InvalidParameterError("the plan protects another unit than the rows are grouped by.")
        check_count(n_rows if membership is None else membership.n, plan.n, plan.adjacency, plan.unit)
        if len(parts) != len(plan.planned):
            raise InvalidParameterError(f"there are {len(plan.planned)} sums and parts of {len(parts)}.")
        reservation = (
            None if budget is None else budget.reserve(self.event, plan.adjacency, plan.unit, self.guarantee.delta)
        )
        with nullcontext() if reservation is None else reservation.noted():
            randomness = Randomness.from_random_state(random_state)
            tally = Tally(self.calibrated, randomness)
            units = None if membership is None else membership.drawn(randomness.unit_key)
            answers = tuple(tally.release(item, part(), units) for item, part in zip(plan.planned, parts, strict=True))
            statement = self.statement(seeded=randomness.seeded, caveats=caveats)
        return ReleasedSums(answers, self.deviations, statement, self.event, reservation)


def plan_sums(sums: Sequence[Sum], guarantee: Guarantee, relative_noise: Sequence[float] | None = None) -> SumsRelease:
    """Find the noise with which these sums together keep a guarantee.

    Parameters
    ----------
    sums : sequence of mechanisms
        Over the same table, with Laplace noise where δ = 0 and Gaussian noise where it is not.
    guarantee : Guarantee
        What must hold.
    relative_noise : sequence of float, optional
        The noise of each over its sensitivity, relative to the others; the same for all by default.

    Examples
    --------
    >>> from dperm import Guarantee
    >>> from dperm.privacy.guarantee import Adjacency
    >>> from dperm.mechanisms.cell_counts import CellCounts
    >>> from dperm.mechanisms.setting import PublicTable
    >>> counts = CellCounts(PublicTable(1000, Adjacency.REPLACE_ONE), "rows by class", (2,))
    >>> print(plan_sums([counts], Guarantee(1.0, 1e-6)).parts[0])
    rows by class (Gaussian, σ = 5.97)
    """
    relative = [1.0] * len(sums) if relative_noise is None else list(relative_noise)
    plan = SumsPlan(tuple(Planned(query, relative_noise=noise) for query, noise in zip(sums, relative, strict=True)))
    return SumsRelease(guarantee, calibrate(plan, guarantee))
