"""The best of a random number of trials (docs/proofs/selection.md)."""

import json
import math
from dataclasses import dataclass
from functools import cached_property

from flint import arb

from dperm.rigorous.checks import Curves, Run, checks
from dperm.rigorous.curves import KnownCurve, PureCurve
from dperm.rigorous.pairs import CurvePair

# Positions at which the shift of random trials is tried, and how often between the neighbours of the best.
_PLACES, _ROUNDS = 24, 4


@checks("random trials")
def enter(run: Run, count: int, trial: str, stop: float) -> None:
    """By the curve of a trial."""
    one = run.nested(json.loads(trial), stop * run.delta)
    run.add(Curves, TrialsPair(one.curve(), stop, one.pure), count)


@dataclass(frozen=True)
class TrialsPair(CurvePair):
    """The best of K trials, K geometric with stopping probability γ: δ_trial(ε − shift)/γ.

    Attributes
    ----------
    trial : KnownCurve
        Of one trial.
    stop : float
        γ.
    trial_pure : arb or None
        The pure ε of a trial, if it has one.
    """

    trial: KnownCurve
    stop: float
    trial_pure: arb | None

    @property
    def pure(self) -> arb | None:
        """Three times that of a trial."""
        return None if self.trial_pure is None else 3 * self.trial_pure

    @cached_property
    def shift(self) -> arb:
        """2 ln(e^t + δ_trial(t)(1 − γ)/γ) at a t near the best; every t ≥ 0 gives a bound."""
        low, high, best = 0.0, 1.5 * self.trial.reach(1e-9), arb(math.inf)
        for _ in range(_ROUNDS):
            step = (high - low) / _PLACES
            tried = [self._shift_at(low + step * number) for number in range(_PLACES + 1)]
            least = min(range(len(tried)), key=lambda number: float(tried[number].upper()))
            low, high, best = low + step * max(least - 1, 0), low + step * (least + 1), best.min(tried[least])
        return best

    def _shift_at(self, place: float) -> arb:
        odds = (1 - arb(self.stop)) / arb(self.stop)
        return 2 * (arb(place).exp() + odds * self.trial.delta(arb(place))).log()

    def delta(self, epsilon: arb) -> arb:
        """1 below the shift; of a pure trial at most that of randomized response with three times its ε."""
        left = epsilon - self.shift
        known = (self.trial.delta(left) / arb(self.stop)).min(arb(1)) if left >= 0 else arb(1)
        return known if self.pure is None else known.min(PureCurve(self.pure).delta(epsilon))

    def reach(self, faint: float) -> float:
        """That of a trial, shifted."""
        return float(self.shift.upper()) + self.trial.reach(faint * self.stop)
