"""A plan: everything a solver will ask, fixed and accounted for before the first row is read."""

import math
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from dperm.accounting.events import Composed, Event, NotPrivate, Repeated
from dperm.errors import InvalidParameterError
from dperm.mechanisms import HistogramQuery, Query, RangeQuery
from dperm.mechanisms.base import Mechanism
from dperm.privacy.guarantee import Adjacency
from dperm.validation import count, positive

# A solver's own frozen dataclass of what it decided.
SettingsT = TypeVar("SettingsT", covariant=True)

# A matter of running time: a step takes a microsecond at the least.
_MOST_STEPS = 100_000_000


def check_steps(n_steps: float) -> None:
    """Refuse a run that would not end; solvers ask before they build a plan of such a size."""
    if n_steps > _MOST_STEPS:
        raise InvalidParameterError(
            f"the plan has more than {_MOST_STEPS:,} steps; use fewer epochs, fewer steps or a larger step_size."
        )


@dataclass(frozen=True)
class Planned:
    """A mechanism, how often it may be asked, and its noise relative to the plan's noise multiplier.

    With `fixed` the noise is settled before the plan is calibrated: `relative_noise` is the multiplier itself, and the
    mechanism is asked once.
    """

    query: Mechanism
    count: int = 1
    relative_noise: float = 1.0
    fixed: bool = False

    def __post_init__(self) -> None:
        """Degenerate numbers never mean "no noise"."""
        count("count", self.count)
        positive("relative_noise", self.relative_noise)
        if self.fixed and self.count != 1:
            raise InvalidParameterError("a query with fixed noise is asked once.")

    def multiplier(self, noise_multiplier: float) -> float:
        """The scale of the query's noise over its sensitivity in a plan of this noise multiplier."""
        return self.relative_noise if self.fixed else noise_multiplier * self.relative_noise

    def event(self, noise_multiplier: float) -> Event:
        """The privacy cost of all answers."""
        one = self.query.event(self.multiplier(noise_multiplier))
        return one if self.fixed else Repeated(one, self.count)


@dataclass(frozen=True)
class PlannedQuery(Planned):
    """A query that a solver will ask."""

    query: Query


def plan_of_sums(planned: tuple[Planned, ...]) -> "Plan[None]":
    """The plan of sums over the rows of one table, which no solver asks for."""
    return Plan("sums over rows", cast("tuple[PlannedQuery, ...]", planned), None)


@dataclass(frozen=True)
class Plan(Generic[SettingsT]):
    """The queries of one run and what the solver decided from public numbers; or sums over rows, which none asks.

    Parameters
    ----------
    mechanism : str
        One phrase for the privacy statement.
    planned : tuple of PlannedQuery
        All that the oracle will answer; anything else it refuses.
    settings : frozen dataclass
        The solver's own choices (steps, step size, …), all public; of a class of its own for every solver.
    ranges : tuple of PlannedQuery
        Private ranges, then private bins: released before the solver runs, with noise that is fixed in advance.
    afterwards : tuple of PlannedQuery
        What intervals need: released after the solver has run, with noise that is fixed in advance.
    """

    mechanism: str
    planned: tuple[PlannedQuery, ...]
    settings: SettingsT
    ranges: tuple[PlannedQuery, ...] = ()
    afterwards: tuple[PlannedQuery, ...] = ()

    def __post_init__(self) -> None:
        """An empty plan, one with mixed adjacency, or one that would not end, is a mistake."""
        if not self.planned:
            raise InvalidParameterError("a plan needs at least one query.")
        if len({item.query.setting for item in self.everything}) != 1:
            raise InvalidParameterError("all queries of a plan must share one setting.")
        check_steps(self.n_steps)

    @property
    def everything(self) -> tuple[PlannedQuery, ...]:
        """All that is asked, in its order."""
        return (*self.ranges, *self.planned, *self.afterwards)

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency of all queries."""
        return self.planned[0].query.setting.adjacency

    @property
    def n(self) -> int:
        """The public number of rows."""
        return self.planned[0].query.setting.n

    @property
    def private_ranges(self) -> tuple[str, ...]:
        """The columns whose ranges are released."""
        return tuple(item.query.column for item in self.ranges if isinstance(item.query, RangeQuery))

    @property
    def private_edges(self) -> tuple[str, ...]:
        """The columns whose bins are released."""
        return tuple(
            name for item in self.ranges if isinstance(item.query, HistogramQuery) for name in item.query.columns
        )

    @property
    def n_steps(self) -> int:
        """Number of noisy answers that are computed."""
        return sum(item.count * item.query.n_steps for item in (*self.planned, *self.afterwards))

    @property
    def passes(self) -> float:
        """Expected per-row gradients over n: how often the rows are read for one."""
        return sum(item.count * item.query.gradients_per_row for item in (*self.planned, *self.afterwards))

    def event(self, noise_multiplier: float) -> Event:
        """The accounting event of the whole run."""
        return Composed(tuple(item.event(noise_multiplier) for item in self.everything))

    def with_noise(self, noise_multiplier: float | None) -> "CalibratedPlan":
        """The plan with this noise."""
        return CalibratedPlan(self, noise_multiplier)


@dataclass(frozen=True)
class CalibratedPlan:
    """A plan and the noise of its answers. `noise_multiplier` None is the explicit way to run without noise or privacy.

    With `constant` full gradients have the noise for their largest sensitivity wherever they are asked for, as
    published formulas have it.
    """

    plan: Plan[Any]
    noise_multiplier: float | None
    constant: bool = False

    def __post_init__(self) -> None:
        """Zero or NaN is never a way to say "no noise"."""
        if self.noise_multiplier is not None:
            positive("noise multiplier", self.noise_multiplier)

    def event(self) -> Event:
        """The accounting event of what runs."""
        if self.noise_multiplier is None:
            return NotPrivate()
        return self.plan.event(self.noise_multiplier)

    def sigma(self, item: Planned, sensitivity: float | None = None) -> float:
        """Scale of a planned query's noise (a Gaussian's is its σ): at this sensitivity, or at its largest."""
        if self.noise_multiplier is None:
            return 0.0
        moved = item.query.sensitivity if sensitivity is None else sensitivity
        sigma = item.multiplier(self.noise_multiplier) * moved
        if not (sigma > 0.0 and math.isfinite(sigma)):
            raise InvalidParameterError(
                "the noise of a query is not a positive finite number; the bounds are degenerate."
            )
        return sigma

    @property
    def deviations(self) -> tuple[float, ...]:
        """The standard deviation of the noise on one number of every planned answer."""
        return tuple(map(self.deviation, self.plan.planned))

    def deviation(self, item: Planned) -> float:
        """The standard deviation of the noise on one number of an answer."""
        return self.sigma(item) * (math.sqrt(2.0) if item.query.distribution == "Laplace" else 1.0)
