"""Sums over rows under one guarantee: planned from public numbers, then released."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.calibration import calibrate
from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.kernel.oracle import Oracle
from dperm.kernel.units import Membership
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.plan import Planned, plan_of_sums
from dperm.mechanisms.second_moment import SecondMoment
from dperm.plan.release_plan import Promise, ReleasePlan
from dperm.plan.transaction import Transaction
from dperm.privacy.caveats import Caveat
from dperm.privacy.guarantee import Guarantee
from dperm.privacy.statement import PrivacyStatement
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
    statement : PrivacyStatement
        What is promised.
    event : Event
        The accounting event.
    """

    answers: tuple[Array, ...]
    deviations: tuple[float, ...]
    statement: PrivacyStatement
    event: Event


class SumsPlan(ReleasePlan):
    """Sums over the rows of one table; the only part has them and their noise."""

    @property
    def released(self) -> tuple[str, ...]:
        """What is released, in words."""
        words = []
        for item in self.calibrated.plan.planned:
            query: Any = item.query  # one of `Sum`
            scale = "σ =" if query.distribution == "Gaussian" else "scale"
            words.append(f"{query.what} ({query.distribution}, {scale} {self.calibrated.sigma(item):.3g})")
        return tuple(words)

    def answer(
        self,
        transaction: Transaction,
        parts: Sequence[Parts],
        membership: Membership | None = None,
        caveats: tuple[Caveat, ...] = (),
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
        caveats : tuple of Caveat
            What else keeps the result from being released.
        """
        planned, randomness = self.calibrated.plan.planned, transaction.randomness
        if len(parts) != len(planned):
            raise InvalidParameterError(f"there are {len(planned)} sums and parts of {len(parts)}.")
        oracle = Oracle.of_sums(self.calibrated, randomness)
        units = None if membership is None else membership.drawn(randomness.unit_key)
        answers = tuple(oracle.add_up(item, part(), units) for item, part in zip(planned, parts, strict=True))
        statement = self.statement.of_run(seeded=randomness.seeded, caveats=(*caveats, *transaction.caveats))
        return ReleasedSums(answers, self.calibrated.deviations, statement, self.event)


def plan_sums(
    sums: Sequence[Sum],
    guarantee: Guarantee,
    relative_noise: Sequence[float] | None = None,
    unit: PrivacyUnit | None = None,
) -> SumsPlan:
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
    >>> print(plan_sums([counts], Guarantee(1.0, 1e-6)).released[0])
    rows by class (Gaussian, σ = 5.97)
    """
    relative = [1.0] * len(sums) if relative_noise is None else list(relative_noise)
    pairs = zip(sums, relative, strict=True)
    plan = plan_of_sums(tuple(Planned(query, relative_noise=noise) for query, noise in pairs))
    table = sums[0].setting
    promise = Promise(guarantee, table.adjacency, table.n, table.unit if unit is None else unit)
    return SumsPlan(promise, (calibrate(plan, guarantee),))
