"""The trials of a search: candidates are fitted to a part of the rows and scored on the others."""

import warnings
from typing import Any

import numpy as np

from dperm.errors import PlanExceededError
from dperm.kernel.apart import one_place, stops
from dperm.kernel.noise import Randomness
from dperm.kernel.oracle import Oracle
from dperm.kernel.units import Membership, UnitRows
from dperm.models.apart import RowsApart, rows_apart
from dperm.models.base import Array
from dperm.models.candidates import Candidates
from dperm.models.telling import untold
from dperm.plan.search import SearchPlan
from dperm.privacy.guarantee import Guarantee

# Seeds for the fits of a repeatable search lie below this.
_SEEDS = 2**31


class Trials:
    """The part of a search that finds the winner: nothing else of it is kept."""

    def __init__(self, plan: SearchPlan, candidates: Candidates, seed: int | None) -> None:
        self._plan, self._candidates = plan, candidates
        self._seeds = None if seed is None else np.random.default_rng([seed, 1])
        self._randomness = Randomness.from_random_state(seed)
        statement = plan.trials[0].statement
        self._guarantee = Guarantee(statement.epsilon, statement.delta)
        self._units: UnitRows | None = None  # of the rows that are scored on

    def next_seed(self) -> int | None:
        """For the next fit of a repeatable search."""
        return None if self._seeds is None else int(self._seeds.integers(0, _SEEDS))

    def winner(self, X: Any, y: Any, membership: Membership | None) -> int:
        """The index of the candidate that won."""
        rows = rows_apart(X, self._candidates.plain_target(y), *self._plan.slots, self._randomness.noise, membership)
        if rows.held_out_units is not None:
            self._units = rows.held_out_units.drawn(self._randomness.unit_key)
        if self._plan.method == "composition":
            losses = np.column_stack([self._losses(place, rows) for place in range(len(self._candidates))])
            (item,) = self._plan.scores.plan.planned
            return Oracle.of_sums(self._plan.scores, self._randomness).choose(item, [losses], self._units)
        return self._best_of_trials(rows)

    def _best_of_trials(self, rows: RowsApart) -> int:
        """Trials until a coin says stop; how many there were is told to nobody."""
        (item,) = self._plan.scores.plan.planned
        stream, best = self._randomness.noise, (np.inf, 0)
        while True:
            place = one_place(len(self._candidates), stream)
            losses = self._losses(place, rows)
            noisy = Oracle.of_sums(self._plan.scores, self._randomness).add_up(item, [losses[:, None]], self._units)
            best = min(best, (float(noisy[0]), place))  # one order of all outcomes, ties too
            if stops(1.0 / self._plan.n_trials, stream):
                return best[1]

    def _losses(self, place: int, rows: RowsApart) -> Array:
        """What one trial of a candidate loses on each held-out row; all of it if no model came out.

        What a trial warns of or logs, or that it fails, is a fact about the rows that it was given: only the winner's
        position is released.
        """
        with untold(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return self._trial(place, rows)
            except PlanExceededError:
                raise  # the same for any rows
            except Exception:
                return np.ones(_held_out_rows(rows))

    def _trial(self, place: int, rows: RowsApart) -> Array:
        plan = self._plan.trials[place]
        model = self._candidates.built(place, self._guarantee, self._plan.n_train, self.next_seed(), plan.solver)
        model.row_warnings = model.verbose = False
        # A table with a schema has the ids of its units in a column.
        groups = rows.train_units if model.schema is None else None
        model.fit(*rows.train, groups=groups, plan=plan)
        if model.event_ != plan.event:
            raise PlanExceededError("a trial is not the one that was planned.")
        return self._candidates.losses(model, rows.held_out) if _held_out_rows(rows) else np.zeros(0)


def _held_out_rows(rows: RowsApart) -> int:
    X, _ = rows.held_out
    return int(X.shape[0])
