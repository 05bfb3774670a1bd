"""Sums over rows under one guarantee: planned from public numbers, then released."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.calibration import calibrate
from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.kernel.noise import GENERATOR
from dperm.kernel.tally import Tally
from dperm.kernel.units import Membership
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.plan import Planned
from dperm.mechanisms.second_moment import SecondMoment
from dperm.mechanisms.sums_plan import CalibratedSums, SumsPlan
from dperm.plan.transaction import Transaction
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.joint_statement import JointStatement
from dperm.privacy.unit import PrivacyUnit

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
    """

    answers: tuple[Array, ...]
    deviations: tuple[float, ...]
    statement: JointStatement
    event: Event


@dataclass(frozen=True)
class SumsRelease:
    """Sums that are planned and calibrated, with no row read yet.

    Attributes
    ----------
    guarantee : Guarantee
        What all of them together keep.
    calibrated : CalibratedSums
        The sums and their noise.
    unit : PrivacyUnit or None
        Whose rows are protected together; None where every row is protected by itself.
    """

    guarantee: Guarantee
    calibrated: CalibratedSums
    unit: PrivacyUnit | None

    @property
    def n(self) -> int:
        """The public number of rows, or of units."""
        return self.calibrated.plan.n

    @property
    def charge(self) -> tuple[Event, Adjacency, PrivacyUnit | None, float]:
        """What a budget needs to know of it: event, adjacency, unit, δ."""
        return self.event, self.calibrated.plan.adjacency, self.unit, self.guarantee.delta

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
            generator=GENERATOR, seeded=seeded, caveats=caveats, unit=self.unit,
        )  # fmt: skip

    def answer(
        self,
        transaction: Transaction,
        parts: Sequence[Parts],
        membership: Membership | None = None,
        caveats: tuple[str, ...] = (),
    ) -> ReleasedSums:
        """Read the rows, whose cost is reserved; whoever keeps the sums writes them.

        Parameters
        ----------
        transaction : Transaction
            The one of this plan.
        parts : sequence of callables
            One per planned sum: what rows add to it, computed behind the trusted boundary.
        membership : Membership, optional
            Whose the rows are, in the order of all parts: needed where the plan protects a unit.
        caveats : tuple of str
            What else keeps the result from being released.
        """
        planned, randomness = self.calibrated.plan.planned, transaction.randomness
        if len(parts) != len(planned):
            raise InvalidParameterError(f"there are {len(planned)} sums and parts of {len(parts)}.")
        tally = Tally(self.calibrated, randomness)
        units = None if membership is None else membership.drawn(randomness.unit_key)
        answers = tuple(tally.release(item, part(), units) for item, part in zip(planned, parts, strict=True))
        statement = self.statement(seeded=randomness.seeded, caveats=(*caveats, *transaction.caveats))
        return ReleasedSums(answers, self.deviations, statement, self.event)


def plan_sums(
    sums: Sequence[Sum],
    guarantee: Guarantee,
    relative_noise: Sequence[float] | None = None,
    unit: PrivacyUnit | None = None,
) -> SumsRelease:
    """Find the noise with which these sums together keep a guarantee.

    Parameters
    ----------
    sums : sequence of mechanisms
        Over the same table, with Laplace noise where δ = 0 and Gaussian noise where it is not.
    guarantee : Guarantee
        What must hold.
    relative_noise : sequence of float, optional
        The noise of each over its sensitivity, relative to the others; the same for all by default.
    unit : PrivacyUnit, optional
        Where every line of the table that is summed is a unit: what it is. By default the table's own unit.

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
    return SumsRelease(guarantee, calibrate(plan, guarantee), plan.unit if unit is None else unit)
