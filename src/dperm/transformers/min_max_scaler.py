"""Columns within a given range, from noisy histograms."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from dperm.errors import InvalidParameterError
from dperm.mechanisms.setting import PublicTable
from dperm.plan.sums import Parts, ReleasedSums, Sum
from dperm.rows.column_parts import cells_of
from dperm.transformers.base import Array, PrivateTransformer, check_bounds
from dperm.transformers.cells import by_column, column_cells, counts_of
from dperm.transformers.standard_scaler import read_plain
from dperm.validation import finite

# A count of m cells is more than noise from so many of its standard deviations on. An end of a column is off by chance
# in fewer than one fit of 200: it is compared for at most 200 cells and 8 lengths of windows.
_SURELY = {"Gaussian": 4.5, "Laplace": 9.0}


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateMinMaxScaler(OneToOneFeatureMixin, PrivateTransformer):  # type: ignore[misc]
    """Bring columns into a range, by a private smallest and largest value.

    They come from noisy histograms over the declared ranges (docs/proofs/preprocessing.md): the ends of where
    there are more rows than noise. A few rows beyond them cannot be seen, and are clipped.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ = 0 takes Laplace noise.
    bounds : (low, high), or one such pair per column
        None instead of a pair passes a column through unchanged, at no cost, e.g. encoded categories.
        The public range of the values: required. Values beyond are clipped. Cells are finer towards its ends and
        towards 0, so a range that is far too wide does little harm.
    feature_range : (low, high)
        What columns are brought into; with the default a row is at most √columns long.
    adjacency : {"replace_one", "add_remove"}
        Neighbouring relation: one record replaced, or one added/removed.
    n : int, optional
        The public number of rows or privacy units; by default that of X.
    unit : str, optional
        Column identifying the privacy unit, e.g. "patient_id": all rows of a unit are protected together. `fit` takes
        the ids as `groups`.
    max_rows_per_unit, contribution, missing_units
        As in `PrivateLogisticRegression`.
    budget : Budget, optional
        The dataset's budget in a ledger: the fit is reserved there before a row is read.
    random_state : int, optional
        Seed. Makes the fit reproducible, and the result not for release.

    Attributes
    ----------
    data_min_, data_max_, data_range_, scale_, min_ : arrays
        As in scikit-learn, noisy.
    privacy_ : PrivacyStatement
        The guarantee.
    event_ : Event
        The accounting event.

    Notes
    -----
    A missing value counts nowhere and stays missing in `transform`.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateMinMaxScaler
    >>> ages = np.random.default_rng(0).uniform(20, 60, size=(5000, 1))
    >>> scaler = PrivateMinMaxScaler(1.0, 1e-6, bounds=(0, 1000), random_state=0).fit(ages)  # leave the seed out
    >>> bool(10 < scaler.data_min_[0] < 25 and 55 < scaler.data_max_[0] < 80)
    True
    """

    bounds: Any = None
    feature_range: Any = (0.0, 1.0)

    data_min_: Array = field(init=False)
    data_max_: Array = field(init=False)
    data_range_: Array = field(init=False)
    scale_: Array = field(init=False)
    min_: Array = field(init=False)

    def _sums(self, table: PublicTable, n_features: int, distribution: str) -> Sequence[Sum]:
        self._range()
        return [counts_of(table, check_bounds(self.bounds, n_features), distribution)]

    def _range(self) -> tuple[float, float]:
        try:
            low, high = (finite("feature_range", end) for end in self.feature_range)
        except TypeError:
            low, high = 1.0, 0.0
        if not low < high:
            raise InvalidParameterError(
                f"feature_range must be (low, high) with low < high, got {self.feature_range!r}."
            )
        return low, high

    def _parts(self, X: Any) -> Sequence[Parts]:
        bounds = check_bounds(self.bounds, X.shape[1])
        edges = column_cells(bounds)
        return [lambda: cells_of(bounds.of(X), edges)]

    def _learn(self, sums: ReleasedSums, n: int) -> None:
        bounds = check_bounds(self.bounds, self.n_features_in_)
        surely = _SURELY["Laplace" if sums.statement.delta == 0.0 else "Gaussian"] * sums.deviations[0]
        found = [occupied(counts, ends, surely) for ends, counts in by_column(sums.answers[0], bounds)]
        smallest, largest = (np.array(side) for side in zip(*found, strict=True))
        low, high = self._range()
        scale = (high - low) / (largest - smallest)
        self.data_min_, self.data_max_ = (bounds.filled(ends, np.nan) for ends in (smallest, largest))
        self.data_range_ = self.data_max_ - self.data_min_
        self.scale_, self.min_ = bounds.filled(scale, 1.0), bounds.filled(low - smallest * scale, 0.0)

    def transform(self, X: Any) -> Array:
        """Bring rows into the range.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Missing values stay missing.
        """
        table = self.read(X, fitting=False)
        bounds = check_bounds(self.bounds, self.n_features_in_)
        ends, maps = (self.data_min_, self.data_max_), (self.scale_, self.min_)
        low, high, scale, shift = (bounds.of(numbers[None]) for numbers in (*ends, *maps))
        inside = np.clip(bounds.of(table), low, high) * scale + shift
        return bounds.with_changed(table, np.clip(inside, *self._range()))

    def inverse_transform(self, X: Any) -> Array:
        """Undo the shift and the scale; what was clipped stays clipped.

        Parameters
        ----------
        X : array of shape (rows, columns)
            As `transform` returned it.
        """
        return np.asarray((read_plain(self, X) - self.min_) / self.scale_)


def occupied(counts: Array, ends: Array, surely: float) -> tuple[float, float]:
    """Where a noisy histogram has more than noise: the outer ends of the outermost such cells, or of windows of cells.

    Parameters
    ----------
    counts : array
        Noisy counts.
    ends : array
        The ends of the cells, one more than there are counts.
    surely : float
        What one count must exceed; √m times that for a window of m cells.
    """
    first, last = _first_full(counts, surely), counts.size - _first_full(counts[::-1], surely)
    # Nothing but noise: the declared range.
    return (float(ends[first]), float(ends[last])) if first < last else (float(ends[0]), float(ends[-1]))


def _first_full(counts: Array, surely: float) -> int:
    """The first cell of the first window of 1, 2, 4, … cells that holds more than noise; 0 if there is none."""
    total = np.concatenate([[0.0], np.cumsum(counts)])
    for end in range(1, counts.size + 1):
        length = 1
        while length <= end:
            if total[end] - total[end - length] > surely * length**0.5:
                return end - length
            length *= 2
    return 0
