"""What the regression models share: a declared range of the target, its units, scores."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dperm.errors import InvalidParameterError
from dperm.models.base import Array, PrivateEstimator, Reading
from dperm.models.bounds import SAY_THE_SCALE
from dperm.models.linear import PrivateGLM
from dperm.models.weights import facts_of_weights, weights_of_rows, weights_of_table
from dperm.plan.fit_plan import Release
from dperm.plan.options import FitOptions
from dperm.rows.arrays import ArraySource
from dperm.rows.dask_client import is_frame
from dperm.rows.encoding import check_table, target_numbers
from dperm.rows.labels import numeric_target, read_table, read_target
from dperm.rows.table import Table
from dperm.schema import Amount, Number, Schema
from dperm.schema.checks import interval
from dperm.validation import positive


@dataclass(eq=False, repr=False, kw_only=True)
class Regressor(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """A predictor of a number of a declared range; the concrete one names its problem and predicts.

    With a schema the target's declared range stands for the range of the loss.
    """

    target_bound: Any = 1.0

    target_kind = Amount
    # The smallest target without a schema, over the largest.
    lowest: ClassVar[float] = -1.0
    # What of a target its loss is least at.
    centre: ClassVar[str] = "the mean (with few rows, too low for a target with a long tail)"
    own_parameters: ClassVar[tuple[str, ...]] = ("target_bound",)

    def _check_schema(self, schema: Schema) -> None:
        super()._check_schema(schema)
        if self.target_bound != type(self).target_bound:
            raise InvalidParameterError("target_bound cannot be combined with a schema, which declares the range.")

    def _move_target(self, column: str, y: Any) -> Amount:
        given, self.target_bound = self.target_bound, type(self).target_bound
        if given is None or isinstance(given, str | Mapping):
            raise InvalidParameterError(f"target_bound must be a number or (lower, upper), got {given!r}.")
        if hasattr(given, "__len__"):
            return Amount(column, interval("target_bound", given))
        high = positive("target_bound", given)
        return Amount(column, (self.lowest * high, high))

    @property
    def _bound(self) -> float:
        """The largest target in the units of the loss."""
        return self.target_bound if self.schema is None else 1.0

    def _read(
        self, X: Any, y: Any, options: FitOptions, sample_weight: Any = None, groups: Any = None
    ) -> Reading:  # fmt: skip
        said = facts_of_weights(self, sample_weight is not None)
        if options.schema is not None:
            weights = weights_of_table(self, X, sample_weight)
            return Reading(Table.of(X).source(y, options.schema, weights), options, said)
        table = read_table(self, X, fitting=True)
        target = numeric_target(read_target(self, y, table.shape[0]), majority=options.unit is None)
        weights = weights_of_rows(self, sample_weight, table.shape[0])
        return Reading(ArraySource(table, target, weights, groups, options.unit), options, said)

    def predict(self, X: Any) -> Array:
        """What is expected of every row, within the target's declared range.

        Of a Dask frame a Dask series, which is computed when it is needed.
        """
        if is_frame(X):
            return self._by_partition(X, np.empty(0))  # type: ignore[no-any-return]
        return self._taken_back(np.clip(self._predicted(X), *self._span))

    @property
    def _span(self) -> tuple[float, float]:
        """The declared range of what is predicted: of the target, or of its logarithm."""
        if self.schema_ is not None:
            return number_of(self.schema_).span
        assert self.privacy_.target_range is not None
        return self.privacy_.target_range

    def _taken_back(self, predicted: Array) -> Array:
        """From the logarithm to the target, where the schema declares one."""
        if self._logarithm is None or self.schema_ is None:
            return predicted
        number = number_of(self.schema_)
        return np.clip(number.taken_back(predicted), *number.bounds)

    @property
    def _logarithm(self) -> str | None:
        """What the schema says is taken of the target before it is fitted."""
        return None if self.schema_ is None else number_of(self.schema_).transform

    @property
    def predicts(self) -> str:
        """What of the target a prediction is about."""
        if self._logarithm is None:
            return self.centre
        return (
            "the median, because the model is fitted to the logarithm. For a target with a long tail the median is "
            "below the mean"
        )

    def _within_range(self, plain: Any) -> Any:
        """An estimator of scikit-learn whose predictions are clipped as these are."""
        from sklearn.compose import TransformedTargetRegressor  # not every user of dperm needs it
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import FunctionTransformer

        low, high = self._span
        back: Any = FunctionTransformer(inverse_func=np.clip, inv_kw_args={"a_min": low, "a_max": high})
        if self._logarithm is not None:
            of_logarithm = FunctionTransformer(inverse_func=np.exp if self._logarithm == "log" else np.expm1)
            back = Pipeline([("logarithm", of_logarithm), ("clip", back)])
        wrapper = TransformedTargetRegressor(plain, transformer=back)
        wrapper.regressor_, wrapper.transformer_, wrapper._training_dim = plain, back, 1
        return wrapper

    @abstractmethod
    def _predicted(self, X: Any) -> Array:
        """What is expected of every row of a table in memory, before it is clipped."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R². With a schema y may be the table's own target column, clipped to its range; rows without it are left out.

        The score of sensitive rows is a fact about them, which no guarantee covers; use `private_evaluate`.
        """
        from sklearn.metrics import r2_score

        return self._score(r2_score, X, y, sample_weight)

    def _score(self, measure: Any, X: Any, y: Any, sample_weight: Any) -> float:
        check_is_fitted(self, "privacy_")
        if self.schema_ is None:
            return float(measure(y, self.predict(X), sample_weight=sample_weight))
        check_table(X, y, self.schema_)
        truth = np.clip(target_numbers(X, y, self.schema_), *number_of(self.schema_).bounds)
        known = np.isfinite(truth)
        if not known.any():
            raise InvalidParameterError("no row has a target: nothing to score.")
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(measure(truth[known], self.predict(X)[known], sample_weight=weights))

    def __sklearn_tags__(self) -> Any:
        """Noise may lower the score on a small table."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRegressor(Regressor, PrivateGLM):
    """A linear predictor of a number; the concrete one names its loss and its prediction.

    With a schema coefficients are given in the target's own units. The identity is the default link: a prediction is
    ⟨coef, x⟩ + intercept.
    """

    @property
    def score_words(self) -> str:  # type: ignore[override]
        """What the sum of entries times coefficients is called in pictures."""
        of = {None: "prediction", "log": "logarithm of the prediction"}
        return of.get(self._logarithm, "logarithm of 1 plus the prediction")

    @property
    def prediction(self) -> str:
        """How the report says what a prediction is."""
        total = "the intercept plus every entry times its coefficient"
        says = {None: f"The prediction is {total}", "log": f"The prediction is e to the power of {total}"}
        plus_one = f"1 plus the prediction is e to the power of {total}"
        return f"{says.get(self._logarithm, plus_one)}. It estimates {self.predicts}."

    def _default_norm(self) -> float:
        """None: coefficients of rows that are clipped to an arbitrary length predict no amount."""
        raise InvalidParameterError(SAY_THE_SCALE)

    def _own_units(self, schema: Schema) -> tuple[float, float, float]:
        """What takes a margin of the loss to the target's own units: a factor, and two numbers to add."""
        low, high = number_of(schema).span
        return (high - low) / 2.0, low / 2.0, high / 2.0

    def _keep_matrix(self, matrix: Array, intercepts: Array, release: Release) -> None:
        self.coef_, self.intercept_ = matrix[0], float(intercepts[0])
        if release.schema is not None:
            unit, low, high = self._own_units(release.schema)
            noise = self.privacy_.coefficient_noise
            self.privacy_ = replace(self.privacy_, coefficient_noise=None if noise is None else unit * noise)
            self.coef_, self.intercept_ = unit * self.coef_, float(unit * self.intercept_ + low + high)

    def _to_own_units(self, values: Array) -> Array:
        """In the target's own units."""
        found = super()._to_own_units(values)
        if self.schema_ is not None:
            unit, low, high = self._own_units(self.schema_)
            found = unit * found
            if self.uncertainty_ is not None and self.uncertainty_.constant:
                found[..., -1] += low + high
        return found

    def _loss_coefficients(self) -> tuple[Array, Array]:
        """Coefficients and intercept for a target in the range of the loss."""
        if self.schema_ is None:
            return super()._loss_coefficients()
        unit, low, high = self._own_units(self.schema_)
        return np.atleast_2d(self.coef_) / unit, np.atleast_1d((self.intercept_ - low - high) / unit)

    def _as_plain(self, estimator: Any, **attributes: Any) -> Any:
        return self._within_range(super()._as_plain(estimator, **attributes))

    def _predicted(self, X: Any) -> Array:
        return self._of_margins(self._margins(X)[:, 0])

    def _of_margins(self, margins: Array) -> Array:
        """Predictions: the identity is the default link."""
        return margins


def number_of(schema: Schema) -> Number:
    """The target as a number with a range."""
    if not isinstance(schema.target, Amount):
        raise InvalidParameterError("the schema's target has no range.")
    return schema.target.number
