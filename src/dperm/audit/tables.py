"""Adversarial neighbours from what a problem declares: rows at their bounds and beyond, in a table of synthetic rows.

Where rows are protected by unit, neighbours differ in all rows of one unit.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.privacy.guarantee import Adjacency
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.problem.losses import FunctionLoss, Loss

Array = NDArray[np.float64]

# How far beyond its bound a row lies that has to be clipped.
_BEYOND = 1e6
# Rows of a unit that may have any number of them, and the most that are generated for one that may have very many.
_SEVERAL, _MOST_ROWS = 5, 1000


@dataclass(frozen=True, eq=False)
class Canary:
    """What an attacker would put in: one row, or all rows of one unit.

    Attributes
    ----------
    name : str
        For a message.
    X, y : array
        Its rows and their targets.
    has_id : bool
        Whether its rows say whose they are.
    """

    name: str
    X: Array
    y: Array
    has_id: bool = True

    def times(self, count: int, name: str = "") -> "Canary":
        """The same rows this many times over."""
        return Canary(name or f"{count} rows: {self.name}", np.tile(self.X, (count, 1)), np.tile(self.y, count))


@dataclass(frozen=True, eq=False)
class Table:
    """A synthetic table; with the unit of every row, masked where it says none, if rows are protected by unit."""

    X: Array
    y: Array
    groups: Any = None


def targets_of(problem: Problem) -> tuple[float, float]:
    """The two targets that are furthest apart."""
    loss = problem.loss
    if loss.n_outputs > 1:
        return 0.0, float(loss.n_outputs - 1)
    if isinstance(loss, FunctionLoss) and loss.n_classes:
        return 0.0, float(loss.n_classes - 1)
    return loss.target_range if isinstance(loss, Loss) else loss.clipped_range or (-1.0, 1.0)


def longest(problem: Problem, direction: Array) -> Array:
    """The longest row in a direction that obeys the bounds on its norm and its entries."""
    unit = direction / np.linalg.norm(direction)
    size = min(problem.row_norm, problem.largest_entry / float(np.abs(unit).max()))
    return np.asarray(size * unit)


def canaries(problem: Problem, n_features: int, unit: PrivacyUnit | None) -> list[Canary]:
    """What neighbours differ in: hostile rows, or units of them where rows are protected by unit."""
    rows = hostile_rows(problem, n_features)
    return rows if unit is None else _hostile_units(problem, n_features, unit, rows)


def hostile_rows(problem: Problem, n_features: int) -> list[Canary]:
    """Rows at the declared bounds, far beyond them, without features, and one that is ignored."""
    low, high = targets_of(problem)
    first, even = np.eye(1, n_features)[0], np.ones(n_features)
    generic = np.random.default_rng(0).normal(size=n_features)
    rows = []
    for name, direction in (("one entry", first), ("all entries", even), ("generic", generic)):
        x = longest(problem, direction)
        for sign in (1.0, -1.0):
            for target in (low, high):
                rows.append(_row(f"{name}, {'+' if sign > 0 else '−'}, target {target:g}", sign * x, target))
    largest = longest(problem, even)
    return [
        *rows,
        _row("beyond the norm", _BEYOND * largest, high),
        _row("beyond the norm, −", -_BEYOND * largest, high),
        _row("beyond the target", largest, high + _BEYOND * (high - low)),
        _row("beyond the target, −", largest, low - _BEYOND * (high - low)),
        _row("zeros", np.zeros(n_features), high),
        _row("ignored", np.full(n_features, np.nan), high),
    ]


def _row(name: str, x: Array, target: float) -> Canary:
    return Canary(name, x[None, :], np.array([target]))


def _hostile_units(problem: Problem, n_features: int, unit: PrivacyUnit, rows: list[Canary]) -> list[Canary]:
    """Units of as many rows as may be used, all alike or all different, of one row, of too many, and without an id."""
    k = rows_of_a_canary(unit)
    low, high = targets_of(problem)
    too_many, even = 3 * k + 1, longest(problem, np.ones(n_features))
    axes = np.zeros((too_many, n_features))  # one row along each, and over again
    axes[np.arange(too_many), np.arange(too_many) % n_features] = rows[0].X.max()
    turned = np.where(np.arange(k) % 2 == 0, 1.0, -1.0)
    return [
        *(row.times(k) for row in rows),
        rows[0].times(1, f"one row: {rows[0].name}"),
        rows[2].times(1, f"one row: {rows[2].name}"),
        Canary(f"{k} orthogonal rows", axes[:k], np.full(k, high)),
        Canary(f"{k} opposite rows", turned[:, None] * even, np.full(k, high)),
        Canary(f"{k} rows with opposite targets", np.tile(even, (k, 1)), np.where(turned > 0, low, high)),
        rows[0].times(too_many),
        rows[2].times(too_many),
        Canary(f"{too_many} orthogonal rows", axes, np.full(too_many, high)),
        # Rows without an id are units of their own, unless they are ignored.
        replace(rows[0].times(1 if unit.missing == "separate" else k, "rows without an id"), has_id=False),
    ]


def rows_of_a_canary(unit: PrivacyUnit | None) -> int:
    """How many rows a synthetic unit has: as many as may be used."""
    if unit is None:
        return 1
    return min(unit.max_rows or _SEVERAL, _MOST_ROWS)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What two neighbours share: n − 1 rows or units, ordinary ones or ignored ones.

    Attributes
    ----------
    problem : Problem
        Declares the bounds.
    n, n_features : int
        Public numbers.
    ignored : bool
        Whether all that is shared is ignored.
    unit : PrivacyUnit or None
        Whose rows are protected together.
    crowded : bool
        Whether some units have more rows than are used; which are used is then a matter of the fit's key.
    """

    problem: Problem
    n: int
    n_features: int
    ignored: bool
    unit: PrivacyUnit | None = None
    crowded: bool = False

    def table(self, canary: Canary | None) -> Table:
        """With the canary behind all others, or without it."""
        sizes = self._sizes()
        X, y = self._shared(int(sizes.sum()))
        if canary is not None:
            X, y = np.vstack([X, canary.X]), np.append(y, canary.y)
        if self.unit is None:
            return Table(X, y)
        numbers = np.repeat(np.arange(sizes.size), sizes)
        groups = np.ma.array(np.append(numbers, np.full(len(y) - numbers.size, sizes.size)), mask=False)
        if canary is not None and not canary.has_id:
            groups[numbers.size :] = np.ma.masked
        return Table(X, y, groups)

    def _sizes(self) -> NDArray[np.int64]:
        """How many rows every shared unit has: one, but for a few of them."""
        sizes, k = np.ones(self.n - 1, dtype=np.int64), rows_of_a_canary(self.unit)
        if self.unit is not None:
            some = [k, 1 + k // 2, k, k + 1 if self.crowded else k, 3 * k if self.crowded else k][: self.n - 1]
            sizes[: len(some)] = some
        return sizes

    def _shared(self, n_rows: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(1)
        y = rng.choice(targets_of(self.problem), size=n_rows)
        if self.ignored:
            return np.full((n_rows, self.n_features), np.nan), y
        X = rng.normal(size=(n_rows, self.n_features))
        room = 0.9 * rng.random(n_rows) + 0.05
        size = np.minimum(
            self.problem.row_norm / np.linalg.norm(X, axis=1), self.problem.largest_entry / np.abs(X).max(axis=1)
        )
        return X * (room * size)[:, None], y


def neighbour_pairs(canaries: list[Canary], adjacency: Adjacency) -> list[tuple[Canary, Canary | None]]:
    """All neighbouring datasets: with one canary or another in its place, or with and without it."""
    if adjacency is Adjacency.ADD_REMOVE:
        return [(canary, None) for canary in canaries]
    return [(first, second) for place, first in enumerate(canaries) for second in canaries[place + 1 :]]
