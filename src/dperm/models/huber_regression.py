"""Private robust regression with the Huber loss."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.models.regressor import LinearRegressor
from dperm.problem import Problem
from dperm.problem.losses import Huber
from dperm.validation import positive


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateHuberRegression(LinearRegressor):
    """Robust regression with (ε, δ)-differential privacy.

    Minimises the mean Huber loss plus r(w) over C: squared for residuals up to `threshold`, linear beyond. One row's
    slope is at most that threshold, so no bounded domain is needed and outlying targets do little harm. For a skewed
    target its predictions lie between the median and the mean, the nearer to the median the smaller the threshold.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ should be well below 1/n.
    threshold : float
        Where the loss turns from squared to linear, in units of the target; with a schema, of half its range.
    target_bound : float
        Targets and predictions are clipped to [−target_bound, target_bound]: a public number, never measured. With
        `bounds` also (low, high).
    row_norm, bounds
        As in `PrivateLogisticRegression`. Without a schema one of them is required: there is no default.
    penalty, domain, solver, entry_bound, fit_intercept, intervals, adjacency, noise, accountant
        As in `PrivateLogisticRegression`.
    unit : str, optional
        Column identifying the privacy unit, e.g. "patient_id": all rows of a unit are protected together, and n is the
        number of units. By default each row is its own unit.
    max_rows_per_unit, contribution, missing_units
        As in `PrivateLogisticRegression`.
    n, schema, budget, weight_bound, private_weights, start
        As in `PrivateLogisticRegression`.
    n_jobs, random_state, verbose, row_warnings
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    coef_ : array of shape (columns,)
        Released coefficients.
    intercept_ : float
        Released intercept.
    privacy_, event_
        As in `PrivateLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateHuberRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 2)) / 3; y = 0.5 * X[:, 0]
    >>> model = PrivateHuberRegression(epsilon=1.0, delta=1e-6, threshold=0.5, row_norm=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    threshold: float = 1.0

    kind = "huber"
    centre = "something between the median and the mean, as far residuals count less"
    title = "Huber regression"
    own_parameters = (*LinearRegressor.own_parameters, "threshold")

    def _problem(self) -> Problem:
        bound = positive("target_bound", self._bound)
        return self._problem_with(Huber(threshold=positive("threshold", self.threshold), target_bound=bound))

    def to_sklearn(self) -> Any:
        """A plain scikit-learn `HuberRegressor` with the same coefficients, clipped as `predict` is.

        It is the `regressor_` of a `TransformedTargetRegressor`, which keeps predictions in the target's range. It
        stands behind a step that clips rows, or scales them by bounds, as the fit did; with a schema of a table's
        columns it is for rows as `encode` returns them.
        """
        from sklearn.linear_model import HuberRegressor  # not every user of dperm needs it

        return self._as_plain(HuberRegressor(), scale_=1.0, n_iter_=0, outliers_=np.zeros(0, dtype=bool))
