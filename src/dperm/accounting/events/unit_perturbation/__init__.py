"""The minimiser of a perturbed objective, where all rows of one unit may differ (docs/proofs/units.md)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import ndtr

from dperm.accounting.curve import ROUNDING, Array, Curve
from dperm.accounting.events.base import SingleEvent
from dperm.accounting.events.objective_perturbation import determinant_costs
from dperm.privacy.guarantee import Adjacency

# Tangents that are tried for the determinant of a sigmoidal loss: one must do for all losses beyond m.
_TANGENTS = 96

# Steps by which the best line above 1 − e^{t − loss} is found; every line is a bound.
_STEPS = 6


class Shift(NamedTuple):
    """How many Gaussian shifts, how long over σ, and whether the determinant counts with slopes at their bound."""

    times: int
    length: float
    steep: bool


@dataclass(frozen=True)
class UnitPerturbation(SingleEvent):
    """The minimiser of an objective with a random Gaussian linear term, of which all rows of a unit may differ.

    Attributes
    ----------
    noise_multiplier : float
        σ/G: the standard deviation of the linear term over the largest gradient of a row of weight 1.
    log_jacobian : float
        r ln(1 + β/(rΛ)): what the change of variables from the linear term to the minimiser can cost.
    rank : int
        r: this many eigenvalues of the Hessian of a unit's rows are not 0 at most.
    n_outputs : int
        1 for a loss of one margin, K for the softmax loss of K classes.
    monotone : bool
        Whether every row's slope keeps its sign; of no account for several classes.
    remainder : float
        ε of the output noise that hides how far the minimisation was from done.
    sigmoidal : bool
        Whether a row's ℓ''‖x‖² is at most 4β t(1 − t) where its gradient is t times the largest, before clipping.
    slope_share : float
        The share of their bound that slopes are clipped at; the noise multiplier is relative to what is left.
    """

    noise_multiplier: float
    log_jacobian: float
    rank: int
    n_outputs: int
    monotone: bool
    remainder: float
    sigmoidal: bool = False
    slope_share: float = 1.0

    name: ClassVar[str] = "unit perturbation"

    @classmethod
    def from_numbers(cls, **numbers: Any) -> Self:
        """Read plain data."""
        event = super().from_numbers(**numbers)
        if event.sigmoidal and not (event.monotone and event.n_outputs == 1):
            raise ValueError("sigmoidal")
        return event

    def scale(self, adjacency: Adjacency) -> float:
        """That of one Gaussian shift alone."""
        return float(adjacency.records_moved / self.noise_multiplier)

    def curve(self, adjacency: Adjacency) -> Curve:
        """In closed form, but for the line and the tangent that are searched for."""
        return StopLossCurve(self, adjacency)

    def determinant_costs(self) -> tuple[tuple[float, float], ...]:
        """What the change of variables costs where all slopes are 0, and at their bound; every pair will do."""
        if not self.sigmoidal:
            return ((self.log_jacobian, self.log_jacobian),)
        return determinant_costs(self.log_jacobian, self.slope_share, self.rank, _TANGENTS)

    def shifts(self, adjacency: Adjacency) -> list[Shift]:
        """What one row, or a row and one in its place, can do: the corners of where their gradients may lie, but 0."""
        mu = (1.0 + ROUNDING) / self.noise_multiplier
        replaced = adjacency is Adjacency.REPLACE_ONE
        if self.n_outputs > 1:
            others = self.n_outputs - 1
            if not replaced:
                return [Shift(others, mu, True)]
            between = [Shift(others * (others - 1), math.sqrt(3.0) * mu, True)] if others > 1 else []
            return [Shift(others, 2.0 * mu, True), *between, Shift(others, mu, True), Shift(others, mu, False)]
        if not replaced:
            return [Shift(1 if self.monotone else 2, mu, True)]
        if self.monotone:
            return [Shift(1, 2.0 * mu, True), Shift(1, mu, True), Shift(1, mu, False)]
        return [Shift(2, 2.0 * mu, True), Shift(2, math.sqrt(2.0) * mu, True)]


@dataclass(frozen=True)
class StopLossCurve(Curve):
    """δ(ε) of one minimiser: the least of E(loss − m)₊/(1 + y) over lines that lie above 1 − e^{t − loss}.

    1 − e^{t − l} ≤ (l − m)₊/(1 + y) for every l if m = t − y + ln(1 + y), with y ≥ 0; and E(loss − m)₊ is for a unit at
    most what it is for the worst of its rows.
    """

    event: UnitPerturbation
    adjacency: Adjacency

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        return float(self.deltas(np.array([epsilon]))[0])

    def deltas(self, epsilons: Array) -> Array:
        """δ at many ε, each with the best tangent for it."""
        flat, steep = (np.array(costs)[:, None] for costs in zip(*self.event.determinant_costs(), strict=True))
        t = (np.asarray(epsilons)[None, :] - self.event.remainder) * (1.0 - ROUNDING)
        # How far m may lie below t: where the loss is `flat`, as without any gradient, it must not count.
        room = t - flat
        padded = np.maximum(room - ROUNDING * (1.0 + np.abs(t)), 0.0)
        widest = np.maximum(padded, np.sqrt(2.0 * padded))  # y − ln(1 + y) is at most y, and at most y²/2
        y = np.zeros_like(room)
        best = np.ones_like(room)
        for _ in range(_STEPS):
            m = t - (y - np.log1p(y))
            above, beyond = self._stop_loss(m, flat, steep)
            best = np.minimum(best, above / (1.0 + y))
            y = np.minimum(above / np.maximum(beyond, 1e-300), widest)  # where the derivative in y is 0
        return np.asarray(np.where(room >= 0.0, best, 1.0).min(axis=0).clip(max=1.0))

    def _stop_loss(self, m: Array, flat: Array, steep: Array) -> tuple[Array, Array]:
        """E(loss − m)₊ and P(loss > m), both summed over the shifts; the first is rounded up."""
        above, beyond = np.zeros_like(m), np.zeros_like(m)
        for times, length, is_steep in self.event.shifts(self.adjacency):
            cost = steep if is_steep else flat
            z = (m - cost - ROUNDING * (1.0 + np.abs(m) + np.abs(cost))) / length - 0.5 * length
            z = np.minimum(z, 1e3)  # where nothing is left that a float could hold
            tail, density = ndtr(-z), np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
            rounding = 1e-15 * (1.0 + z * z) * density  # exponents are off by a last digit of z²
            above += times * length * (np.maximum(density - z * tail, 0.0) + rounding) * (1.0 + ROUNDING)
            beyond += times * tail
        return above, beyond
