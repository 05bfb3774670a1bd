"""What the three scikit-learn faces share: from validated parameters to released coefficients."""

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dperm.domains import WholeSpace
from dperm.errors import InvalidParameter
from dperm.fitting import PricedFit, Release, check_noise, minimize, price
from dperm.losses import Loss
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.statement import PrivacyStatement
from dperm.problem import Problem
from dperm.progress import ProgressBar
from dperm.regularizers import NoRegularizer
from dperm.solvers import check_solver
from dperm.trusted.noise import check_random_state
from dperm.trusted.rows import read_table
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
    random_state: Any
    verbose: bool

    coef_: Array
    intercept_: Any
    privacy_: PrivacyStatement

    def _problem(self, loss: Loss, weight_bound: float = 1.0) -> Problem:
        return Problem(
            loss=loss,
            regularizer=NoRegularizer() if self.penalty is None else self.penalty,
            domain=WholeSpace() if self.domain is None else self.domain,
            row_norm=positive("row_norm", self.row_norm),
            intercept=bool(self.fit_intercept),
            weight_bound=weight_bound,
            entry_bound=self.entry_bound,
        )

    def check_parameters(self) -> None:
        """Raise if a parameter is wrong: the first line of a fit, before any row is read."""
        check_noise(self.noise, self._guarantee(), self.accountant)
        Adjacency.parse(self.adjacency)
        check_solver(self.solver, self._planned_problem(), self._guarantee())
        if self.n is not None:
            count("n", self.n)
        check_random_state(self.random_state)

    def _forget(self) -> None:
        """Drop an earlier fit, so that a failing one does not leave a mixture."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _guarantee(self) -> Guarantee | None:
        return None if self.noise is None else Guarantee(self.epsilon, self.delta)

    def plan(self, n: int, n_features: int) -> PricedFit:
        """The price and the noise of a fit, from public numbers alone.

        Parameters
        ----------
        n, n_features : int
            Shape of the table that would be fitted.

        Examples
        --------
        >>> from dperm import PrivateLogisticRegression
        >>> PrivateLogisticRegression(epsilon=1.0).plan(n=200_000, n_features=54).solver.name
        'dp-objective'
        """
        return price(
            self._planned_problem(),
            n,
            n_features,
            guarantee=self._guarantee(),
            solver=self.solver,
            adjacency=self.adjacency,
            noise=self.noise,
            accountant=self.accountant,
        )

    @abstractmethod
    def _planned_problem(self) -> Problem:
        """What a fit with these parameters minimises."""

    def _fit(self, problem: Problem, table: Any, target: Array, weights: Array | None = None) -> Release:
        bar = ProgressBar(type(self).__name__) if self.verbose else nullcontext()
        with bar as progress:
            return minimize(
                problem,
                table,
                target,
                guarantee=self._guarantee(),
                solver=self.solver,
                adjacency=self.adjacency,
                noise=self.noise,
                accountant=self.accountant,
                n=self.n,
                weights=weights,
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

    def _margins(self, X: Any) -> Array:
        check_is_fitted(self)
        table = read_table(self, X, fitting=False)
        return np.asarray(table @ np.atleast_2d(self.coef_).T + self.intercept_)

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
