"""Adversarial neighbours from what a problem declares: rows at their bounds and beyond, in a table of made-up rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.guarantee import Adjacency
from dperm.problem import Problem
from dperm.problem.losses import FunctionLoss, Loss

Array = NDArray[np.float64]

# How far beyond its bound a row lies that has to be clipped.
_BEYOND = 1e6


@dataclass(frozen=True, eq=False)
class Row:
    """A row that an attacker would put in."""

    name: str
    x: Array
    target: float


@dataclass(frozen=True, eq=False)
class Table:
    """A made-up table."""

    X: Array
    y: Array


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


def hostile_rows(problem: Problem, n_features: int) -> list[Row]:
    """Rows at the declared bounds, far beyond them, without features, and one that is ignored."""
    low, high = targets_of(problem)
    first, even = np.eye(n_features)[0], np.ones(n_features)
    generic = np.random.default_rng(0).normal(size=n_features)
    rows = []
    for name, direction in (("one entry", first), ("all entries", even), ("generic", generic)):
        x = longest(problem, direction)
        for sign in (1.0, -1.0):
            for target in (low, high):
                rows.append(Row(f"{name}, {'+' if sign > 0 else '−'}, target {target:g}", sign * x, target))
    largest = longest(problem, even)
    rows += [
        Row("beyond the norm", _BEYOND * largest, high),
        Row("beyond the norm, −", -_BEYOND * largest, high),
        Row("beyond the target", largest, high + _BEYOND * (high - low)),
        Row("beyond the target, −", largest, low - _BEYOND * (high - low)),
        Row("zeros", np.zeros(n_features), high),
    ]
    return [*rows, ignored_row(n_features, high)]


def ignored_row(n_features: int, target: float) -> Row:
    """A row that adds nothing and keeps its place."""
    return Row("ignored", np.full(n_features, np.nan), target)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The rows that two neighbours share: n − 1 of them, ordinary ones or ignored ones."""

    problem: Problem
    n: int
    n_features: int
    ignored: bool

    def table(self, row: Row | None) -> Table:
        """With this row as the last one, or without it."""
        X, y = self._shared()
        if row is not None:
            X, y = np.vstack([X, row.x]), np.append(y, row.target)
        return Table(X, y)

    def _shared(self) -> tuple[Array, Array]:
        rng, others = np.random.default_rng(1), self.n - 1
        y = rng.choice(targets_of(self.problem), size=others)
        if self.ignored:
            return np.full((others, self.n_features), np.nan), y
        X = rng.normal(size=(others, self.n_features))
        room = 0.9 * rng.random(others) + 0.05
        size = np.minimum(
            self.problem.row_norm / np.linalg.norm(X, axis=1), self.problem.largest_entry / np.abs(X).max(axis=1)
        )
        return X * (room * size)[:, None], y


def neighbour_pairs(rows: list[Row], adjacency: Adjacency) -> list[tuple[Row, Row | None]]:
    """All adjacent tables: with one row or another in its place, or with and without the row."""
    if adjacency is Adjacency.ADD_REMOVE:
        return [(row, None) for row in rows]
    return [(first, second) for place, first in enumerate(rows) for second in rows[place + 1 :]]
