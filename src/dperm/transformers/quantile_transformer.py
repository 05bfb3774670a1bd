"""Columns by their noisy quantiles."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.base import OneToOneFeatureMixin
from sklearn.isotonic import isotonic_regression

from dperm.errors import InvalidParameterError
from dperm.mechanisms.setting import PublicTable
from dperm.plan.sums import Parts, ReleasedSums, Sum
from dperm.rows.column_parts import cells_of
from dperm.transformers.base import Array, Bounds, PrivateTransformer, check_bounds
from dperm.transformers.cells import by_column, column_cells, counts_of
from dperm.transformers.standard_scaler import read_plain
from dperm.validation import count, one_of

# Normal values are cut where scikit-learn cuts them: at ±5.2.
_SMALLEST = 1e-7
# A distribution function that rises a little everywhere can be inverted.
_SLOPE = 1e-9


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateQuantileTransformer(OneToOneFeatureMixin, PrivateTransformer):  # type: ignore[misc]
    """Bring columns into a uniform or a normal distribution, by private quantiles.

    They come from noisy histograms over the declared ranges (docs/proofs/preprocessing.md).

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ = 0 takes Laplace noise.
    bounds : (low, high), or one such pair per column
        None instead of a pair passes a column through unchanged, at no cost, e.g. encoded categories.
        The public range of the values: required. Values beyond are clipped. Cells are finer towards its ends and
        towards 0, so a range that is far too wide does little harm.
    n_quantiles : int
        How many quantiles are kept.
    output_distribution : {"uniform", "normal"}
        Values from 0 to 1, so that a row is at most √columns long, or from −5.2 to 5.2.
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
    quantiles_, references_ : arrays
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
    >>> from dperm import PrivateQuantileTransformer
    >>> incomes = np.random.default_rng(0).lognormal(10, 1, size=(20_000, 1))
    >>> ranks = PrivateQuantileTransformer(1.0, 1e-6, bounds=(0, 1e7)).fit_transform(incomes)
    >>> bool(abs(np.median(ranks) - 0.5) < 0.05)
    True
    """

    bounds: Any = None
    n_quantiles: int = 100
    output_distribution: str = "uniform"

    quantiles_: Array = field(init=False)
    references_: Array = field(init=False)

    def _sums(self, table: PublicTable, n_features: int, distribution: str) -> Sequence[Sum]:
        one_of("output_distribution", self.output_distribution, ("uniform", "normal"))
        if count("n_quantiles", self.n_quantiles) < 2:
            raise InvalidParameterError("n_quantiles must be at least 2.")
        return [counts_of(table, check_bounds(self.bounds, n_features), distribution)]

    def _parts(self, X: Any) -> Sequence[Parts]:
        bounds = check_bounds(self.bounds, X.shape[1])
        edges = column_cells(bounds)
        return [lambda: cells_of(bounds.of(X), edges)]

    def _learn(self, sums: ReleasedSums, n: int) -> None:
        bounds = check_bounds(self.bounds, self.n_features_in_)
        self.references_ = np.linspace(0.0, 1.0, self.n_quantiles)
        columns = [
            np.interp(self.references_, distribution_of(counts), ends)
            for ends, counts in by_column(sums.answers[0], bounds)
        ]
        self.quantiles_ = bounds.filled(np.column_stack(columns), np.nan)

    def transform(self, X: Any) -> Array:
        """The share of rows below every value, or the normal value of that share.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            Missing values stay missing.
        """
        table, ranks = self.read(X, fitting=False), self.references_
        bounds = check_bounds(self.bounds, self.n_features_in_)
        # Where quantiles coincide the middle of their shares, as in scikit-learn.
        shares = np.column_stack(
            [
                0.5 * (np.interp(column, at, ranks) - np.interp(-column, -at[::-1], -ranks[::-1]))
                for column, at in zip(*self._columns(bounds, table), strict=True)
            ]
        )
        if self.output_distribution == "normal":
            shares = norm.ppf(np.clip(shares, _SMALLEST, 1.0 - _SMALLEST))
        return bounds.with_changed(table, shares)

    def _columns(self, bounds: Bounds, table: Array) -> tuple[Array, Array]:
        """The declared columns of a table, and their quantiles."""
        return bounds.of(table).T.astype(np.float64), bounds.of(self.quantiles_).T

    def inverse_transform(self, X: Any) -> Array:
        """The values that have these shares of rows below them.

        Parameters
        ----------
        X : array of shape (rows, columns)
            As `transform` returned it.
        """
        table = read_plain(self, X)
        bounds = check_bounds(self.bounds, self.n_features_in_)
        shares, quantiles = self._columns(bounds, table)
        if self.output_distribution == "normal":
            shares = norm.cdf(shares)
        columns = zip(shares, quantiles, strict=True)
        return bounds.with_changed(
            table, np.column_stack([np.interp(column, self.references_, at) for column, at in columns])
        )


def distribution_of(counts: Array) -> Array:
    """The share of rows up to every end of a cell, from noisy counts: rising from 0 to 1."""
    even, total = np.linspace(0.0, 1.0, counts.size + 1), float(counts.sum())
    if total <= 0.0:
        return even
    shares = isotonic_regression(np.cumsum(counts)[:-1] / total, y_min=0.0, y_max=1.0)
    rising = np.concatenate([[0.0], shares, [1.0]])
    return np.asarray((1.0 - _SLOPE) * rising + _SLOPE * even)
