"""Sampled Gaussians, and Gaussians beside them: the curve of all together (docs/proofs/sampled_gradient.md)."""

import functools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.accounting.curve import FINE_GRID, Curve, gaussian_delta, gaussian_epsilon
from dperm.accounting.events.base import SingleEvent
from dperm.accounting.events.gaussian import Gaussian, total_precision
from dperm.accounting.loss_sum import LossSum
from dperm.accounting.privacy_loss import (
    LARGEST_GRID,
    NO_GRID,
    gaussian_grid_width,
    gaussian_loss_range,
    mass_rounding,
)
from dperm.accounting.renyi import renyi_epsilon
from dperm.privacy.guarantee import Adjacency


@dataclass(frozen=True)
class SampledCurve(Curve):
    """The least of three bounds: by privacy loss distributions, by the probability of a draw, and by Rényi accounting.

    Parameters
    ----------
    parts : tuple of (SingleEvent, int)
        Gaussians and sampled Gaussians.
    adjacency : Adjacency
        The neighbouring relation.
    """

    parts: tuple[tuple[SingleEvent, int], ...]
    adjacency: Adjacency

    @property
    def tolerance(self) -> float:
        """The grid is coarser than rounding."""
        return 2e-3

    def delta(self, epsilon: float) -> float:
        """δ at this ε."""
        by_draw = self.draw_delta(epsilon)
        if self._has_hardly_any_noise:
            return by_draw
        try:
            by_pld = self.distribution().get_delta_for_epsilon(epsilon) + self._rounding
        except NO_GRID:
            return by_draw
        return min(by_draw, by_pld)

    def epsilon(self, delta: float, points: int = FINE_GRID) -> float:
        """ε at this δ; infinite with hardly any noise, unless δ is above the probability of a draw."""
        by_draw = self._draw_epsilon(delta)
        if self._has_hardly_any_noise:
            return by_draw
        epsilon = min(by_draw, self.pld_epsilon(delta, points))
        # Where δ is so small that rounding in the PLD could matter, Rényi accounting may give a smaller ε.
        if delta < 10.0 * self._rounding:
            epsilon = min(epsilon, renyi_epsilon(self.parts, delta, self.adjacency))
        return epsilon

    # By privacy loss distributions

    def pld_epsilon(self, delta: float, points: int = FINE_GRID) -> float:
        """ε by privacy loss distributions, rounded up at every step."""
        left = delta - self._rounding
        if left <= 0.0:
            return math.inf
        try:
            return self.distribution(points).get_epsilon_for_delta(left)
        except NO_GRID:  # no bound is known, so none is promised
            return math.inf

    def distribution(self, points: int = FINE_GRID) -> LossSum:
        """The privacy loss of all of it on one grid."""
        parts, precision = self._sampled, total_precision(self.parts)
        # All Gaussians together are one Gaussian, exactly; composing them on the grid would only lose.
        if precision:
            parts = (*parts, (Gaussian(1.0 / math.sqrt(precision)), 1))
        return composed_distribution(parts, self.adjacency, points)

    @property
    def _sampled(self) -> tuple[tuple[Any, int], ...]:
        """The sampled events, equal ones counted together, so that they are composed in one go."""
        counts = Counter[Any]()
        for leaf, count in self.parts:
            if leaf.is_sampled:
                counts[leaf] += count
        return tuple(counts.items())

    @property
    def _rounding(self) -> float:
        return mass_rounding(sum(count for _, count in self._sampled))

    # By the probability of a draw

    @property
    def draw_probability(self) -> float:
        """Probability that the sampled parts draw a given record at all."""
        return draw_probability([(leaf.sampling_probability, count) for leaf, count in self._sampled])

    def draw_delta(self, epsilon: float) -> float:
        """An upper bound on δ(ε) that no noise on the sampled parts can spoil.

        A record that is never drawn shows only through the Gaussians: δ(ε) ≤ 1 − (1 − δ_draw)(1 − δ_Gauss(ε)).
        """
        drawn = self.draw_probability
        bound = drawn + (1.0 - drawn) * gaussian_delta(self._mu_of_gaussians, epsilon)
        return min(1.0, bound * (1.0 + 1e-15))

    def _draw_epsilon(self, delta: float) -> float:
        """The ε at which `draw_delta` comes down to this δ; infinite if δ is not above the probability of a draw."""
        drawn = self.draw_probability
        if delta <= drawn:
            return math.inf
        left = (delta - drawn) / (1.0 - drawn) * (1.0 - 1e-12)
        return gaussian_epsilon(self._mu_of_gaussians, left)

    @property
    def _mu_of_gaussians(self) -> float:
        return self.adjacency.records_moved * math.sqrt(total_precision(self.parts))

    @property
    def _has_hardly_any_noise(self) -> bool:
        return any(leaf.drawn_bare for leaf, _ in self.parts)


def draw_probability(rates: list[tuple[float, int]]) -> float:
    """Probability that samples of these rates, each so often, draw a given record: 1 − Π (1 − q_i)^k_i, rounded up."""
    log_never = 0.0
    for rate, count in rates:
        log_never += count * math.log1p(-rate) if rate < 1.0 else -math.inf
    return min(1.0, -math.expm1(log_never) * (1.0 + 1e-12))


# Kept, because a calibrated plan is asked for its ε and its δ again by anyone who states them.
@functools.lru_cache(maxsize=32)
def composed_distribution(parts: tuple[tuple[Any, int], ...], adjacency: Adjacency, points: int) -> LossSum:
    """The privacy loss of these events together, on one grid that is fine enough for each."""
    widest = max(gaussian_loss_range(leaf.noise_multiplier, adjacency) for leaf, _ in parts)
    needed = min(gaussian_grid_width(leaf.noise_multiplier, count, adjacency, points) for leaf, count in parts)
    width = max(needed, widest / LARGEST_GRID)
    with np.errstate(over="raise", invalid="raise"):  # an error, never a nan that compares as it likes
        return LossSum([(leaf.loss(adjacency, width), count) for leaf, count in parts], width)
