"""A generalized linear model: a penalty, bounded rows, coefficients."""

import copy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dperm.errors import InvalidParameterError
from dperm.kernel.block import bounded_rows
from dperm.models.base import Array, PrivateEstimator, n_scores
from dperm.models.bounds import behind_encoding, by_schema, names_of, with_ids
from dperm.models.row_by_row import products
from dperm.models.summary import Intervals, Summary, intervals_of, summary_of
from dperm.plan.fit_plan import Release
from dperm.plan.start import LinearStart
from dperm.problem import Problem
from dperm.problem.domains import Domain, WholeSpace
from dperm.problem.losses import Loss
from dperm.problem.regularizers import L1, L2, NoRegularizer, Regularizer
from dperm.schema import Schema
from dperm.validation import one_of, positive, truth


def read_penalty(penalty: object) -> Regularizer:
    """The regularizer that a penalty names; the strength of one that is named by a word is found by rule.

    Parameters
    ----------
    penalty : Regularizer, float, "auto", "l2", "l1" or None
        A number is the strength of an l2 penalty, and 0 stands for none.
    """
    if isinstance(penalty, Regularizer):
        return penalty
    if penalty is None or (isinstance(penalty, int | float) and not isinstance(penalty, bool) and penalty == 0):
        return NoRegularizer()
    if isinstance(penalty, str):
        return L1() if one_of("penalty", penalty, ("auto", "l2", "l1")) == "l1" else L2()
    if isinstance(penalty, int | float) and not isinstance(penalty, bool):
        return L2(positive("penalty", penalty))
    raise InvalidParameterError(
        f"penalty must be 'auto', 'l2', 'l1', a number, a dperm Regularizer or None, got {penalty!r}."
    )


