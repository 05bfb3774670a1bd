"""Oracles for audits of made-up tables: they keep what came to the noise, and answer without it.

Nothing here may see sensitive rows: what is kept is exact. `dperm.audit` hands over tables that it made up itself.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.counts import BeyondPart, ColumnPart
from dperm.kernel.noise import Noise, Randomness
from dperm.kernel.oracle import Oracle
from dperm.kernel.source import Source
from dperm.kernel.units import total_shares
from dperm.mechanisms.plan import CalibratedPlan, Planned, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.rows.arrays import ArraySource
from dperm.schema import Schema
from dperm.schema.binning import cell_edges

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Passed:
    """One release: what came to the noise, for which sensitivity, and what left.

    Attributes
    ----------
    exact : array
        The answer before noise.
    sensitivity : float
        What the noise was asked to cover.
    scale : float
        Of the noise, as the plan says; 0 without noise.
    released : array
        The answer with noise; of a choice, a 1 in the position that won.
    is_choice : bool
        Whether only the index of the largest number left.
    """

    exact: Array
    sensitivity: float
    scale: float
    released: Array
    is_choice: bool = False


@dataclass(frozen=True, eq=False)
class Question:
    """One question of a solver, its answer, and every release that the answer is made of."""

    item: PlannedQuery
    points: tuple[Array, ...]
    step_size: Any
    answer: Array
    passed: tuple[Passed, ...]


class _MadeUpSource(ArraySource):
    """Rows that are encoded already; where ranges are looked for, an entry above or below 0 is a value beyond all."""

    def __init__(self, X: Array, y: Array, groups: Any = None, unit: PrivacyUnit | None = None) -> None:
        super().__init__(X, y, None, groups, unit)
        self._first = np.asarray(X)[:, 0]
        self._schema: Schema | None = None

    def _count(self, part: ColumnPart) -> Array:
        """Far above or far below all candidates, in the last cell or in the first, or missing."""
        if isinstance(part, BeyondPart):
            n_above, n_below = self._n_beyond()
            return np.repeat([[n_above], [n_below]], len(part.candidates), axis=1)
        return np.concatenate([self._cells(column) for column in part.columns])

    def _cells(self, column: str) -> Array:
        n_cells = 2 if self._schema is None else cell_edges(self._schema.numbers[column].bounds).size + 1
        counts = np.zeros(n_cells)
        counts[-1], counts[0] = self._n_beyond()
        return counts

    def _n_beyond(self) -> tuple[float, float]:
        known, below = ~np.isnan(self._first), np.signbit(self._first)
        units = self._chosen_rows()
        shares = np.ones(below.size) if units is None else total_shares(units[:].shares)
        return float(shares[known & ~below].sum()), float(shares[known & below].sum())

    def with_schema(self, schema: Schema, class_weights: Sequence[float] | None = None) -> Source:
        """The rows are encoded already."""
        self._schema = schema
        return self


class _WatchedNoise:
    """The real noise, which keeps what goes through `release` and `choose`; all else is left to it."""

    def __init__(self, noise: Noise, kept: list[Passed]) -> None:
        self._noise, self._kept = noise, kept

    def release(self, exact: Array, sensitivity: float) -> Array:
        released = self._noise.release(exact, sensitivity)
        scale = self._noise.calibrated.sigma(self._noise.item, sensitivity)
        self._kept.append(Passed(np.array(exact, dtype=np.float64), sensitivity, scale, np.array(released)))
        return released

    def choose(self, scores: Array, sensitivity: float) -> int:
        winner = self._noise.choose(scores, sensitivity)
        scale = self._noise.calibrated.sigma(self._noise.item, sensitivity)
        won = np.zeros(scores.size)
        won[winner] = 1.0
        self._kept.append(Passed(np.array(scores, dtype=np.float64), sensitivity, scale, won, is_choice=True))
        return winner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._noise, name)


class WatchedOracle(Oracle):
    """The real oracle on a made-up table; keeps every question with its releases in `transcript`.

    `schema` is what `complete` ended with: the plan's, with the ranges and bins that were released.

    Parameters
    ----------
    X, y : array
        The made-up table.
    problem, setting, calibrated
        As of `Oracle`.
    random_state : int, optional
        Seed of the noise, for a repeatable audit.
    coin : int, optional
        Seed of the public choices.
    groups : array, optional
        The unit of every row, where the setting names one.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        problem: Problem,
        setting: Setting,
        calibrated: CalibratedPlan,
        random_state: int | None = None,
        coin: int | None = None,
        groups: Any = None,
    ) -> None:
        source = _MadeUpSource(X, y, groups, None if groups is None else setting.unit)
        super().__init__(source, problem, setting, calibrated, Randomness.from_random_state(random_state))
        self.coin = secrets.randbits(63) if coin is None else coin
        self.transcript: list[Question] = []
        self.schema: Schema | None = None
        self._kept: list[Passed] = []
        self._public = np.random.default_rng(self.coin)

    @property
    def public_coin(self) -> np.random.Generator:
        """Public choices that can be made again."""
        return self._public

    def ask(self, item: PlannedQuery, *points: Array, step_size: Any = None) -> Array:
        """Answer as the real one, and keep it."""
        self._kept = []
        answer = super().ask(item, *points, step_size=step_size)
        self.transcript.append(Question(item, points, step_size, np.array(answer), tuple(self._kept)))
        return answer

    def complete(self, schema: Schema | None) -> Schema | None:
        """The made-up rows are told of the schema first: how many cells a histogram has follows from it."""
        self.know(schema)
        self.schema = super().complete(schema)
        return self.schema

    def know(self, schema: Schema | None) -> None:
        """Count the cells of histograms by this schema."""
        if schema is not None:
            self._sums.source.with_schema(schema)

    def _noise_of(self, item: Planned) -> Noise:
        return cast(Noise, _WatchedNoise(super()._noise_of(item), self._kept))


class ExactOracle(WatchedOracle):
    """Answers any query of a setting without noise, as often as it is asked."""

    def exact(self, item: PlannedQuery, *points: Array, step_size: Any = None) -> Question:
        """The answer without noise, and what it is made of."""
        self.ask(item, *points, step_size=step_size)
        return self.transcript.pop()

    def _spend(self, item: Planned) -> None:
        """No plan is followed."""


class PlaybackOracle(WatchedOracle):
    """Gives the answers of another run, whatever it is asked and whatever its own rows are.

    Raises
    ------
    IndexError
        If more is asked than that run did.
    """

    def play(self, transcript: list[Question]) -> None:
        """Whose answers."""
        self._answers = [question.answer for question in transcript]

    def ask(self, item: PlannedQuery, *points: Array, step_size: Any = None) -> Array:
        """The next of them."""
        return self._answers.pop(0).copy()
