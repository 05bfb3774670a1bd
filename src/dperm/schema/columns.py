"""The kinds of columns. Each becomes one block of a row, of norm at most 1 whatever the column holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dperm.errors import InvalidParameterError
from dperm.schema.checks import as_text, sequence, spellings
from dperm.schema.number import Number
from dperm.validation import finite, one_of


@dataclass(frozen=True)
class Bins:
    """A numeric column cut at public edges: a 1 in the column of the bin that the number is in.

    Parameters
    ----------
    edges : sequence of float
        Increasing; a bin contains its lower edge. The first and the last bin are open.
    missing : "none", "column", "row", or a number
        What a missing value becomes: a row of zeros in this block, a bin of its own, nothing, or this number.

    Examples
    --------
    >>> Bins((1, 5000)).column_names("gain")
    ('gain < 1', '1 ≤ gain < 5000', 'gain ≥ 5000')
    """

    edges: tuple[float, ...]
    missing: float | str = "none"

    def __post_init__(self) -> None:
        """The edges must rise."""
        edges = tuple(finite("bins", edge) for edge in sequence("bins", self.edges))
        if not edges or any(low >= high for low, high in pairwise(edges)):
            raise InvalidParameterError("bins must be increasing numbers, at least one.")
        object.__setattr__(self, "edges", edges)
        if isinstance(self.missing, str):
            one_of("missing", self.missing, ("none", "column", "row"))
        else:
            object.__setattr__(self, "missing", finite("missing", self.missing))

    def column_names(self, name: str) -> tuple[str, ...]:
        """Names of the columns in an encoded row."""
        inner = (f"{low:g} ≤ {name} < {high:g}" for low, high in pairwise(self.edges))
        names = (f"{name} < {self.edges[0]:g}", *inner, f"{name} ≥ {self.edges[-1]:g}")
        return (*names, f"{name}: missing") if self.missing == "column" else names


@dataclass(frozen=True)
class Category:
    """A column of categories: a 1 in the column of the one that it holds.

    Parameters
    ----------
    values : sequence
        The public categories. A list among them is one category with several spellings, named after the first.
    missing : "none", "column", "row", or {"value": category}
        What a missing value becomes: zeros in this block, a separate column, nothing (the whole row is dropped in a
        fit), or a category.
    unseen : "missing", "none", "column", "row", or {"value": category}
        What a value that is not declared becomes: the same as a missing one, or as above.

    Examples
    --------
    >>> Category(("yes", ["no", "No"]), unseen="column").column_names("smokes")
    ('smokes = yes', 'smokes = no', 'smokes: other')
    """

    values: tuple[tuple[Any, ...], ...]
    missing: Any = "none"
    unseen: Any = "missing"

    def __post_init__(self) -> None:
        """Every spelling must be declared once."""
        object.__setattr__(self, "values", spellings("values", self.values, at_least=1))
        self._check("missing", ("none", "column", "row"))
        self._check("unseen", ("missing", "none", "column", "row"))

    def _check(self, key: str, words: tuple[str, ...]) -> None:
        policy = getattr(self, key)
        if not isinstance(policy, Mapping):
            one_of(key, policy, words)
        elif set(policy) != {"value"} or as_text(policy["value"]) not in self.positions:
            raise InvalidParameterError(f"{key} = {{value = …}} must name one of the declared values.")

    @property
    def positions(self) -> dict[str, int]:
        """Index of every spelling."""
        return {text: place for place, texts in enumerate(self.values) for text in map(as_text, texts)}

    def column_names(self, name: str) -> tuple[str, ...]:
        """Names of the columns in an encoded row."""
        names = tuple(f"{name} = {as_text(spellings[0])}" for spellings in self.values)
        for policy, what in ((self.missing, "missing"), (self.unseen, "other")):
            if policy == "column":
                names = (*names, f"{name}: {what}")
        return names

    def place_of(self, kind: str) -> int | None:
        """Where a "missing" or an "unseen" value goes: a place in the block, None for nowhere, −1 to drop the row."""
        policy = self.unseen if kind == "unseen" and self.unseen != "missing" else self.missing
        if isinstance(policy, Mapping):
            return self.positions[as_text(policy["value"])]
        if policy == "column":
            is_other = kind == "unseen" and self.unseen == "column"
            return len(self.values) + (1 if is_other and self.missing == "column" else 0)
        return -1 if policy == "row" else None


Column = Number | Bins | Category
