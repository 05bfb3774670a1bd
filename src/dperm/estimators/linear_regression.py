"""Private linear regression."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dperm.accounting.ledger import Budget
from dperm.errors import InvalidParameter
from dperm.estimators.base import PrivateLinearModel
from dperm.planning.fitting import check_schema
from dperm.problem import Problem
from dperm.problem.domains import Domain, L2Ball
from dperm.problem.losses import Squared
from dperm.problem.regularizers import L2, Regularizer
from dperm.schema import Amount, Schema
from dperm.solvers import Solver
from dperm.trusted.sources import ArraySource, TableSource
from dperm.trusted.sources.encoding import check_table, encode_target
from dperm.trusted.sources.labels import read_table, read_target
from dperm.validation import positive

Array = NDArray[np.float64]


class PrivateLinearRegression(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Least squares with (ε, δ)-differential privacy.

    Minimises (1/n) Σ ½(⟨w, x⟩ − y)² + r(w) over C. The gradient of the squared loss is bounded only on a
    bounded C, so without a `domain` the coefficients lie in the l2 ball of radius 2 · target_bound / row_norm.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ should be well below 1/n.
    target_bound : float
        Targets are clipped to [−target_bound, target_bound]: a public number, never measured.
    penalty, domain, solver, row_norm, entry_bound, fit_intercept, adjacency, noise, accountant
        As in `PrivateLogisticRegression`.
    n, random_state, verbose
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
    >>> X = rng.normal(size=(20000, 2)) / 3; y = 0.5 * X[:, 0]
    >>> model = PrivateLinearRegression(epsilon=1.0, delta=1e-6).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    kind = "linear"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        target_bound: float = 1.0,
        penalty: Regularizer | None = L2(1e-2),
        domain: Domain | None = None,
        solver: str | Solver = "auto",
        row_norm: float = 1.0,
        entry_bound: float | None = None,
        fit_intercept: bool = True,
        adjacency: str = "replace_one",
        noise: str | None = "certified",
        accountant: str = "pld",
        n: int | None = None,
        schema: Schema | None = None,
        budget: Budget | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target_bound = target_bound
        self.penalty = penalty
        self.domain = domain
        self.solver = solver
        self.row_norm = row_norm
        self.entry_bound = entry_bound
        self.fit_intercept = fit_intercept
        self.adjacency = adjacency
        self.noise = noise
        self.accountant = accountant
        self.n = n
        self.schema = schema
        self.budget = budget
        self.random_state = random_state
        self.verbose = verbose

    def check_parameters(self) -> None:
        """Raise if a parameter is wrong: the first line of a fit, before any row is read."""
        if self.schema is not None and not isinstance(check_schema(self.schema).target, Amount):
            raise InvalidParameter("a regression needs a schema whose target has a range; this one's has classes.")
        if self.schema is not None and self.target_bound != 1.0:
            raise InvalidParameter("with a schema the target's range is declared there: leave target_bound out.")
        super().check_parameters()

    def _planned_problem(self) -> Problem:
        loss = Squared(target_bound=positive("target_bound", self.target_bound))
        problem = self._problem(loss)
        if self.domain is None:
            problem = replace(problem, domain=L2Ball(2.0 * loss.target_bound / problem.row_norm))
        return problem

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit on sensitive rows and keep only what may be released.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (rows, columns)
            Rows are clipped to `row_norm`; one with a value that is not finite counts as nothing. With a schema, a
            pandas, polars or Arrow table.
        y : array of shape (rows,)
            Targets, clipped to ±`target_bound`. With a schema by default the table's own target column, clipped to its
            range.

        Returns
        -------
        self
        """
        self.check_parameters()
        problem = self._planned_problem()
        self.check_room(X)
        self._forget()
        if self.schema is not None:
            release = self._fit(problem, TableSource(X, y, self.schema))
        else:
            table = read_table(self, X, fitting=True)
            release = self._fit(problem, ArraySource(table, read_target(self, y, table.shape[0])))
        # With a schema [-1, 1] stands for the target's range: the coefficients are given in its own units.
        low, high = self._target_range(release.schema)
        unit, noise = (high - low) / 2.0, release.privacy.coefficient_noise
        self._keep(release, problem, coefficient_noise=None if noise is None else unit * noise)
        self.coef_, self.intercept_ = unit * self.coef_[0], float(unit * self.intercept_[0] + low / 2.0 + high / 2.0)
        self._settle(release)
        return self

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R². With a schema y may be the table's own target column, clipped to its range; rows without it are left out.

        The score of sensitive rows is a fact about them, which no guarantee covers.
        """
        from sklearn.metrics import r2_score

        check_is_fitted(self, "coef_")
        if self.schema_ is None:
            return float(super().score(X, y, sample_weight))
        check_table(X, y, self.schema_)
        low, high = self._target_range(self.schema_)
        truth = low + (encode_target(X, y, self.schema_) + 1.0) * (high - low) / 2.0
        known = np.isfinite(truth)
        if not known.any():
            raise InvalidParameter("no row has a target, so there is nothing to score.")
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(r2_score(truth[known], self.predict(X)[known], sample_weight=weights))

    @staticmethod
    def _target_range(schema: Schema | None) -> tuple[float, float]:
        """What [−1, 1] stands for in the target's own units."""
        return (-1.0, 1.0) if schema is None else schema.target.number.bounds  # type: ignore[union-attr]

    def to_sklearn(self) -> Any:
        """A plain scikit-learn `LinearRegression` with the same coefficients, for rows as `encode` returns them."""
        from sklearn.linear_model import LinearRegression  # not every user of dperm needs it

        return self._as_plain(LinearRegression())

    def predict(self, X: Any) -> Array:
        """⟨coef, x⟩ + intercept for every row."""
        return self._margins(X)[:, 0]

    def __sklearn_tags__(self) -> Any:
        """Noise may spoil the score on a small table."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
