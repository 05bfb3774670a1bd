"""Principal components from a noisy second moment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted

from dperm.errors import InvalidParameterError
from dperm.kernel.symmetric import to_matrix
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.second_moment import SecondMoment
from dperm.mechanisms.setting import PublicTable
from dperm.models.row_by_row import products, sums
from dperm.plan.sums import Parts, ReleasedSums, Sum
from dperm.rows.column_parts import rows_of
from dperm.transformers.base import Array, PrivateTransformer
from dperm.validation import count, size


@dataclass(eq=False, repr=False, kw_only=True)
class PrivatePCA(ClassNamePrefixFeaturesOutMixin, PrivateTransformer):  # type: ignore[misc]
    """Project rows on private principal components.

    They are those of a noisy covariance: a noisy second moment, less that of a noisy mean.
    Proof: docs/proofs/preprocessing.md.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, with δ > 0.
    row_norm : float
        Every row is clipped to this l2 norm, here and in `transform`: required. Scale columns before, by public numbers
        or a private scaler.
    n_components : int or None
        How many components; all of them for None. How many are enough cannot be read from the rows.
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
    components_, mean_, explained_variance_, explained_variance_ratio_, n_components_
        As in scikit-learn, noisy. A negative eigenvalue of the noisy matrix counts as 0.
    noise_deviation_ : float
        Standard deviation of the noise on a variance: components whose variance is below √columns times this are noise.
    privacy_ : PrivacyStatement
        The guarantee.
    event_ : Event
        The accounting event.

    Notes
    -----
    A row with a value that is not finite adds nothing, and comes out of `transform` as missing.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivatePCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1)) @ [[0.3, 0.4]] + 0.01 * rng.normal(size=(5000, 2))
    >>> pca = PrivatePCA(1.0, 1e-6, row_norm=1.0, n_components=1).fit(X)
    >>> bool(abs(pca.components_[0] @ [0.6, 0.8]) > 0.99)
    True
    """

    row_norm: float | None = None
    n_components: int | None = None

    components_: Array = field(init=False)
    mean_: Array = field(init=False)
    explained_variance_: Array = field(init=False)
    explained_variance_ratio_: Array = field(init=False)
    n_components_: int = field(init=False)
    noise_deviation_: float = field(init=False)

    share: ClassVar[float] = 0.25
    divides_by_n = True

    # A fifth of the precision is for the mean, which is a vector and not a matrix.
    _relative_noise = (1.0, 2.0)

    def _sums(self, table: PublicTable, n_features: int, distribution: str) -> Sequence[Sum]:
        if distribution != "Gaussian":
            raise InvalidParameterError("PrivatePCA adds Gaussian noise, which needs a delta above 0.")
        self.n_features_out(n_features)
        norm = self._bound()
        words = f"of rows with {n_features} columns"
        return [
            SecondMoment(table, f"second moment {words}", n_features, norm),
            BoundedSum(table, f"mean {words}", n_features, norm),
        ]

    def _bound(self) -> float:
        if self.row_norm is None:
            raise InvalidParameterError(
                "row_norm must be declared: rows are clipped to it, and it must not be read from the rows."
            )
        return size("row_norm", self.row_norm)

    def n_features_out(self, n_features: int) -> int:
        """The number of components: public."""
        if self.n_components is None:
            return n_features
        if isinstance(self.n_components, str | float) or count("n_components", self.n_components) > n_features:
            raise InvalidParameterError(
                f"n_components must be None or an integer from 1 to {n_features}, the number of columns, got "
                f"{self.n_components!r}."
            )
        return int(self.n_components)

    def _parts(self, X: Any) -> Sequence[Parts]:
        return [lambda: rows_of(X), lambda: rows_of(X)]

    def _learn(self, sums: ReleasedSums, n: int) -> None:
        self.mean_ = sums.answers[1] / n
        moment = to_matrix(sums.answers[0] / n, self.n_features_in_)
        values, vectors = np.linalg.eigh(moment - np.outer(self.mean_, self.mean_))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1].T
        # The largest entry of every component is positive: which sign comes out is a matter of the machine.
        signs = np.sign(vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)])
        kept = self.n_features_out(self.n_features_in_)
        self.components_ = vectors[:kept] * signs[:kept, None]
        self.explained_variance_, total = values[:kept], float(values.sum())
        self.explained_variance_ratio_ = values[:kept] / total if total > 0.0 else np.zeros(kept)
        self.n_components_, self.noise_deviation_ = kept, sums.deviations[0] / n

    @property
    def _n_features_out(self) -> int:
        """What scikit-learn names columns by."""
        return len(self.components_)

    def transform(self, X: Any) -> Array:
        """Clip rows to `row_norm`, shift them and project them.

        Parameters
        ----------
        X : array or data frame of shape (rows, columns)
            A row with a value that is not finite becomes missing.
        """
        table = np.array(self.read(X, fitting=False), dtype=np.float64)
        table[~np.isfinite(table).all(axis=1)] = np.nan
        largest = np.abs(table).max(axis=1, keepdims=True, initial=0.0)  # squares of large numbers overflow
        with np.errstate(invalid="ignore"):
            units = table / np.where(largest > 0.0, largest, 1.0)
            norms = np.sqrt(sums(units**2))[:, None]
            factor = np.minimum(largest, self._bound() / np.where(norms > 0.0, norms, 1.0))
        return products(units * factor - self.mean_, self.components_)

    def inverse_transform(self, X: Any) -> Array:
        """Rows that have these coordinates, as far as the components reach.

        Parameters
        ----------
        X : array of shape (rows, components)
            As `transform` returned it.
        """
        check_is_fitted(self, "privacy_")
        coordinates = np.asarray(X, dtype=np.float64)
        if coordinates.ndim != 2 or coordinates.shape[1] != len(self.components_):
            raise InvalidParameterError(
                f"rows must have {len(self.components_)} coordinates, got a shape of {coordinates.shape}."
            )
        return np.asarray(coordinates @ self.components_ + self.mean_)
