"""What is counted and added up to evaluate a model, and with which noise: from public numbers alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dperm.accounting.curve import gaussian_mu
from dperm.errors import InvalidParameterError
from dperm.evaluation.scores import (
    Array,
    Term,
    binned_by_class,
    confidence_cells,
    confusion_cells,
    errors_and_targets,
    log_losses,
)
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.setting import PublicTable
from dperm.plan.sums import Sum, SumsPlan, plan_sums
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.unit import PrivacyUnit
from dperm.validation import finite, one_of, positive

# Shares of the precision (of μ², or of a pure ε). Counts give accuracy, AUC, calibration and confusion, the sum of
# losses one number; squares only say how wide its interval is. With a third for the losses the noise of all these
# weighs about the same beside the sampling of the rows (docs/evaluation.md).
_COUNTS, _LOSSES, _SQUARES = 0.62, 0.33, 0.05
# A probability below this over the number of classes counts as that: a fiftieth of a uniform guess.
_LEAST_PROBABILITY = 0.02
# Of the sums for a number. The moments of the target are for R²; the last of each kind for the widths of intervals.
ERROR_SUMS = {
    "rows": 0.08, "errors": 0.2, "squared errors": 0.25, "errors to the fourth": 0.05,
    "targets": 0.15, "squared targets": 0.17, "cubed targets": 0.05, "targets to the fourth": 0.05,
}  # fmt: skip
_FEWEST_BINS, _MOST_BINS, _MOST_CONFIDENCE_BINS = 4, 100, 20


@dataclass(frozen=True)
class Design:
    """What an evaluation releases of rows.

    Parameters
    ----------
    kind : {"probability", "score", "label", "number"}
        What the model says of a row.
    classes : tuple or None
        The public classes, None for a number.
    target_range : (float, float) or None
        Of a number: targets and predictions are clipped to it.
    error_bound : float or None
        Of a number: a larger error counts as this one.
    largest_loss : float or None
        Of probabilities: what log losses are clipped to.
    """

    kind: str
    classes: tuple[str | int | float | bool, ...] | None = None
    target_range: tuple[float, float] | None = None
    error_bound: float | None = None
    largest_loss: float | None = None

    def __post_init__(self) -> None:
        """Classes or a range, and never both."""
        one_of("kind", self.kind, ("probability", "score", "label", "number"))
        if self.kind != "probability" and self.largest_loss is not None:
            raise InvalidParameterError("largest_loss requires probabilities.")
        if self.kind != "number":
            if self.classes is None or len(self.classes) < 2 or (self.target_range, self.error_bound) != (None, None):
                raise InvalidParameterError(
                    "a classifier has at least two classes, and no target_range or error_bound."
                )
            if self.kind == "probability" and self.largest_loss is None:
                object.__setattr__(self, "largest_loss", math.log(self.n_classes / _LEAST_PROBABILITY))
            return
        if self.classes is not None or self.target_range is None or self.error_bound is None:
            raise InvalidParameterError("a regression has a target_range and an error_bound, and no classes.")
        low, high = (finite("target_range", end) for end in self.target_range)
        if not low < high or not math.isfinite(high - low):
            raise InvalidParameterError("target_range must be (low, high) with low < high.")
        if positive("error_bound", self.error_bound) > high - low:
            raise InvalidParameterError("error_bound must be at most the length of target_range.")

    @property
    def n_classes(self) -> int:
        """Of a classifier."""
        return len(self.classes or ())

    def plan(self, n: int, guarantee: Guarantee, adjacency: Adjacency, unit: PrivacyUnit | None = None) -> SumsPlan:
        """The noise with which everything keeps the guarantee.

        Parameters
        ----------
        n : int
            The public number of rows, or of units.
        guarantee, adjacency
            What must hold.
        unit : PrivacyUnit, optional
            Whose rows are protected together.
        """
        shares = self._shares
        noise = "Laplace" if guarantee.delta == 0.0 else "Gaussian"
        table = PublicTable(n, adjacency, unit)
        sums = self._sums(table, noise, _count_deviation(guarantee, adjacency, shares[0]))
        relative = [1.0 / share if noise == "Laplace" else share**-0.5 for share in shares]
        return plan_sums(sums, guarantee, relative)

    @property
    def _shares(self) -> list[float]:
        if self.kind == "number":
            return list(ERROR_SUMS.values())
        return [_COUNTS, _LOSSES, _SQUARES] if self.kind == "probability" else [1.0]

    def _sums(self, table: PublicTable, noise: str, deviation: float) -> list[Sum]:
        """What is released; `deviation` is about that of the noise on one count, before several histograms."""

        def summed(what: str, largest: float, nonnegative: bool = True) -> BoundedSum:
            return BoundedSum(table, what, 1, largest, nonnegative, noise)

        if self.kind == "number":
            signed = ("targets", "cubed targets")
            named = {"rows": "the number of rows"}
            return [summed(named.get(name, f"the sum of {name}"), 1.0, name not in signed) for name in ERROR_SUMS]
        k, per_row = self.n_classes, table.n / deviation
        if k == 2:
            cells: tuple[int, ...] = (2 * (2 if self.kind == "label" else n_bins(per_row)),)
            words = "rows by class and bin of the score"
        elif self.kind == "probability":
            cells = (k * k, 2 * min(n_bins(per_row), _MOST_CONFIDENCE_BINS))
            words = "rows by class and predicted class, and by confidence"
        else:
            cells, words = (k * k,), "rows by class and predicted class"
        counts: list[Sum] = [CellCounts(table, words, cells, noise)]
        if self.largest_loss is None:
            return counts
        losses = summed("the sum of log losses", self.largest_loss)
        return [*counts, losses, summed("the sum of squared log losses", self.largest_loss**2)]

    def terms(self, release: SumsPlan) -> list[Term]:
        """What every row adds to each of the planned sums: functions of the trusted code with public numbers."""
        if self.kind == "number":
            return [partial(_moment, design=self, name=name) for name in ERROR_SUMS]
        counts = release.calibrated.plan.planned[0].query
        assert isinstance(counts, CellCounts)
        if self.n_classes == 2:
            terms: list[Term] = [partial(binned_by_class, edges=score_edges(counts.sizes[0] // 2))]
        elif self.kind == "probability":
            terms = [partial(_both, edges=confidence_edges(counts.sizes[1] // 2, self.n_classes))]
        else:
            terms = [confusion_cells]
        if self.largest_loss is None:
            return terms
        most = self.largest_loss
        return [*terms, partial(log_losses, most=most), lambda truth, shown: log_losses(truth, shown, most) ** 2]


def _both(truth: Array, scores: Array, edges: Sequence[float]) -> Array:
    return np.column_stack([confusion_cells(truth, scores), confidence_cells(truth, scores, edges)])


def _moment(truth: Array, predicted: Array, design: Design, name: str) -> Array:
    assert design.target_range is not None
    assert design.error_bound is not None
    errors, targets = errors_and_targets(truth, predicted, design.target_range, design.error_bound)
    values = targets if "targets" in name else errors
    power = {"rows": 0, "squared": 2, "cubed": 3}.get(name.split()[0], 4 if "fourth" in name else 1)
    return np.where(np.isnan(values), np.nan, values**power)[:, None]


def _count_deviation(guarantee: Guarantee, adjacency: Adjacency, share: float) -> float:
    """About the standard deviation of the noise on one count of a histogram that has this share."""
    moved = adjacency.records_moved
    if guarantee.delta == 0.0:
        return math.sqrt(2.0) * moved / (share * guarantee.epsilon)
    return math.sqrt(moved / share) / gaussian_mu(guarantee)


def n_bins(rows_per_deviation: float) -> int:
    """How many bins a score is cut into: an even number, at which noise and binning err by about the same in AUC.

    Binning is off by about 0.8/B² and noise of deviation s moves AUC by about 1.1·s·√B/n (docs/evaluation.md).

    Parameters
    ----------
    rows_per_deviation : float
        n/s.
    """
    best = (4.0 * 0.8**2 / 1.1**2 * rows_per_deviation**2) ** 0.2
    return int(min(max(2 * round(best / 2.0), _FEWEST_BINS), _MOST_BINS))


def score_edges(bins: int) -> tuple[float, ...]:
    """Inner edges in (0, 1), one of them at ½ and finer towards both ends: u²/(u² + (1 − u)²) for u = k/bins.

    Examples
    --------
    >>> [round(edge, 3) for edge in score_edges(4)]
    [0.1, 0.5, 0.9]
    """
    u = np.arange(1, bins) / bins
    return tuple((u**2 / (u**2 + (1.0 - u) ** 2)).tolist())


def confidence_edges(bins: int, n_classes: int) -> tuple[float, ...]:
    """Inner edges between 1/K, the least that the highest of K probabilities can be, and 1, finer towards 1."""
    u = np.arange(1, bins) / bins
    return tuple((1.0 - (1.0 - 1.0 / n_classes) * (1.0 - u) ** 2).tolist())
