"""The statement of a release that is not one fit: sums over rows, or several parts under one guarantee."""

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from dperm.accounting.composition import delta_of, epsilon_of
from dperm.accounting.events import Event
from dperm.printable import one_line
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.markup import box, guarantee_in_a_line, promise_in_words, rows_of
from dperm.privacy.statement import FROM_A_SEED
from dperm.privacy.unit import PrivacyUnit
from dperm.validation import count, finite


@dataclass(frozen=True)
class JointStatement:
    """What a privacy engineer signs for everything that was released together. Every number is public.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee, of all parts together.
    certified_epsilon, certified_delta : float
        What the accountant proves: ε at this δ, and δ at this ε.
    adjacency : str
        Which two tables cannot be told apart.
    n : int
        The public number of rows, or of units.
    parts : tuple of str
        What was released, a phrase each.
    seeded : bool
        Whether the noise can be computed again from a seed.
    caveats : tuple of str
        What keeps the result from being released.
    generator : str
        What drew the random numbers.
    unit : PrivacyUnit or None
        Whose rows are protected together; None where every row is protected by itself.
    """

    epsilon: float
    delta: float
    certified_epsilon: float
    certified_delta: float
    adjacency: str
    n: int
    parts: tuple[str, ...]
    seeded: bool
    caveats: tuple[str, ...]
    generator: str
    unit: PrivacyUnit | None = None

    @classmethod
    def of(
        cls,
        event: Event,
        guarantee: Guarantee,
        adjacency: Adjacency,
        n: int,
        parts: tuple[str, ...],
        *,
        generator: str,
        unit: PrivacyUnit | None = None,
    ) -> "JointStatement":
        """The statement of an event.

        Parameters
        ----------
        event : Event
            All that ran.
        guarantee : Guarantee
            What is promised of it.
        adjacency, n, parts, generator, unit
            As of the class.
        """
        return cls(
            guarantee.epsilon, guarantee.delta, epsilon_of(event, guarantee.delta, adjacency),
            delta_of(event, guarantee.epsilon, adjacency), adjacency.value, n, parts, False, (), generator, unit,
        )  # fmt: skip

    def of_run(self, *, seeded: bool = False, caveats: tuple[str, ...] = ()) -> "JointStatement":
        """The statement with what happened in a run; a seed is a caveat by itself."""
        return replace(self, seeded=seeded, caveats=(*self.caveats, *caveats, *((FROM_A_SEED,) if seeded else ())))

    @property
    def for_release(self) -> bool:
        """Whether the guarantee covers publishing it."""
        return not self.caveats

    def __str__(self) -> str:
        """A few lines for a person."""
        promise = guarantee_in_a_line(self.epsilon, self.delta, self.adjacency, self.unit)
        n, private = f"{self.n}", ""
        if self.unit is not None:
            n, private = self.unit.numbered(self.n), ", but not the number of rows"
        key = "from a seed" if self.seeded else "keyed by the operating system"
        release = "FOR RELEASE" if self.for_release else "NOT FOR RELEASE: " + "; ".join(self.caveats)
        lines = [f"promised:   {promise}"]
        lines += [f"{'released:' if not place else '':<12}{part}" for place, part in enumerate(self.parts)]
        lines += [
            f"accounted:  ε = {self.certified_epsilon:.6g} at δ = {self.delta:g}, for all of it together",
            f"public:     n = {n}, and every parameter{private}",
            f"randomness: {self.generator} {key}, exact to the last bit; {release}",
        ]
        return "\n".join(one_line(line) for line in lines)

    @property
    def promise_in_words(self) -> str:
        """The promise as a sentence for a person."""
        return promise_in_words(self.epsilon, self.delta, self.adjacency, self.unit)

    def _repr_html_(self) -> str:
        """For notebooks: the promise in plain words, and the lines of `str` below it."""
        title = "Private, for release" if self.for_release else f"Not for release: {'; '.join(self.caveats)}"
        return box(title, self.promise_in_words, rows_of(str(self))[1:], for_release=self.for_release)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the unit is left out where there is none, as in files from before there were any."""
        content = asdict(self) | {"parts": list(self.parts), "caveats": list(self.caveats)}
        if self.unit is None:
            del content["unit"]
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "JointStatement":
        """Read what `to_dict` wrote; raises ValueError, KeyError or TypeError if it is something else."""
        content = {"unit": None} | content
        if set(content) != {field.name for field in fields(cls)}:
            raise ValueError("a statement has other keys")
        unit = None if content["unit"] is None else PrivacyUnit.from_dict(content["unit"])
        Guarantee(content["epsilon"], content["delta"])
        Adjacency.parse(content["adjacency"])
        count("n", content["n"])
        for name in ("certified_epsilon", "certified_delta"):
            finite(name, content[name])
        for name in ("parts", "caveats"):
            if not isinstance(content[name], list) or not all(isinstance(text, str) for text in content[name]):
                raise TypeError(name)
        if not isinstance(content["seeded"], bool) or not isinstance(content["generator"], str):
            raise TypeError("seeded, generator")
        if math.isnan(content["certified_epsilon"]):
            raise ValueError("certified_epsilon")
        lists = {"parts": tuple(content["parts"]), "caveats": tuple(content["caveats"])}
        return cls(**content | lists | {"unit": unit})
