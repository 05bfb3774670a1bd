"""From noisy counts and sums to metrics with intervals: post-processing, of public numbers alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import norm

from dperm.evaluation import intervals
from dperm.evaluation.design import Design, confidence_edges, score_edges
from dperm.evaluation.intervals import Estimate
from dperm.privacy.statement import PrivacyStatement

Array = NDArray[np.float64]

# Points of a calibration curve, at most; neighbours are put together until their rows stand out of the noise.
_MOST_POINTS, _DEVIATIONS_ABOVE_NOISE = 12, 6.0


@dataclass(frozen=True)
class CalibrationPoint:
    """How often what was predicted came true, among rows with a predicted probability in (low, high].

    Attributes
    ----------
    low, high : float
        The bin, public edges.
    predicted : float
        About the mean predicted probability in it, from the middles of finer bins.
    observed : Estimate
        The share of rows of the class.
    """

    low: float
    high: float
    predicted: float
    observed: Estimate


@dataclass(frozen=True, eq=False)
class Metrics:
    """Metrics of released numbers.

    Parameters
    ----------
    design : Design
        What was released.
    released : tuple of arrays
        The noisy counts and sums: everything that came from the rows.
    deviations : tuple of float
        The standard deviation of the noise on one number of each.
    privacy_ : PrivacyStatement
        What is promised. With δ = 0 the noise is Laplace noise. With a unit rows are weighted by it, and the number of
        rows that count is a sum of weights. All variances hold with it, whatever rows of one unit have in common
        (docs/proofs/evaluation.md), but for that of a single count.
    level : float
        Of the intervals.
    """

    design: Design
    released: tuple[Array, ...]
    deviations: tuple[float, ...]
    privacy_: PrivacyStatement
    level: float = 0.95

    @cached_property
    def _variances(self) -> tuple[float, ...]:
        return tuple(noise**2 for noise in self.deviations)

    @property
    def _laplace(self) -> bool:
        return self.privacy_.delta == 0.0

    @cached_property
    def _z(self) -> float:
        return float(norm.ppf(0.5 + self.level / 2.0))

    @property
    def _two_classes(self) -> bool:
        return self.design.n_classes == 2

    @cached_property
    def _by_class(self) -> Array:
        """Two classes: counts by class and bin."""
        return self.released[0].reshape(2, -1)

    @cached_property
    def _confidence(self) -> tuple[Array, Array, tuple[float, ...]]:
        """Of rows that came true and rows that did not, by bin of what was predicted, and the inner edges."""
        if self._two_classes:
            wrong, right = self._by_class
            return wrong, right, score_edges(right.size)
        wrong, right = self.released[0][self.design.n_classes**2 :].reshape(2, -1)
        return wrong, right, confidence_edges(right.size, self.design.n_classes)

    @cached_property
    def _rows(self) -> tuple[float, float]:
        """The noisy number of rows that count, and the variance of its noise."""
        if self.design.kind == "number":
            return float(self.released[0][0]), self._variances[0]
        counts = self.released[0] if self._two_classes else self.released[0][: self.design.n_classes**2]
        if not self._two_classes and self.design.kind == "probability" and 2 * self._confidence[0].size < counts.size:
            counts = np.concatenate(self._confidence[:2])  # fewer cells, less noise
        return float(counts.sum()), counts.size * self._variances[0]

    @cached_property
    def confusion(self) -> tuple[tuple[Estimate, ...], ...] | None:
        """How many rows of every class (a line each) are predicted as every class; None for a number."""
        if self.design.kind == "number":
            return None
        k = self.design.n_classes
        counts, cells = self.released[0][: k * k].reshape(k, k), 1
        if self._two_classes:
            cells = self._by_class.shape[1] // 2
            counts = self._by_class.reshape(2, 2, cells).sum(axis=2)
        # A count of units' weights varies up to as much as one of very many rows.
        noise, n = cells * self._variances[0], math.inf if self.privacy_.unit is not None else self._rows[0]
        return tuple(tuple(intervals.count(float(cell), noise, n, self._z) for cell in line) for line in counts)

    @cached_property
    def accuracy(self) -> Estimate | None:
        """The share of rows whose class is predicted; None for a number."""
        if self.design.kind == "number":
            return None
        if self._two_classes:
            half = self._by_class.shape[1] // 2
            right = float(self._by_class[0, :half].sum() + self._by_class[1, half:].sum())
            return intervals.share(
                right, float(self._by_class.sum()) - right, 2 * half * self._variances[0],
                2 * half * self._variances[0], self._z,
            )  # fmt: skip
        k = self.design.n_classes
        if self.design.kind == "probability":
            wrong, right_ones, _ = self._confidence
            noise = right_ones.size * self._variances[0]
            return intervals.share(float(right_ones.sum()), float(wrong.sum()), noise, noise, self._z)
        counts = self.released[0].reshape(k, k)
        right, noise = float(np.trace(counts)), self._variances[0]
        return intervals.share(right, float(counts.sum()) - right, k * noise, (k * k - k) * noise, self._z)

    @cached_property
    def recalls(self) -> tuple[Estimate, ...] | None:
        """Of every class the share of its rows that are predicted as it; None for a number."""
        if self.design.kind == "number":
            return None
        k = self.design.n_classes
        lines = self._by_class if self._two_classes else self.released[0][: k * k].reshape(k, k)
        found, cells = [], lines.shape[1] // k
        for place, line in enumerate(lines):
            right = float(line[place * cells : (place + 1) * cells].sum())
            noise = cells * self._variances[0]
            found.append(intervals.share(right, float(line.sum()) - right, noise, (k - 1) * noise, self._z))
        return tuple(found)

    @cached_property
    def auc(self) -> Estimate | None:
        """The area under the ROC curve of two classes; None where there are no scores of two classes."""
        if not self._two_classes or self.design.kind == "label":
            return None
        edges = np.asarray(score_edges(self._by_class.shape[1]))
        first, second = self._by_class
        return intervals.auc(first, second, self._variances[0], edges, self._z)

    @cached_property
    def roc(self) -> tuple[tuple[float, float], ...] | None:
        """False and true positive rates at the public edges, made to rise; None where there is no AUC."""
        if self.auc is None:
            return None
        rates = []
        for counts in self._by_class:
            above = np.concatenate([[0.0], np.cumsum(counts[::-1])])
            rates.append(np.clip(np.maximum.accumulate(above) / max(above[-1], 1.0), 0.0, 1.0))
        return tuple(zip(*(rate.tolist() for rate in rates), strict=True))

    @cached_property
    def calibration(self) -> tuple[CalibrationPoint, ...] | None:
        """How often predictions come true, by predicted probability; of several classes, of the likeliest class."""
        if self.design.kind != "probability":
            return None
        wrong, right, inner = self._confidence
        edges = [0.0 if self._two_classes else 1.0 / self.design.n_classes, *inner, 1.0]
        variance, totals = self._variances[0], wrong + right
        least = max(float(totals.sum()) / _MOST_POINTS, 0.0)
        ends = [0]
        for last in range(1, len(edges)):
            noise = math.sqrt(2.0 * (last - ends[-1]) * variance)
            if totals[ends[-1] : last].sum() >= max(least, _DEVIATIONS_ABOVE_NOISE * noise):
                ends.append(last)
        ends = [*(ends[:-1] if len(ends) > 1 else ends), len(edges) - 1]  # what is left goes to the last point
        return tuple(
            self._point(edges[first : last + 1], wrong[first:last], right[first:last], (last - first) * variance)
            for first, last in pairwise(ends)
        )

    def _point(self, edges: Sequence[float], wrong: Array, right: Array, noise: float) -> CalibrationPoint:
        weights = np.maximum(wrong + right, 0.0)
        middles = (np.asarray(edges[1:]) + np.asarray(edges[:-1])) / 2.0
        predicted = float(np.average(middles, weights=weights if weights.sum() > 0.0 else None))
        observed = intervals.share(float(right.sum()), float(wrong.sum()), noise, noise, self._z)
        return CalibrationPoint(float(edges[0]), float(edges[-1]), predicted, observed)

    @cached_property
    def log_loss(self) -> Estimate | None:
        """The mean log loss, clipped at a public number; None without probabilities."""
        if self.design.largest_loss is None:
            return None
        (n, n_noise), most = self._rows, self.design.largest_loss
        total, squares = float(self.released[1][0]), float(self.released[2][0])
        variance = _variance(total, squares, self._variances[2], n, most)
        return intervals.mean(total, self._variances[1], n, n_noise, variance, self._z, self._laplace).within(0.0, most)

    @cached_property
    def _moments(self) -> tuple[float, ...]:
        """Means of everything that is added up for a number."""
        rows = max(self._rows[0], 1.0)
        return tuple(float(numbers[0]) / rows for numbers in self.released)

    def _mean_error(self, place: int, squares: int) -> Estimate:
        n, n_noise = self._rows
        total = float(self.released[place][0])
        variance = _variance(total, float(self.released[squares][0]), self._variances[squares], n, 1.0)
        return intervals.mean(total, self._variances[place], n, n_noise, variance, self._z, self._laplace).within(
            0.0, 1.0
        )

    @cached_property
    def mae(self) -> Estimate | None:
        """The mean absolute error, in the target's units; None for classes."""
        return None if self.design.error_bound is None else self._mean_error(1, 2).mapped(self.design.error_bound)

    @cached_property
    def rmse(self) -> Estimate | None:
        """The root of the mean squared error, in the target's units; None for classes."""
        if self.design.error_bound is None:
            return None
        squared = self._mean_error(2, 3)
        root = Estimate(*(math.sqrt(number) for number in (squared.value, squared.low, squared.high)))
        return root.mapped(self.design.error_bound)

    @cached_property
    def r2(self) -> Estimate | None:
        """1 − mean squared error / variance of the target; None for classes."""
        if self.design.error_bound is None or self.design.target_range is None:
            return None
        n, (_, _, error, error_squares, first, second, third, fourth) = max(self._rows[0], 1.0), self._moments
        noise = [variance / n**2 for variance in self._variances]
        error_variance = _variance(error * n, error_squares * n, self._variances[3], n, 1.0) / n
        spread = second - first**2
        # Of t² − 2·mean·t, whose mean moves as the variance of t does.
        of_square = fourth - 4.0 * first * third + 4.0 * first**2 * second - (second - 2.0 * first**2) ** 2
        spread_variance = min(max(of_square, 0.0), 1.0) / n + noise[5] + 4.0 * first**2 * noise[4]
        unit = (2.0 * self.design.error_bound / (self.design.target_range[1] - self.design.target_range[0])) ** 2
        explained = max(error / spread, 0.0) if spread > 0.0 else 0.0
        pieces = [noise[2], explained**2 * noise[5], 4.0 * (explained * first) ** 2 * noise[4]]
        total = error_variance + noise[2] + explained**2 * spread_variance
        z = intervals.quantile(self._z, pieces, total, self._laplace)
        found = intervals.ratio(error, error_variance + noise[2], spread, spread_variance, z).mapped(unit)
        return Estimate(1.0 - found.value, 1.0 - found.high, 1.0 - found.low).within(-math.inf, 1.0)

    @cached_property
    def table(self) -> dict[str, Estimate]:
        """The single numbers by name, those that there are."""
        names = {
            "accuracy": self.accuracy, "AUC": self.auc, "log loss": self.log_loss,
            "R²": self.r2, "RMSE": self.rmse, "MAE": self.mae,
        }  # fmt: skip
        return {name: found for name, found in names.items() if found is not None}


def _variance(total: float, squares: float, squares_noise: float, n: float, most: float) -> float:
    """Of numbers in [0, most], from noisy sums of them and of their squares.

    It lies between 0 and m(most − m) for a mean m. Within that it is the mean of what the noise leaves likely: to set
    it to 0 wherever noise makes it negative would make intervals too narrow.
    """
    rows = max(n, 1.0)
    centre = min(max(total / rows, 0.0), most)
    largest, found, deviation = centre * (most - centre), squares / rows - centre**2, math.sqrt(squares_noise) / rows
    if deviation > 0.0 and largest > 0.0:
        left, right = -found / deviation, (largest - found) / deviation
        inside = float(ndtr(right) - ndtr(left))
        if inside > 1e-6:
            found += deviation * (_density(left) - _density(right)) / inside
    return min(max(found, 0.0), largest)


def _density(x: float) -> float:
    return math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi) if abs(x) < 38.0 else 0.0
