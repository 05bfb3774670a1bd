"""Intervals for shares, means, ratios and AUC that include the noise and the sampling of the rows.

All are post-processing of noisy counts and sums, of the public deviations of their noise, and of nothing else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A value and its interval.

    Attributes
    ----------
    value, low, high : float
        The interval may be infinite on a side where nothing is known.
    """

    value: float
    low: float
    high: float

    def within(self, least: float, most: float) -> "Estimate":
        """Clipped to what the quantity can be."""
        return Estimate(*(min(max(number, least), most) for number in (self.value, self.low, self.high)))

    def mapped(self, slope: float) -> "Estimate":
        """Times a number above 0."""
        return Estimate(slope * self.value, slope * self.low, slope * self.high)

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})"


def _solved(value: float, a: float, b: float, c: float) -> Estimate:
    """All x with a·x² − 2b·x + c ≤ 0, if that is an interval; else everything."""
    inside = b * b - a * c
    if not (a > 0.0 and inside >= 0.0):
        return Estimate(value, -math.inf, math.inf)
    root = math.sqrt(inside)
    return Estimate(value, (b - root) / a, (b + root) / a)


def quantile(z: float, noises: Sequence[float], variance: float, laplace: bool) -> float:
    """The quantile z for a sum of normal numbers and of Laplace noise, of heavier tails (Cornish and Fisher).

    Parameters
    ----------
    z : float
        Quantile of the normal distribution.
    noises : sequence of float
        Variances of independent pieces of noise.
    variance : float
        Of everything together.
    laplace : bool
        Whether the noise is Laplace noise: its excess kurtosis is 3.
    """
    if not laplace or variance <= 0.0:
        return z
    excess = 3.0 * sum(noise**2 for noise in noises) / variance**2
    return z + min(excess, 3.0) * max(z**3 - 3.0 * z, 0.0) / 24.0


def share(part: float, rest: float, part_noise: float, rest_noise: float, z: float) -> Estimate:
    """part/(part + rest) of noisy counts: Wilson's interval with the noise in it.

    For a true share p, (1 − p)·part − p·rest has mean 0 and variance N·p(1 − p) + (1 − p)²·s₁² + p²·s₂². The interval
    holds every p for which it is within z deviations of 0.

    Parameters
    ----------
    part, rest : float
        Noisy counts.
    part_noise, rest_noise : float
        Variances of their noise.
    z : float
        Quantile of the normal distribution.
    """
    n, square = part + rest, z * z
    rows = max(n, 0.0)
    value = part / n if n > 0.0 else 0.5
    found = _solved(
        value,
        n * n + square * (rows - part_noise - rest_noise),
        part * n + square * (rows / 2.0 - part_noise),
        part * part - square * part_noise,
    )
    return found.within(0.0, 1.0)


def mean(
    total: float, total_noise: float, n: float, n_noise: float, variance: float, z: float, laplace: bool
) -> Estimate:
    """total/n of a noisy sum and a noisy count, for numbers of this variance; noise as variances.

    For a true mean m, total − m·n has mean 0 and variance n·variance + s_total² + m²·s_n².
    """
    rows = max(n, 0.0)
    value = total / n if n > 0.0 else 0.0
    square = quantile(z, [total_noise], rows * variance + total_noise, laplace) ** 2
    return _solved(value, n * n - square * n_noise, total * n, total * total - square * (rows * variance + total_noise))


def ratio(above: float, above_variance: float, below: float, below_variance: float, z: float) -> Estimate:
    """above/below of two independent normal numbers (Fieller)."""
    value = above / below if below > 0.0 else math.inf
    found = _solved(
        value,
        below * below - z * z * below_variance,
        above * below,
        above * above - z * z * above_variance,
    )
    return found if below > 0.0 else Estimate(value, -math.inf, math.inf)


def count(number: float, noise: float, n: float, z: float) -> Estimate:
    """How many of n rows like these are in a cell."""
    rows = max(n, 1.0)
    inside = min(max(number, 0.0), rows)
    reach = z * math.sqrt(inside * (1.0 - inside / rows) + noise)
    return Estimate(max(number, 0.0), max(number - reach, 0.0), max(number + reach, 0.0))


def auc(first: Array, second: Array, noise: float, edges: Array, z: float) -> Estimate:
    """Area under the ROC curve from noisy counts of two classes in bins of the score.

    Pairs in one bin count half. Within a bin of a model that is calibrated in it they are in order with a probability
    of ½ + Δ/12, where Δ is the bin's width in log odds; this is added, and the interval is widened by as much on both
    sides, which covers calibration slopes from 0 to 2 within bins (docs/evaluation.md).

    Parameters
    ----------
    first, second : array
        Noisy counts of the two classes.
    noise : float
        Variance of the noise of each.
    edges : array
        Inner edges of the bins, in (0, 1).
    z : float
        Quantile of the normal distribution.
    """
    n_first, n_second = float(first.sum()), float(second.sum())
    if min(n_first, n_second) <= 2.0 * z * math.sqrt(noise * first.size):
        return Estimate(0.5, 0.0, 1.0)
    below = (np.cumsum(first) - first / 2.0) / n_first
    above = (n_second - np.cumsum(second) + second / 2.0) / n_second
    area = float(second @ below) / n_second
    slopes = np.concatenate([(above - area) / n_first, (below - area) / n_second])
    counts = np.maximum(np.concatenate([first, second]), 0.0)
    deviation = math.sqrt(float((slopes**2) @ (counts + noise)))
    bias = _binning(first / n_first, second / n_second, edges)
    centre = min(max(area + bias, 0.0), 1.0)
    if 2.0 * deviation < min(centre, 1.0 - centre):
        reach = z * deviation / (centre * (1.0 - centre))
        low, high = (float(expit(logit(centre) + side * reach)) for side in (-1.0, 1.0))
    else:
        low, high = centre - z * deviation, centre + z * deviation
    return Estimate(centre, low - bias, high + bias).within(0.0, 1.0)


def _binning(first: Array, second: Array, edges: Array) -> float:
    """By how much AUC is larger than with pairs in one bin counted half, for a calibrated model."""
    widths = np.concatenate([[math.inf], np.diff(logit(edges)), [math.inf]])
    tied = np.maximum(first, 0.0) * np.maximum(second, 0.0)
    return float(tied @ np.minimum(widths / 12.0, 0.25))
