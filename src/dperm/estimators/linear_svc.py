"""Private linear support vector classification."""

from typing import Any

from dperm.accounting.ledger import Budget
from dperm.estimators.classifier import PrivateClassifier
from dperm.problem.domains import Domain
from dperm.problem.losses import Loss, OneVsRestHinge, SmoothedHinge
from dperm.problem.regularizers import L2, Regularizer
from dperm.schema import Schema
from dperm.solvers import Solver


class PrivateLinearSVC(PrivateClassifier):
    """Linear support vector machine with (ε, δ)-differential privacy.

    Minimises the mean smoothed hinge loss plus r(w) over C. With more than two classes there is one score per
    class, and all of them are fitted by the same noisy gradients, so the guarantee is spent once.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ should be well below 1/n.
    smoothing : float
        Width of the quadratic corner that replaces the hinge's kink; the curvature is its inverse.
    penalty, domain, solver, row_norm, entry_bound, classes, class_weight, fit_intercept, adjacency, noise, accountant
        As in `PrivateLogisticRegression`.
    n, random_state, verbose
        As in `PrivateLogisticRegression`.

    Attributes
    ----------
    coef_, intercept_, classes_, privacy_, event_
        As in `PrivateLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLinearSVC
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3)) / 3; y = X[:, 0] > 0
    >>> bool(PrivateLinearSVC(epsilon=1.0, delta=1e-6).fit(X, y).score(X, y) > 0.9)
    True
    """

    kind = "svc"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        smoothing: float = 0.5,
        penalty: Regularizer | None = L2(1e-2),
        domain: Domain | None = None,
        solver: str | Solver = "auto",
        row_norm: float = 1.0,
        entry_bound: float | None = None,
        classes: Any = None,
        class_weight: dict[Any, float] | None = None,
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
        self.smoothing = smoothing
        self.penalty = penalty
        self.domain = domain
        self.solver = solver
        self.row_norm = row_norm
        self.entry_bound = entry_bound
        self.classes = classes
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.adjacency = adjacency
        self.noise = noise
        self.accountant = accountant
        self.n = n
        self.schema = schema
        self.budget = budget
        self.random_state = random_state
        self.verbose = verbose

    def _loss(self, n_classes: int) -> Loss:
        if n_classes == 2:
            return SmoothedHinge(self.smoothing)
        return OneVsRestHinge(n_classes, self.smoothing)

    def to_sklearn(self) -> Any:
        """A plain scikit-learn `LinearSVC` with the same coefficients, for rows as `encode` returns them."""
        from sklearn.svm import LinearSVC  # not every user of dperm needs it

        return self._as_plain(LinearSVC(), classes_=self.classes_, n_iter_=0)
