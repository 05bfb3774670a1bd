"""Private logistic regression, for two classes and for more."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.models.classifier import LinearClassifier, Probabilities
from dperm.problem.losses import Logistic, Loss, Softmax


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateLogisticRegression(Probabilities, LinearClassifier):
    """Logistic regression with (ε, δ)-differential privacy.

    Minimises (1/n) Σ log(1 + exp(−y ⟨w, x⟩)) + r(w) over C; softmax for more than two classes.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ should be well below 1/n; a `LargeDeltaWarning` is emitted if it is not below 1/n.
    penalty : "auto", "l2", "l1", float, Regularizer or None
        "auto" and "l2" are a ridge and "l1" an l1 penalty, with a strength computed from public numbers: n, the number
        of columns, ε, δ, the adjacency and the row norm. A number is the strength of a ridge. Or an object:
        `dperm.problem.L2`, `L1`, `ElasticNet`, `GroupL2`. None is no penalty. The intercept is
        penalised like a coefficient.
    domain : Domain or None
        `dperm.problem.L2Ball`, `L1Ball`, `Simplex`, `Box`, or None for no constraint.
    solver : str or Solver
        "auto", a name listed by `dperm solvers`, or an object such as `dperm.solvers.DPGD(n_steps=100)`.
    row_norm : float, optional
        Every row is clipped to this l2 norm (by default 1) for fitting and prediction. Scale the columns first, by
        public numbers or with `bounds`. With `bounds` it applies to scaled rows, which by default are not clipped.
    entry_bound : float, optional
        Every row is also scaled down until no entry is larger. Useful on the l1 ball with many columns.
    classes : sequence, optional
        The public labels. By default they are read from y, and the result is not for release.
    class_weight : dict, optional
        Public weights per class. They scale the sensitivity. `balanced_weights` computes them from public frequencies.
    fit_intercept : bool
        Add a constant column of size row_norm/p^¼, or `entry_bound` if that is smaller. It counts in the row norm.
    intervals : bool or float
        Also release what confidence intervals need, with half of the precision or this share of it. Two classes only.
    adjacency : {"replace_one", "add_remove"}
        Neighbouring relation: one record replaced, or one added/removed.
    noise : {"certified", "paper", None}
        "paper" is the paper's noise, for reproduction; None runs without noise and without privacy.
    accountant : {"pld", "advanced-composition"}
        Accounting method used to calibrate noise: numerical, or advanced composition as in the paper's Appendix B.1.
    n : int, optional
        The public number of rows, or of privacy units; by default that of X. Declare it under add_remove.
    schema : Schema, optional
        The public facts about a table: classes, ranges, categories, n. X is then a pandas, polars or Arrow table, and
        y may be omitted: the schema names the target column.
    bounds : (lower, upper) or "private", optional
        For numeric arrays and frames without a schema: the public range of every column, two numbers or two sequences.
        Columns are clipped to it and scaled to [−1, 1], as with a schema; a missing value becomes the middle. "private"
        finds the ranges with a share of the budget. Requires `classes`.
    budget : Budget, optional
        The dataset's budget in a ledger. The fit is reserved there before a row is read.
    weight_bound : float
        Upper bound on the weights passed to `fit(X, y, sample_weight)`. The sensitivity grows with it.
    private_weights : bool
        Whether weights are part of the private rows. An invalid public weight raises. With private weights, a row with
        a negative or non-numeric weight is dropped, and one above the bound is clipped.
    unit : str, optional
        Column identifying the privacy unit, e.g. "patient_id": all rows of a unit are protected together, and n is the
        number of units. By default each row is its own unit.
    max_rows_per_unit : int, optional
        Use at most this many rows of each unit, chosen at random for each fit. Required if `contribution="limit"`.
    contribution : {"limit", "average"}
        Weight of a unit's row: 1/max_rows_per_unit, so that all rows count the same, or 1/(rows used of the unit), so
        that all units do.
    missing_units : {"separate", "ignore"}
        Rows without an id: count each as its own unit, or drop them.
    start : (coef, intercept), optional
        Public or released starting coefficients. Only iterative solvers take them; "auto" then chooses among these.
    n_jobs : int, optional
        Threads for sums over rows. The result does not depend on it.
    random_state : int, optional
        Seed. Makes the fit reproducible, and the result not for release.
    verbose : {0, 1, 2}
        1 shows a progress bar on fits longer than two seconds, 2 also prints what is logged to "dperm".
    row_warnings : bool
        Emit a `DroppedRowsWarning` when many rows are dropped or clipped. It is for the data holder, not private, and
        not stored: turn it off if others can read the process output.

    Attributes
    ----------
    coef_, intercept_, classes_ : arrays
        As in scikit-learn.
    privacy_ : FitStatement
        The guarantee and its assumptions.
    event_ : Event
        The accounting event of the run; `event_.to_dp_event()` converts it for other accountants.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3)) / 3; y = X[:, 0] > 0
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    intervals: bool | float = False

    kind = "logistic"
    title = "logistic regression"
    score_words = "log odds"

    def _loss(self, n_classes: int) -> Loss:
        return Logistic() if n_classes == 2 else Softmax(n_classes)

    def to_sklearn(self) -> Any:
        """A plain scikit-learn `LogisticRegression` with the same coefficients, for rows like the fit's.

        It stands behind a step that clips rows, or scales them by bounds, as the fit did. With a schema of a table's
        columns it is alone, for rows as `encode` returns them.
        """
        from sklearn.linear_model import LogisticRegression  # not every user of dperm needs it

        return self._as_plain(LogisticRegression(), classes_=self.classes_, n_iter_=np.zeros(1, dtype=np.int32))