def read_start(start: Any) -> tuple[Array, Array]:
    """Public coefficients and intercepts as arrays, or raise."""
    try:
        coef, intercept = (np.array(part, dtype=np.float64) for part in tuple(start))
    except (TypeError, ValueError):
        coef = intercept = np.array(np.nan)
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise InvalidParameterError(
            "start must be (coef, intercept), finite numbers in the shapes of coef_ and intercept_."
        )
    return coef, intercept


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateGLM(PrivateEstimator):
    """What all linear models share."""

    penalty: Regularizer | float | str | None = "auto"
    domain: Domain | None = None
    row_norm: float | None = None
    entry_bound: float | None = None
    fit_intercept: bool = True
    start: Any = None

    coef_: Array = field(init=False)
    intercept_: Any = field(init=False)

    # What the sum of entries times coefficients is called in pictures.
    score_words: ClassVar[str] = "score"

    @property
    def _bounded_norm(self) -> float:
        """The norm that rows are clipped to: the schema's, or the declared one."""
        if self.schema is not None:
            return self.schema.bound
        return self._default_norm() if self.row_norm is None else positive("row_norm", self.row_norm)

    def _default_norm(self) -> float:
        """The norm where nobody declared one."""
        return 1.0

    def _problem_with(self, loss: Loss, domain: Domain | None = None, class_bound: float = 1.0) -> Problem:
        """The problem of this loss; `domain` is the model's own default, `class_bound` bounds the classes' weights."""
        default = WholeSpace() if domain is None else domain
        return Problem(
            loss=loss,
            regularizer=read_penalty(self.penalty),
            domain=default if self.domain is None else self.domain,
            row_norm=self._bounded_norm,
            intercept=truth("fit_intercept", self.fit_intercept),
            weight_bound=class_bound * positive("weight_bound", self.weight_bound),
            entry_bound=self.entry_bound if self.schema is None else 1.0,
        )

    def _linear_start(self) -> LinearStart | None:
        """The start in the units of the loss."""
        if self.start is None:
            return None
        coef, intercept = read_start(self.start)
        given = copy.copy(self)
        given.coef_, given.intercept_, given.schema_ = coef, intercept, self.schema
        if self.schema is not None and self.schema.target.column in self.schema.private_ranges:
            raise InvalidParameterError("start cannot be combined with a private target range.")
        matrix, intercepts = given._loss_coefficients()
        return LinearStart.of(np.asarray(matrix), np.asarray(intercepts))

    def _rules(self) -> dict[str, Any]:
        """The strength of a penalty that is a word, the size of the constant column, and intervals."""
        intervals = getattr(self, "intervals", False)
        return {"strength_by_rule": isinstance(self.penalty, str), "scaled_constant": True, "intervals": intervals}

    def _check_schema(self, schema: Schema) -> None:
        super()._check_schema(schema)
        if self.row_norm is not None or self.entry_bound is not None:
            raise InvalidParameterError(
                "row_norm and entry_bound cannot be combined with a schema, which determines them."
            )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters; with `deep` also the numbers of a penalty object, as `penalty__strength`."""
        values: dict[str, Any] = super().get_params(deep)
        if deep and isinstance(self.penalty, Regularizer) and is_dataclass(self.penalty):
            values |= {f"penalty__{part.name}": getattr(self.penalty, part.name) for part in fields(self.penalty)}
        return values

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `penalty__strength` and the like make a new penalty object."""
        numbers = {name: params.pop(name) for name in list(params) if name.startswith("penalty__")}
        super().set_params(**params)
        if numbers:
            known = self.get_params()
            unknown = [name for name in numbers if name not in known]
            if unknown:
                raise InvalidParameterError(f"{unknown[0]!r} is no parameter of the penalty {self.penalty!r}.")
            changed = {name.removeprefix("penalty__"): value for name, value in numbers.items()}
            self.penalty = replace(self.penalty, **changed)  # type: ignore[type-var]
        return self

    def _keep_coefficients(self, release: Release, problem: Problem) -> None:
        matrix, constant = release.w.reshape(problem.loss.n_outputs, -1), problem.intercept_value
        columns = matrix[:, :-1] if problem.intercept else matrix
        intercepts = constant * matrix[:, -1] if problem.intercept else np.zeros(problem.loss.n_outputs)
        self._keep_matrix(columns.copy(), intercepts, release)

    def _keep_matrix(self, matrix: Array, intercepts: Array, release: Release) -> None:
        """Store released coefficients, one row per output."""
        self.coef_, self.intercept_ = matrix, intercepts

    def released_numbers(self) -> dict[str, Any]:
        """Coefficients and intercepts."""
        return {"coef": np.asarray(self.coef_).tolist(), "intercept": np.asarray(self.intercept_).tolist()}

    def take_numbers(self, content: dict[str, Any], n_columns: int) -> None:
        """Coefficients and intercepts, one row of them per class if there are more than two."""
        self.coef_ = np.asarray(content["coef"], dtype=np.float64)
        intercept = np.asarray(content["intercept"], dtype=np.float64)
        self.intercept_ = intercept if intercept.ndim else float(intercept)
        shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((n_columns,), ())
        if hasattr(self, "classes_"):
            outputs = n_scores(len(self.classes_))
            shapes = ((outputs, n_columns), (outputs,))
        if (self.coef_.shape, intercept.shape) != shapes:
            raise ValueError("coef")
        if not (np.isfinite(self.coef_).all() and np.isfinite(intercept).all()):
            raise ValueError("coef")

    def _to_own_units(self, values: Array) -> Array:
        """Coefficients of a loss of one margin, the constant column's last if there is one, in the units of `coef_`.

        Ends of intervals go the same way: what is done to a number is increasing.
        """
        assert self.uncertainty_ is not None
        scale = np.ones(values.shape[-1])
        if self.uncertainty_.constant:
            scale[-1] = self.uncertainty_.constant
        return values * scale

    def confidence_intervals(self, level: float = 0.95) -> Intervals:
        """Intervals that cover sampling and privacy noise, from what a fit with `intervals` released.

        Parameters
        ----------
        level : float
            The share of such intervals that are to hold the true coefficient.

        Returns
        -------
        Intervals
            Arrays `estimate`, `standard_error`, `lower` and `upper`, and `names`; the intercept is last. See
            docs/intervals.md for what they cover.

        Examples
        --------
        >>> import numpy as np
        >>> from dperm import PrivateLinearRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-0.5, 0.5, size=(20000, 2)); y = 0.5 * X[:, 0] + 0.1 * rng.normal(size=20000)
        >>> model = PrivateLinearRegression(epsilon=2.0, delta=1e-6, intervals=True, row_norm=1.0).fit(X, y)
        >>> found = model.confidence_intervals()
        >>> found.names, bool((found.upper - found.lower < 0.5).all())
        (('x0', 'x1', 'intercept'), True)
        """
        check_is_fitted(self, "privacy_")
        return intervals_of(self, level)

    def summary(self, level: float = 0.95) -> Summary:
        """The coefficients as a table to print, with intervals where the fit released what they need.

        Parameters
        ----------
        level : float
            Of the intervals.
        """
        check_is_fitted(self, "privacy_")
        return summary_of(self, level)

    def _margins(self, X: Any) -> Array:
        """One line per row, which depends on that row alone, bit for bit: one row less moves no other."""
        return np.asarray(products(self.encode(X), np.atleast_2d(self.coef_)) + self.intercept_)

    def _loss_coefficients(self) -> tuple[Array, Array]:
        """Coefficients, one row per output, and intercepts in the units of the loss, whatever the target's own are."""
        return np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)

    def diagnose(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Any:
        """Exact facts about the rows of a fit, and what its noise did: for you who hold them, NOT FOR RELEASE.

        Parameters
        ----------
        X, y, sample_weight, groups
            What was fitted.

        Returns
        -------
        Diagnosis
            Prints as a short block; see docs/diagnose.md.
        """
        from dperm.models.diagnosis import diagnose  # it imports this module

        check_is_fitted(self, "privacy_")
        if self.bounds is None:
            return diagnose(self, X, y, sample_weight, groups)
        return diagnose(by_schema(self, names_of(self, X), y), with_ids(self, X, groups), y, sample_weight)

    def _as_plain(self, estimator: Any, **attributes: Any) -> Any:
        """Hand the coefficients to an estimator of scikit-learn; rows are clipped, or scaled by bounds, before it."""
        from sklearn.pipeline import Pipeline  # not every user of dperm needs it
        from sklearn.preprocessing import FunctionTransformer

        check_is_fitted(self, "privacy_")
        estimator.coef_, estimator.intercept_ = np.array(self.coef_), np.array(self.intercept_)
        estimator.n_features_in_ = self.coef_.shape[-1]
        for name, value in attributes.items():
            setattr(estimator, name, value)
        if self.schema_ is not None:
            return behind_encoding(self, estimator)
        bounds = {"row_norm": self.privacy_.row_norm, "entry_bound": self.privacy_.entry_bound}
        clip = FunctionTransformer(bounded_rows, accept_sparse=True, kw_args=bounds)
        return Pipeline([("clip", clip), ("model", estimator)])
