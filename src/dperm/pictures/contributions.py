"""What a column adds to the score over its public range: released coefficients and the schema, no data.

A column's block of an encoded row is φ(v), of norm at most 1, and it adds ⟨φ(v), c⟩ with the block's coefficients c.
The bound on the noise of one coefficient, s, holds in every direction (docs/pictures.md), so noise gives the sum a
standard deviation of at most s‖φ(v)‖: s where v is in a bin or a category, s|x| for a linear entry x.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.pictures.canvas import COLOURS
from dperm.pictures.entries import Array, Group, coefficients_of, groups, score_titles
from dperm.schema import Bins, Category, Column, Number, Schema

# Points of a curve that is not a straight line.
_POINTS_OF_A_CURVE = 65
# Points of a curve within a bin, and how far open bins are drawn, beside the distance between the outer edges.
_POINTS_IN_A_BIN, _OPEN = 8, 0.15


@dataclass(frozen=True)
class Contribution:
    """What one column adds, one row per score.

    Attributes
    ----------
    column : str
        Its name in the schema.
    numbers : array
        Where the curve is computed, in the column's own units; empty for categories.
    curve : array of shape (scores, numbers)
        What a number adds.
    sizes : array
        ‖φ‖ at every number: noise of s on a coefficient is at most s‖φ‖ on the curve.
    knots : tuple of float
        Where bins begin and end; empty for a linear number.
    labels : tuple of str
        Categories, and "(missing)" or "(other)" where the schema gives them an entry.
    entries : array of shape (scores, labels)
        What each of them adds: its coefficient.
    """

    column: str
    numbers: Array
    curve: Array
    sizes: Array
    knots: tuple[float, ...]
    labels: tuple[str, ...]
    entries: Array

    @property
    def values(self) -> Array:
        """All that the column can add, one row per score."""
        return np.concatenate([self.curve, self.entries], axis=1)

    @property
    def span(self) -> float:
        """By how much the column can move a score: of all scores the most."""
        return float(np.ptp(self.values, axis=1).max())


def contributions(model: Any) -> list[Contribution]:
    """Of every column of the schema, in its order; interactions are left out.

    Parameters
    ----------
    model : estimator
        A fitted linear model, or one from a file.
    """
    coef, schema = coefficients_of(model), schema_of(model)
    by_column = zip(schema.columns.items(), groups(model), strict=False)  # interactions come after all columns
    return [_contribution(name, column, group, coef) for (name, column), group in by_column]


def contribution(model: Any, column: object) -> Contribution:
    """Of one column, or raise if the schema has no such column."""
    schema = schema_of(model)
    if not isinstance(column, str) or column not in schema.columns:
        raise InvalidParameterError(
            f"the schema has no column {column!r}; it has {', '.join(map(repr, schema.columns))}."
        )
    return next(found for found in contributions(model) if found.column == column)


def most_moving(found: list[Contribution], largest: int) -> list[Contribution]:
    """As many of them, in their order: those that can move a score the most."""
    ranked = np.argsort([-each.span for each in found], kind="stable")[:largest]
    return [found[place] for place in sorted(ranked)]


def scores_moved(model: Any, found: list[Contribution]) -> list[tuple[int, str]]:
    """The scores that are drawn, by index and name: all, or as many as can be told apart, those that move the most."""
    titles = [title for title, _ in score_titles(model)]
    values = np.concatenate([each.values for each in found], axis=1)
    ranked = np.argsort(-np.ptp(values, axis=1), kind="stable")[: len(COLOURS)]
    return [(int(place), titles[place]) for place in sorted(ranked)]


def schema_of(model: Any) -> Schema:
    """The schema of a fitted linear model, or one sentence if it has none."""
    coefficients_of(model)
    if model.schema_ is None:
        raise InvalidParameterError("effects need a schema, which declares the ranges; plot the coefficients instead.")
    schema: Schema = model.schema_
    return schema


def _contribution(name: str, column: Column, group: Group, coef: Array) -> Contribution:
    block = coef[:, group.first : group.first + len(group.labels)]
    numbers, entries, knots = _encoded(column)
    n_numeric = entries.shape[1]
    return Contribution(
        name, numbers, block[:, :n_numeric] @ entries.T, np.linalg.norm(entries, axis=1), knots,
        group.labels[n_numeric:], block[:, n_numeric:],
    )  # fmt: skip


def _encoded(column: Column) -> tuple[Array, Array, tuple[float, ...]]:
    """Numbers over the range, their entries in an encoded row, and the knots (rows/encoding.py)."""
    if isinstance(column, Category):
        return np.zeros(0), np.zeros((0, 0)), ()
    if isinstance(column, Bins):
        return _stairs(column.edges)
    if not column.binned:
        entries = np.linspace(-1.0, 1.0, 3 if column.transform is None else _POINTS_OF_A_CURVE)
        low, high = column.span
        return column.taken_back(low + (high - low) * (entries + 1.0) / 2.0), entries[:, None], ()
    return _hats(column)


def _hats(column: Number) -> tuple[Array, Array, tuple[float, ...]]:
    """(1 − t, t), scaled to norm 1, at the ends of the bin."""
    knots, t = column.knots, np.arange(_POINTS_IN_A_BIN) / _POINTS_IN_A_BIN
    n_bins = len(knots) - 1
    ends = column.transformed(knots)
    between = [column.taken_back(low + (high - low) * t) for low, high in pairwise(ends)]
    numbers = np.concatenate([*between, [knots[-1]]])
    weights = np.stack([1.0 - t, t], axis=1)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    entries = np.zeros((numbers.size, n_bins + 1))
    for place in range(n_bins):
        rows = slice(place * _POINTS_IN_A_BIN, (place + 1) * _POINTS_IN_A_BIN)
        entries[rows, place : place + 2] = weights
    entries[-1, -1] = 1.0
    return numbers, entries, knots


def _stairs(edges: tuple[float, ...]) -> tuple[Array, Array, tuple[float, ...]]:
    """Each bin from its lower to its upper edge; the open ones a little way out."""
    room = _OPEN * ((edges[-1] - edges[0]) or max(abs(edges[0]), 1.0))
    ends = (edges[0] - room, *edges, edges[-1] + room)
    return np.repeat(ends, 2)[1:-1], np.repeat(np.eye(len(edges) + 1), 2, axis=0), edges
