"""Columns of about mean 0 and deviation 1, from noisy moments."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin

from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.setting import PublicTable
from dperm.plan.sums import Parts, ReleasedSums, Sum
from dperm.rows.column_parts import moments_of
from dperm.transformers.base import Array, PrivateTransformer, check_bounds
from dperm.validation import positive

# A variance below this many standard deviations of its own noise cannot be told from 0.
_NOISE_FLOOR = 2.0


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateStandardScaler(OneToOneFeatureMixin, PrivateTransformer):  # type: ignore[misc]
    """Shift and scale columns by a private mean and a private standard deviation.

    Both come from one noisy vector, the first two moments of all columns within their declared ranges.
    Proof: docs/proofs/preprocessing.md.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ = 0 takes Laplace noise.
    bounds : (low, high), or one such pair per column
        None instead of a pair passes a column through unchanged, at no cost, e.g. encoded categories.
        The public range of the values: required. Values beyond are clipped, here and in `transform`. The noise is a
        share of the range, so a range ten times too wide costs ten times the noise.
    clip : float or None
        Standardised values are clipped to ±clip, so that a row is at most clip·√columns long. Give the model after it
        about `row_norm=√columns`, the length of a typical row.
    adjacency : {"replace_one", "add_remove"}
        Neighbouring relation: one record replaced, or one added/removed.
    n : int, optional
        The public number of rows or privacy units; by default that of X.
    unit : str, optional
        Column identifying the privacy unit, e.g. "patient_id": all rows of a unit are protected together. `fit` takes
        the ids as `groups`.
    max_rows_per_unit, contribution, missing_units
        As in `PrivateLogisticRegression`. `contribution` must be "average".
    budget : Budget, optional
        The dataset's budget in a ledger: the fit is reserved there before a row is read.
    random_state : int, optional
        Seed. Makes the fit reproducible, and the result not for release.

    Attributes
    ----------
    mean_, var_, scale_ : arrays
        As in scikit-learn, noisy. A variance is at least two standard deviations of its noise: a column whose spread
        cannot be told from the noise is not blown up.
    privacy_ : PrivacyStatement
        The guarantee.
    event_ : Event
        The accounting event.

    Notes
    -----
    A missing value counts as the middle of its range and stays missing in `transform`.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateStandardScaler
    >>> ages = np.random.default_rng(0).normal(40, 10, size=(5000, 1))
    >>> scaler = PrivateStandardScaler(1.0, 1e-6, bounds=(0, 100)).fit(ages)
    >>> bool(abs(scaler.mean_[0] - 40) < 1 and abs(scaler.scale_[0] - 10) < 1)
    True
    """

    bounds: Any = None
    clip: float | None = 3.0

    mean_: Array = field(init=False)
    var_: Array = field(init=False)
    scale_: Array = field(init=False)

    divides_by_n = True

    def _sums(self, table: PublicTable, n_features: int, distribution: str) -> Sequence[Sum]:
        n_columns = len(check_bounds(self.bounds, n_features).columns)
        if self.clip is not None:
            positive("clip", self.clip)
        # |u| + 1 − u² is at most 5/4, and u² + (1 − u²)² at most 1.
        bound = 1.25 * n_columns if distribution == "Laplace" else math.sqrt(n_columns)
        what = f"mean and second moment of {n_columns} columns"
        return [BoundedSum(table, what, 2 * n_columns, bound, distribution=distribution)]

    def _parts(self, X: Any) -> Sequence[Parts]:
        bounds = check_bounds(self.bounds, X.shape[1])
        return [lambda: moments_of(bounds.of(X), *bounds.ends)]

    def _learn(self, sums: ReleasedSums, n: int) -> None:
        bounds = check_bounds(self.bounds, self.n_features_in_)
        low, high = bounds.ends
        first, second = np.split(sums.answers[0] / n, 2)
        half, noise = high / 2.0 - low / 2.0, sums.deviations[0] / n
        mean = np.clip(first, -1.0, 1.0)
        variance = np.clip(second + 1.0, 0.0, 1.0) - mean**2
        # The variance of second − mean² by the noise, which is public.
        floor = _NOISE_FLOOR * noise * np.sqrt(1.0 + 4.0 * mean**2)
        self.mean_ = bounds.filled(low / 2.0 + high / 2.0 + half * mean, 0.0)
        self.var_ = bounds.filled(half**2 * np.clip(variance, np.minimum(floor, 1.0), 1.0), 1.0)
        self.scale_ = np.sqrt(self.var_)

    def transform(self, X: Any) -> Array:
        """Shift and scale rows, and clip them to ±clip.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Missing values stay missing.
        """
        table = self.read(X, fitting=False)
        bounds = check_bounds(self.bounds, self.n_features_in_)
        scaled = (np.clip(bounds.of(table), *bounds.ends) - bounds.of(self.mean_[None])) / bounds.of(self.scale_[None])
        if self.clip is not None:
            scaled = np.clip(scaled, -self.clip, self.clip)
        return bounds.with_changed(table, scaled)

    def inverse_transform(self, X: Any) -> Array:
        """Undo the shift and the scale; what was clipped stays clipped.

        Parameters
        ----------
        X : array of shape (rows, columns)
            As `transform` returned it.
        """
        return np.asarray(read_plain(self, X) * self.scale_ + self.mean_)


def read_plain(transformer: PrivateTransformer, X: Any) -> Array:
    """Numbers that a transformer made, whatever their columns are called."""
    return np.asarray(transformer.read(np.asarray(X), fitting=False), dtype=np.float64)
