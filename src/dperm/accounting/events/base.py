"""What an accounting event is: what ran, with its privacy curve and all that composing it with others needs."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dperm.accounting.curve import ROUNDING, ConcentratedCurve, Curve
from dperm.accounting.privacy_loss import LossDistribution, discretised
from dperm.validation import count as whole
from dperm.validation import finite, nonnegative, positive, size, truth

if TYPE_CHECKING:
    from dperm.accounting.curve import Array
    from dperm.privacy.guarantee import Adjacency

# Single events with how often each of them occurred.
Parts = Sequence[tuple["SingleEvent", int]]


def _share(name: str, value: object) -> float:
    if not 0.0 < finite(name, value) <= 1.0:
        raise ValueError(name)
    return finite(name, value)


# What a field of this name may be, whichever event has it.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "noise_multiplier": size,
    **dict.fromkeys(("epsilon", "rho"), positive),
    **dict.fromkeys(("log_jacobian", "remainder"), nonnegative),
    **dict.fromkeys(("rank", "n_outputs", "n_classes"), whole),
    **dict.fromkeys(("monotone", "sigmoidal"), truth),
    **dict.fromkeys(("sampling_probability", "slope_share"), _share),
}


class Event(ABC):
    """What ran: a single event or a composition. `to_dp_event` is the way to any other accountant."""

    @abstractmethod
    def leaves(self, count: int = 1) -> "Iterator[tuple[SingleEvent, int]]":
        """The single events with their counts, compositions flattened."""

    def releases(self) -> "tuple[Event, ...]":
        """The top-level parts. A composition of one is that one, so a fit costs in a ledger what it costs alone."""
        return (self,)

    @abstractmethod
    def without(self, unwanted: "Callable[[SingleEvent], bool]") -> "Event":
        """The same composition without some of its single events."""

    def to_dp_event(self) -> Any:
        """The same as an event of the package dp-accounting, for its accountants and others that read its events.

        Noise multipliers are relative to one record's contribution, as that package wants them. Its PLD accountant
        applies the neighbouring relation itself; its Rényi accountant (0.6) leaves out the factor 2 of replace_one.
        Where that package has no such mechanism it is an `UnsupportedDpEvent`, and its accountants say so.
        """
        from dp_accounting import UnsupportedDpEvent

        return UnsupportedDpEvent()


class SingleEvent(Event):
    """One mechanism: a frozen dataclass in a file of its own, which says all that its privacy cost depends on.

    A subclass needs a `name`, `curve`, `scale`, and `from_numbers` where its fields are not those that
    others have. The rest is for what is known beyond: a ρ, a pure ε, Rényi divergences, a closed form for several
    together, a finer grid, an event of dp-accounting.
    """

    # How plain data name it.
    name: ClassVar[str]

    # Whether it answers from a sample of the rows.
    is_sampled: ClassVar[bool] = False

    # Whether nothing but its ρ is known, so that turning it into a curve loses something.
    only_concentrated: ClassVar[bool] = False

    # Whether those of one release are one block: their curve is known if they follow each other, beside others or not.
    in_blocks: ClassVar[bool] = False

    # Whether `renyi` gives divergences, so that it checks the curve.
    has_renyi_bound: ClassVar[bool] = False

    def leaves(self, count: int = 1) -> "Iterator[tuple[SingleEvent, int]]":
        """Itself."""
        yield self, count

    def without(self, unwanted: "Callable[[SingleEvent], bool]") -> Event:
        """Itself, or nothing."""
        from dperm.accounting.events.composed import Composed

        return Composed(()) if unwanted(self) else self

    # Plain data

    def numbers(self) -> dict[str, Any]:
        """What it consists of, ready for JSON."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def from_numbers(cls, **numbers: Any) -> Self:
        """Read what `numbers` gave; anything degenerate, missing or superfluous raises ValueError or TypeError."""
        if set(numbers) != {field.name for field in fields(cls)}:  # type: ignore[arg-type]
            raise ValueError(cls.name)
        return cls(**{name: _CHECKS[name](name, value) for name, value in numbers.items()})

    # One alone

    @abstractmethod
    def curve(self, adjacency: "Adjacency") -> Curve:
        """δ(ε) of one, whatever ran before it."""

    @property
    def pure_epsilon(self) -> float | None:
        """The largest privacy loss there is, or None if there is none."""
        return None

    def zcdp_rho(self, adjacency: "Adjacency") -> float | None:
        """ρ of zero-concentrated differential privacy, or None if it is not known."""
        return None

    def renyi(self, orders: "Array", count: int, adjacency: "Adjacency") -> "Array":
        """Rényi divergences of this many answers at these orders, by code that shares nothing with `curve`."""
        raise NotImplementedError(f"{type(self).__name__} has no Rényi bound")

    # Many together

    @abstractmethod
    def scale(self, adjacency: "Adjacency") -> float:
        """About the standard deviation of the privacy loss."""

    def loss(self, adjacency: "Adjacency", width: float) -> LossDistribution:
        """The privacy loss of one on a grid of this width: an upper bound, and it adds up under composition."""
        return discretised(self.curve(adjacency), self.scale(adjacency), width)

    def losses(self, count: int, adjacency: "Adjacency", width: float) -> list[tuple[LossDistribution, int]]:
        """The losses that this many of it add up to, with how often each is added."""
        return [(self.loss(adjacency, width), count)]

    def loss_range(self, adjacency: "Adjacency") -> float:
        """About how wide the privacy loss is."""
        scale = self.scale(adjacency)
        return 10.0 * scale + 0.5 * scale**2

    def grid_width(self, count: int, adjacency: "Adjacency", points: int) -> float | None:
        """The width of the grid that this many of it need, or None if a share of the whole variance will do."""
        return None

    @property
    def drawn_bare(self) -> float:
        """The probability that it shows a record with hardly any noise, which is too wide for a grid; mostly 0."""
        return 0.0

    @classmethod
    def merged(cls, parts: Parts) -> Parts:
        """Several of this class as fewer events that are worth exactly the same: equal ones are counted together."""
        return counted(parts)

    @classmethod
    def composed(cls, parts: Parts, adjacency: "Adjacency") -> Curve | None:
        """The curve of all these together without a grid, or None if this class does not know it.

        Parameters
        ----------
        parts : sequence of (SingleEvent, int)
            What ran; some of it is of this class.
        adjacency : Adjacency
            The neighbouring relation.
        """
        if not all(isinstance(leaf, cls) for leaf, _ in parts):
            return None
        if len(parts) == 1 and parts[0][1] == 1:
            return parts[0][0].curve(adjacency)
        return concentrated_curve(parts, adjacency)

    @classmethod
    def grid_is_tighter(cls, parts: Parts, n_releases: int) -> bool:
        """Whether composing on a grid gives less than `composed` does."""
        return False


def counted(parts: Parts) -> Parts:
    """The single events, equal ones counted together."""
    counts = Counter[SingleEvent]()
    for leaf, count in parts:
        counts[leaf] += count
    return list(counts.items())


def concentrated_curve(parts: Parts, adjacency: "Adjacency") -> ConcentratedCurve | None:
    """The curve of Σρ-zCDP, if ρ is known for all."""
    rhos = [(leaf.zcdp_rho(adjacency), count) for leaf, count in counted(parts)]
    known = [count * rho for rho, count in rhos if rho is not None]
    return ConcentratedCurve(sum(known) * (1.0 + ROUNDING)) if len(known) == len(rhos) else None
