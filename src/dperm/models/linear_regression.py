"""Private linear regression."""

from dataclasses import dataclass
from typing import Any

from dperm.models.regressor import LinearRegressor
from dperm.problem import Problem
from dperm.problem.losses import Squared
from dperm.validation import positive


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLinearRegression(LinearRegressor):
    """Least squares with (ε, δ)-differential privacy.

    Minimises (1/n) Σ ½(⟨w, x⟩ − y)² + r(w) over C. The slope of the squared loss is unbounded, so beyond a
    residual of 2 · target_bound, which no prediction within the target's range has, the loss continues linearly. It
    predicts the mean: "auto" clips residuals during the fit, which biases predictions of a skewed target, and corrects
    the intercept by the mean residual at the end, as far as noise allows.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ should be well below 1/n.
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
    >>> from dperm import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform([18, 0], [90, 4000], size=(20000, 2)); y = 100 + 2 * X[:, 0] + rng.normal(size=20000)
    >>> model = PrivateLinearRegression(epsilon=1.0, delta=1e-6, bounds=([18, 0], [90, 4000]), target_bound=(0, 500))
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    """

    intervals: bool | float = False

    kind = "linear"
    title = "linear regression"

    def _problem(self) -> Problem:
        return self._problem_with(Squared(target_bound=positive("target_bound", self._bound)))

    def to_sklearn(self) -> Any:
        """A plain scikit-learn `LinearRegression` with the same coefficients, clipped as `predict` is.

        It is the `regressor_` of a `TransformedTargetRegressor`, which keeps predictions in the target's range. It
        stands behind a step that clips rows, or scales them by bounds, as the fit did; with a schema of a table's
        columns it is for rows as `encode` returns them.
        """
        from sklearn.linear_model import LinearRegression  # not every user of dperm needs it

        return self._as_plain(LinearRegression())
