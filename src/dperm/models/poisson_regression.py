"""Private Poisson regression for counts."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.models.base import Array
from dperm.models.regressor import LinearRegressor, number_of
from dperm.problem import Problem
from dperm.problem.losses import Poisson
from dperm.schema import Schema
from dperm.validation import positive


@dataclass(eq=False, repr=False, kw_only=True)
class PrivatePoissonRegression(LinearRegressor):
    """Poisson regression for counts and rates, with (ε, δ)-differential privacy.

    The predicted rate is exp(⟨coef, x⟩ + intercept). Minimises the mean Poisson loss plus r(w) over C; beyond the rate
    `target_bound` the loss continues linearly, so that one row's slope is at most `target_bound`.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ should be well below 1/n.
    target_bound : float
        Counts and predictions are clipped to [0, target_bound]: a public number, never measured. The noise grows with
        it.
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
        As in `PrivateLogisticRegression`; the range that a schema declares for the target must begin at 0.

    Attributes
    ----------
    coef_ : array of shape (columns,)
        Released coefficients of the logarithm of the rate.
    intercept_ : float
        Released intercept.
    privacy_, event_
        As in `PrivateLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivatePoissonRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50000, 2)) / 3; y = rng.poisson(np.exp(X[:, 0]))
    >>> model = PrivatePoissonRegression(epsilon=2.0, delta=1e-6, target_bound=5.0, row_norm=1.0).fit(X, y)
    >>> bool(abs(model.predict(np.zeros((1, 2)))[0] - 1.0) < 0.2)
    True
    """

    target_bound: float = 10.0
    intervals: bool | float = False

    kind = "poisson"
    title = "Poisson regression"
    lowest = 0.0
    centre = "the mean"
    score_words = "logarithm of the prediction"
    prediction = (
        "The prediction is e to the power of the intercept plus every entry times its coefficient. "
        "It estimates the mean."
    )

    def _check_schema(self, schema: Schema) -> None:
        super()._check_schema(schema)
        number = schema.target.number  # type: ignore[union-attr]
        if number.transform is not None:
            raise InvalidParameterError("Poisson regression already models the logarithm: remove transform.")
        if not number.private and number.bounds[0] != 0.0:
            raise InvalidParameterError("Poisson regression needs a target whose declared range begins at 0.")

    def _problem(self) -> Problem:
        bound = positive("target_bound", self._bound)
        return self._problem_with(Poisson(margin_cap=math.log(bound), target_bound=bound))

    def _own_units(self, schema: Schema) -> tuple[float, float, float]:
        """From a rate in [0, 1] to the target's own: the logarithm moves."""
        low, high = number_of(schema).span
        return 1.0, math.log(high - low), 0.0

    def _of_margins(self, margins: Array) -> Array:
        """Expected counts."""
        return np.exp(margins)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """D², the share of the Poisson deviance that is explained, as in scikit-learn's `PoissonRegressor`.

        The score of sensitive rows is a fact about them, which no guarantee covers; use `private_evaluate`.
        """
        from sklearn.metrics import d2_tweedie_score

        def explained(truth: Any, predicted: Any, sample_weight: Any = None) -> float:
            return float(d2_tweedie_score(truth, predicted, sample_weight=sample_weight, power=1))

        return self._score(explained, X, y, sample_weight)

    def to_sklearn(self) -> Any:
        """A plain scikit-learn `PoissonRegressor` with the same coefficients, clipped as `predict` is.

        It is the `regressor_` of a `TransformedTargetRegressor`, which keeps predictions in the target's range. It
        stands behind a step that clips rows, or scales them by bounds, as the fit did; with a schema of a table's
        columns it is for rows as `encode` returns them.
        """
        from sklearn.linear_model import PoissonRegressor  # not every user of dperm needs it

        plain = PoissonRegressor()
        return self._as_plain(plain, n_iter_=0, _base_loss=plain._get_loss())
