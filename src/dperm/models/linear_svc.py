"""Private linear support vector classification."""

from dataclasses import dataclass
from typing import Any

from dperm.models.classifier import LinearClassifier
from dperm.problem.losses import Loss, OneVsRestHinge, SmoothedHinge


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLinearSVC(LinearClassifier):
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
    unit : str, optional
        Column identifying the privacy unit, e.g. "patient_id": all rows of a unit are protected together, and n is the
        number of units. By default each row is its own unit.
    max_rows_per_unit, contribution, missing_units
        As in `PrivateLogisticRegression`.
    n, schema, bounds, budget, weight_bound, private_weights, start
        As in `PrivateLogisticRegression`.
    n_jobs, random_state, verbose, row_warnings
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

    smoothing: float = 0.5

    kind = "svc"
    title = "linear support vector classifier"
    own_parameters = (*LinearClassifier.own_parameters, "smoothing")

    def _loss(self, n_classes: int) -> Loss:
        if n_classes == 2:
            return SmoothedHinge(self.smoothing)
        return OneVsRestHinge(n_classes, self.smoothing)

    def to_sklearn(self) -> Any:
        """A plain scikit-learn `LinearSVC` with the same coefficients, for rows like the fit's.

        It stands behind a step that clips rows, or scales them by bounds, as the fit did. With a schema of a table's
        columns it is alone, for rows as `encode` returns them.
        """
        from sklearn.svm import LinearSVC  # not every user of dperm needs it

        return self._as_plain(LinearSVC(), classes_=self.classes_, n_iter_=0)
