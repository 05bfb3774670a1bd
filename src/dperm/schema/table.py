"""The public facts about a table: what its columns can hold, whatever it does hold."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dperm.errors import InvalidParameterError
from dperm.privacy.unit import PrivacyUnit
from dperm.schema.checks import Range, as_text, check_name, sequence, spellings, texts
from dperm.schema.columns import Column
from dperm.schema.crosses import COLUMNS, CROSS_ENTRY, MOST_CROSSES, Cross, draw_crosses
from dperm.schema.number import ENCODINGS, Number
from dperm.validation import count, finite, one_of, positive

# What may stand between the fields of a CSV file.
SEPARATORS = (",", ";", "\t", "|")


@dataclass(frozen=True)
class Classes:
    """The target of a classifier: a column and its public classes.

    Parameters
    ----------
    column : str
        Its name.
    classes : sequence
        The classes. A list among them is one class with several spellings, named after the first. Rows with any other
        label are dropped.
    """

    column: str
    classes: tuple[tuple[Any, ...], ...]

    def __post_init__(self) -> None:
        """At least two classes, every spelling once."""
        object.__setattr__(self, "classes", spellings("classes", self.classes, at_least=2))

    @property
    def labels(self) -> tuple[Any, ...]:
        """The classes by their first spelling."""
        return tuple(spellings[0] for spellings in self.classes)

    @property
    def positions(self) -> dict[str, int]:
        """Index of every spelling."""
        return {text: place for place, texts in enumerate(self.classes) for text in map(as_text, texts)}


@dataclass(frozen=True)
class Amount:
    """The target of a regression: a column and its range, which becomes [−1, 1]; numbers outside are clipped.

    Parameters
    ----------
    column : str
        Its name.
    range : (float, float) or "private"
        As for a `Number`.
    within : (float, float), optional
        As for a `Number`.
    released : bool
        As for a `Number`.
    transform : {"log", "log1p"}, optional
        As for a `Number`: the model is fitted to the logarithm, and its predictions are taken back by the exponential
        function. They then estimate the median of the target, not the mean.
    """

    column: str
    range: Range | str
    within: Range | None = None
    released: bool = False
    transform: str | None = None

    def __post_init__(self) -> None:
        """The same rules as for a column."""
        object.__setattr__(self, "range", self.number.range)

    @property
    def number(self) -> Number:
        """The target as a column; a row without a target is ignored."""
        return Number(self.range, self.within, missing="row", released=self.released, transform=self.transform)


Target = Classes | Amount


@dataclass(frozen=True)
class Schema:
    """The public facts about a table.

    Parameters
    ----------
    columns : mapping of str to Number, Bins or Category
        The features, in the order of an encoded row; other columns of the table are not used.
    target : Classes or Amount
        What is to be predicted.
    n : int, optional
        The public number of rows, or of units if there is one; by default that of the table.
    unit : PrivacyUnit, optional
        The column that identifies the privacy unit, if all rows of a person, a day or a device are protected together.
    missing : sequence
        Texts and numbers that mean "missing"; an empty field always does.
    header : sequence of str, optional
        Column names of a CSV file without a header line.
    separator : str
        Field separator of a CSV file: one character.
    row_norm : float, optional
        Clip encoded rows to this l2 norm, if it is less than the exact bound √(number of columns).
    range_share : float
        The share of ε that all private ranges alone would spend; together with the fit they spend less than the sum.
    encode : {"auto", "linear", "bins"}
        How numbers are encoded, unless a column says otherwise; "auto" decides when a fit is planned.
    interactions : int
        How many crosses of three columns, drawn by a public hash of their names, to add to every row.
    derived_from_data : bool
        Whether the numbers were read from a table and are not yet confirmed to be public; `fit` refuses such a schema.

    Examples
    --------
    >>> from dperm import Category, Classes, Number, Schema
    >>> schema = Schema({"age": Number((17, 90)), "sex": Category(["Female", "Male"])}, Classes("income", [0, 1]))
    >>> schema.n_features, round(schema.largest_norm, 3)
    (3, 1.414)
    """

    columns: Mapping[str, Column]
    target: Target
    n: int | None = None
    missing: tuple[str, ...] = ()
    header: tuple[str, ...] | None = None
    separator: str = ","
    row_norm: float | None = None
    range_share: float = 0.25
    encode: str = "auto"
    interactions: int = 0
    derived_from_data: bool = False
    unit: PrivacyUnit | None = None

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise InvalidParameterError("a schema needs at least one column.")
        object.__setattr__(self, "columns", dict(self.columns))
        for name, column in self.columns.items():
            check_name(name)
            if not isinstance(column, Column):
                raise InvalidParameterError(f"column {name!r} must be a Number, Bins or Category, got {column!r}.")
        if not isinstance(self.target, Target):
            raise InvalidParameterError(f"the target must be Classes or an Amount, got {self.target!r}.")
        check_name(self.target.column)
        if self.target.column in self.columns:
            raise InvalidParameterError(f"the target {self.target.column!r} cannot also be a feature.")
        if self.unit is not None:
            self._check_unit(self.unit)
        if self.n is not None:
            count("n", self.n)
        object.__setattr__(self, "missing", tuple(map(as_text, sequence("missing", self.missing))))
        if self.header is not None:
            object.__setattr__(self, "header", texts("header", self.header))
            self._check_header()
        one_of("separator", self.separator, SEPARATORS)
        if self.row_norm is not None:
            positive("row_norm", self.row_norm)
        if not 0.0 < finite("range_share", self.range_share) <= 0.9:
            raise InvalidParameterError(f"range_share must lie in (0, 0.9], got {self.range_share!r}.")
        one_of("encode", self.encode, ENCODINGS)
        self._check_interactions()
        if not isinstance(self.derived_from_data, bool):
            raise InvalidParameterError("derived_from_data must be true or false.")

    def _check_unit(self, unit: PrivacyUnit) -> None:
        if not isinstance(unit, PrivacyUnit):
            raise InvalidParameterError(f"unit must be a dperm PrivacyUnit, got {unit!r}.")
        check_name(unit.name)
        if unit.name in self.columns or unit.name == self.target.column:
            raise InvalidParameterError(
                f"the unit {unit.name!r} is the privacy unit and cannot also be a feature or the target."
            )

    def _check_interactions(self) -> None:
        if self.interactions == 0 and not isinstance(self.interactions, bool):
            return
        k = len(self.columns)
        most = min(MOST_CROSSES, math.comb(k, min(COLUMNS, k)) if k > 1 else 0)
        if count("interactions", self.interactions) > most:
            raise InvalidParameterError(f"{k} columns can have at most {most} interactions, got {self.interactions}.")

    def __hash__(self) -> int:
        """Schemas are compared by value; the columns' names are enough to tell most apart."""
        return hash((tuple(self.columns), self.target.column, self.n))

    def _check_header(self) -> None:
        assert self.header is not None
        if len(set(self.header)) != len(self.header):
            raise InvalidParameterError("header names a column twice.")
        unit = () if self.unit is None else (self.unit.name,)
        absent = [name for name in (*self.columns, self.target.column, *unit) if name not in self.header]
        if absent:
            raise InvalidParameterError(f"header does not name the column {absent[0]!r}.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of an encoded row: those of every column, then those of the interactions."""
        own = tuple(name for key, column in self.columns.items() for name in column.column_names(key))
        return (*own, *(name for cross in self.crosses for name in cross.column_names()))

    @property
    def crosses(self) -> tuple[Cross, ...]:
        """The interactions."""
        return draw_crosses(self.columns, self.interactions)

    @property
    def n_features(self) -> int:
        """Number of columns of an encoded row."""
        return len(self.feature_names)

    @property
    def largest_norm(self) -> float:
        """√(number of columns): the norm of the longest row that a table can give, exactly; more with interactions."""
        return math.sqrt(len(self.columns) + self.interactions * CROSS_ENTRY**2)

    @property
    def bound(self) -> float:
        """The norm that rows are clipped to."""
        return self.largest_norm if self.row_norm is None else min(self.row_norm, self.largest_norm)

    @property
    def private_ranges(self) -> dict[str, Number]:
        """The columns whose range a fit must find, the target's among them."""
        found = {name: column for name, column in self.numbers.items() if column.private}
        if isinstance(self.target, Amount) and self.target.number.private:
            found[self.target.column] = self.target.number
        return found

    @property
    def decided(self) -> bool:
        """Whether a fit has nothing to find or to decide before it can encode a row."""
        encoded = all(column.encode == "linear" or column.binned for column in self.numbers.values())
        return encoded and not self.private_ranges and not self.private_edges

    @property
    def private_edges(self) -> tuple[str, ...]:
        """The columns whose bins a fit must find."""
        return tuple(name for name, column in self.numbers.items() if column.private_edges)

    @property
    def released_edges(self) -> tuple[str, ...]:
        """The columns whose bins came out of a fit."""
        return tuple(name for name, column in self.numbers.items() if column.edges is not None)

    @property
    def numbers(self) -> dict[str, Number]:
        """The numeric columns with a range."""
        return {name: column for name, column in self.columns.items() if isinstance(column, Number)}

    @property
    def released_ranges(self) -> tuple[str, ...]:
        """The columns whose range came out of a fit, the target's among them."""
        columns = {**self.columns, self.target.column: self.target}
        return tuple(name for name, column in columns.items() if getattr(column, "released", False))

    def with_ranges(self, ranges: Mapping[str, Range]) -> "Schema":
        """The schema with ranges that were released."""
        found = {
            name: replace(column, range=ranges[name], within=None, released=True)
            for name, column in self.numbers.items()
            if name in ranges
        }
        target = self.target
        if isinstance(target, Amount) and target.column in ranges:
            target = replace(target, range=ranges[target.column], within=None, released=True)
        return replace(self, columns={**self.columns, **found}, target=target)

    def with_edges(self, edges: Mapping[str, tuple[float, ...]]) -> "Schema":
        """The schema with bins that were released."""
        found = {name: replace(self.numbers[name], edges=cuts) for name, cuts in edges.items()}
        return replace(self, columns={**self.columns, **found})
