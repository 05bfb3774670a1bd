"""What the three scikit-learn faces share: from validated parameters to released coefficients."""

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dperm.accounting.guarantee import Adjacency, Guarantee
from dperm.accounting.ledger import Budget
from dperm.errors import InvalidParameter
from dperm.planning.fitting import PricedFit, Release, check_budget, check_noise, check_schema, price, solve
from dperm.problem import Problem
from dperm.problem.domains import WholeSpace
from dperm.problem.losses import Loss
from dperm.problem.regularizers import NoRegularizer
from dperm.progress import ProgressBar
from dperm.release.content import content_of
from dperm.release.statement import PrivacyStatement
from dperm.schema import Schema
from dperm.solvers import check_solver
from dperm.trusted.noise import check_random_state
from dperm.trusted.sources import Source
from dperm.trusted.sources.encoding import encode_rows
from dperm.trusted.sources.labels import read_table
from dperm.validation import count, positive

Array = NDArray[np.float64]


class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """Parameters and steps common to all estimators; see a concrete one for their meaning."""

    epsilon: float
    delta: float
    penalty: Any
    domain: Any
    solver: Any
    row_norm: float
    entry_bound: float | None
    fit_intercept: bool
    adjacency: str
    noise: str | None
    accountant: str
    n: int | None
    schema: Schema | None
    budget: Budget | None
    random_state: Any
    verbose: bool

    coef_: Array
    intercept_: Any
    privacy_: PrivacyStatement
    schema_: Schema | None
    ledger_entry_: dict[str, Any] | None

    # The model's name in files and on the command line.
    kind: ClassVar[str]

    def _problem(self, loss: Loss, weight_bound: float = 1.0) -> Problem:
        return Problem(
            loss=loss,
            regularizer=NoRegularizer() if self.penalty is None else self.penalty,
            domain=WholeSpace() if self.domain is None else self.domain,
            row_norm=positive("row_norm", self.row_norm) if self.schema is None else self.schema.bound,
            intercept=bool(self.fit_intercept),
            weight_bound=weight_bound,
            entry_bound=self.entry_bound if self.schema is None else 1.0,
        )

    def check_parameters(self) -> None:
        """Raise if a parameter is wrong: the first line of a fit, before any row is read."""
        check_noise(self.noise, self._guarantee(), self.accountant)
        Adjacency.parse(self.adjacency)
        if self.schema is not None:
            check_schema(self.schema)
            if self.row_norm != 1.0 or self.entry_bound is not None:
                raise InvalidParameter("with a schema leave row_norm and entry_bound out: it declares the bounds.")
        check_budget(self.budget, self.random_state)
        check_solver(self.solver, self._planned_problem(), self._guarantee())
        if self.n is not None:
            count("n", self.n)
        check_random_state(self.random_state)

    def check_room(self, X: Any = None) -> None:
        """Raise if the budget has no room for the fit, from public numbers or the shape of X: no value is looked at."""
        shape = getattr(X, "shape", (None, None))
        n = self.n if self.schema is None else self.n or self.schema.n
        if self.budget is None or len(shape) != 2 or (n is None and shape[0] is None):
            return
        if self.schema is not None or shape[1] is not None:
            priced = self.plan(n or shape[0], shape[1])
            self.budget.check(priced.paid.event(), priced.setting.adjacency)

    def _forget(self) -> None:
        """Drop an earlier fit, so that a failing one does not leave a mixture."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _guarantee(self) -> Guarantee | None:
        return None if self.noise is None else Guarantee(self.epsilon, self.delta)

    def plan(self, n: int | None = None, n_features: int | None = None) -> PricedFit:
        """The price and the noise of a fit, from public numbers alone.

        Parameters
        ----------
        n, n_features : int
            Shape of the table that would be fitted; a schema may declare n, and knows the number of columns.

        Examples
        --------
        >>> from dperm import PrivateLogisticRegression
        >>> PrivateLogisticRegression(epsilon=1.0).plan(n=200_000, n_features=54).solver.name
        'dp-objective'
        """
        if self.schema is not None:
            n, n_features = (self.schema.n if n is None else n), self.schema.n_features
        return price(
            self._planned_problem(),
            count("n", n),
            count("n_features", n_features),
            guarantee=self._guarantee(),
            solver=self.solver,
            adjacency=self.adjacency,
            noise=self.noise,
            accountant=self.accountant,
            schema=self.schema,
        )

    @abstractmethod
    def _planned_problem(self) -> Problem:
        """What a fit with these parameters minimises."""

    def _fit(self, problem: Problem, source: Source) -> Release:
        bar = ProgressBar(type(self).__name__) if self.verbose else nullcontext()
        with bar as progress:
            return solve(
                problem,
                source,
                guarantee=self._guarantee(),
                solver=self.solver,
                adjacency=self.adjacency,
                noise=self.noise,
                accountant=self.accountant,
                n=self.n,
                schema=self.schema,
                budget=self.budget,
                random_state=self.random_state,
                progress=progress,
            )

    def _keep(self, release: Release, problem: Problem, **facts: Any) -> None:
        """Store what was released, in scikit-learn's shapes, and nothing else."""
        matrix = release.w.reshape(problem.loss.n_outputs, -1)
        if problem.intercept:
            self.coef_ = matrix[:, :-1].copy()
            self.intercept_ = problem.intercept_value * matrix[:, -1]
        else:
            self.coef_ = matrix.copy()
            self.intercept_ = np.zeros(problem.loss.n_outputs)
        self.privacy_ = replace(release.privacy, **facts)
        self.event_ = release.event
        self.schema_, entry = release.schema, release.reservation
        if self.schema_ is not None:
            self.feature_names_in_ = np.asarray(list(self.schema_.columns), dtype=object)
            self.n_features_in_ = len(self.schema_.columns)
        self.ledger_entry_ = (
            None if entry is None else {"dataset": entry.budget.dataset, "number": entry.number, "digest": entry.digest}
        )

    def _settle(self, release: Release) -> None:
        """Tell the ledger what was released: the last line of a fit."""
        if release.reservation is not None:
            release.reservation.settle(content_of(self)["fingerprint"])

    def encode(self, X: Any) -> Any:
        """The rows that the coefficients belong to: a table encoded by the schema, or X itself without one.

        Parameters
        ----------
        X : table or array
            What `predict` takes.
        """
        check_is_fitted(self, "coef_")
        if self.schema_ is None:
            return read_table(self, X, fitting=False)
        return encode_rows(X, self.schema_, fitting=False)

    def _margins(self, X: Any) -> Array:
        return np.asarray(self.encode(X) @ np.atleast_2d(self.coef_).T + self.intercept_)

    @abstractmethod
    def to_sklearn(self) -> Any:
        """A plain scikit-learn estimator with the same coefficients, for rows as `encode` returns them."""

    def _as_plain(self, estimator: Any, **attributes: Any) -> Any:
        """Hand the coefficients over to an estimator of scikit-learn."""
        check_is_fitted(self, "coef_")
        estimator.coef_, estimator.intercept_ = np.array(self.coef_), np.array(self.intercept_)
        estimator.n_features_in_ = self.coef_.shape[-1]
        for name, value in attributes.items():
            setattr(estimator, name, value)
        return estimator

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are welcome, missing values are bounded, and noise may spoil any score."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        tags.non_deterministic = self.random_state is None
        return tags


def check_classes(classes: Any) -> tuple[Any, ...]:
    """Read a declared list of classes, or raise."""
    try:
        labels = () if isinstance(classes, str) else tuple(getattr(classes, "tolist", lambda: classes)())
        different = len(set(labels)) == len(labels)
    except TypeError:
        labels, different = (), False
    if len({isinstance(label, str) for label in labels}) > 1:
        raise InvalidParameter("classes must be all text or all numbers.")
    if len(labels) < 2 or not different:
        raise InvalidParameter("classes must list at least two different labels: one class leaves nothing to learn.")
    return labels


def check_class_weight(class_weight: Any, classes: tuple[Any, ...]) -> tuple[float, ...] | None:
    """Read public class weights, or raise; weights from the data would leak it."""
    if class_weight is None:
        return None
    if not isinstance(class_weight, dict):
        raise InvalidParameter(
            "class_weight must be None or a dict from class to a public weight; "
            f"{class_weight!r} would have to be computed from the rows."
        )
    unknown = set(class_weight) - set(classes)
    if unknown:
        raise InvalidParameter("class_weight names a class that is not declared.")
    return tuple(positive("class_weight", class_weight.get(label, 1.0)) for label in classes)
