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
        The guarantee. δ should be well below 1/n.
    penalty : "auto", "l2", "l1", float, Regularizer or None
        "auto" and "l2" are a ridge, "l1" an l1 penalty, whose strength follows from n, the number of columns, ε, δ,
        the adjacency and the row norm. A number is the strength of a ridge. Or `dperm.problem.L2`, `L1`, `ElasticNet`,
        `GroupL2`, or None. The intercept is penalised like a coefficient.
    domain : Domain or None
        `dperm.problem.L2Ball`, `L1Ball`, `Simplex`, `Box`, or None for no constraint.
    solver : str or Solver
        "auto", a name that `dperm solvers` lists, or an object such as `dperm.solvers.DPGD(n_steps=100)`.
    row_norm : float, optional
        Every row is clipped to this l2 norm, by default 1, in a fit and in a prediction. Scale the columns so that this
        loses little, by public numbers or with `bounds`; with `bounds` scaled rows are clipped, by default not at all.
    entry_bound : float, optional
        Every row is also scaled so that no entry is larger: worth declaring on the l1 ball with many columns.
    classes : sequence, optional
        The public labels. If absent they are read from y, and the result is not for release.
    class_weight : dict, optional
        Public weights per class. They scale the sensitivity too. `balanced_weights` makes them from public frequencies.
    fit_intercept : bool
        Add a constant column of row_norm/p^¼, or the largest entry if that is less. It counts in the row norm.
    intervals : bool or float
        Also release what confidence intervals need, with half of the precision or this share of it; for two classes.
    adjacency : {"replace_one", "add_remove"}
        Which two tables cannot be told apart.
    noise : {"certified", "paper", None}
        "paper" is for reproduction, None runs without noise and without privacy.
    accountant : {"pld", "advanced-composition"}
        How certified noise is found: the least that numerical accounting allows, or as in Appendix B.1 of the paper.
    n : int, optional
        The public number of rows, by default that of X.
    schema : Schema, optional
        The public facts about a table: X is then a pandas, polars or Arrow table, and y may be left to its target
        column. It declares classes, bounds and n.
    bounds : (lower, upper) or "private", optional
        For arrays and frames of numbers without a schema: the public range of every column, two numbers or two
        sequences of them. Columns are clipped to it and scaled to [−1, 1], as a schema does; a missing value becomes
        the middle. "private" finds the ranges with a share of the budget. Needs declared `classes`.
    budget : Budget, optional
        The dataset's budget in a ledger, by reference: the fit is reserved there before a row is read.
    weight_bound : float
        The largest weight that `fit(X, y, sample_weight)` may give a row. The sensitivity grows with it.
    private_weights : bool
        Whether a weight belongs to its row like its values. A bad public weight raises; a private one never does: one
        that is negative or no number ignores its row, and one above the bound is clipped.
    start : (coef, intercept), optional
        Public or released numbers that solvers which walk begin at; others refuse it, and "auto" takes none of them.
    n_jobs : int, optional
        Threads for sums over rows, by default as many as are worth starting. The result does not depend on it.
    random_state : int, optional
        Makes the fit repeatable, and the result not for release.
    verbose : {0, 1, 2}
        1 shows a progress bar on fits longer than two seconds, 2 also prints what the logger "dperm" gets.
    row_warnings : bool
        Show you, who hold the rows, an `DroppedRowsWarning` where many are ignored or clipped. It is not private and
        is stored nowhere: turn it off where what the process prints goes to others.

    Attributes
    ----------
    coef_, intercept_, classes_ : arrays
        As in scikit-learn.
    privacy_ : PrivacyStatement
        Prints what is promised and what is assumed.
    event_ : Event
        The accounting event of the run; `event_.to_dp_event()` is what any other accountant reads.

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
