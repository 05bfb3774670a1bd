"""One of several mechanisms (docs/proofs/selection.md)."""

import json
from dataclasses import dataclass

from flint import arb

from dperm.rigorous.checks import Curves, Run, checks
from dperm.rigorous.curves import KnownCurve
from dperm.rigorous.pairs import CurvePair


@checks("one of")
def enter(run: Run, count: int, alternatives: str) -> None:
    """By the curves of all."""
    each = [run.nested(events, run.delta) for events in json.loads(alternatives)]
    known = [pure for one in each if (pure := one.pure) is not None]
    largest = max(known, key=lambda ball: float(ball.upper())) if len(known) == len(each) else None
    run.add(Curves, OneOfPair(tuple(one.curve() for one in each), largest), count)


@dataclass(frozen=True)
class OneOfPair(CurvePair):
    """Whichever of these it is.

    Attributes
    ----------
    curves : tuple of KnownCurve
        Of each.
    largest_pure : arb or None
        Of their pure ε, if each has one.
    """

    curves: tuple[KnownCurve, ...]
    largest_pure: arb | None

    @property
    def pure(self) -> arb | None:
        """The largest."""
        return self.largest_pure

    def delta(self, epsilon: arb) -> arb:
        """The largest."""
        largest = arb(0)
        for curve in self.curves:
            largest = largest.max(curve.delta(epsilon))
        return largest.min(arb(1))

    def reach(self, faint: float) -> float:
        """The furthest."""
        return max(curve.reach(faint) for curve in self.curves)
