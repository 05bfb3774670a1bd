"""The lower-level API: state a problem, name a guarantee, get released coefficients."""

from typing import Any

from dperm.ledger import Budget
from dperm.plan.fit_plan import Array, Progress, Release
from dperm.plan.options import FitOptions
from dperm.plan.transaction import check_releasable
from dperm.privacy.guarantee import Guarantee
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.rows import Table
from dperm.schema import Schema
from dperm.solvers import Solver


def minimize(
    problem: Problem,
    X: Any,
    y: Any = None,
    *,
    guarantee: Guarantee | None,
    solver: str | Solver = "auto",
    adjacency: str = "replace_one",
    noise: str | None = "certified",
    accountant: str = "pld",
    n: int | None = None,
    weights: Array | None = None,
    schema: Schema | None = None,
    groups: Any = None,
    unit: PrivacyUnit | None = None,
    budget: Budget | None = None,
    random_state: Any = None,
    progress: Progress | None = None,
    row_warnings: bool = True,
) -> Release:
    """Minimise (1/n) Σ f(w, z_i) + r(w) over C with differential privacy.

    Parameters
    ----------
    problem : Problem
        Loss, regularizer, domain and the declared row bound.
    X : array or CSR matrix of shape (rows, columns)
        Rows are clipped to the declared norm; dense rows are not copied and sparse ones not densified. With a schema
        also a table, files (a path, a list of them, a pyarrow dataset), a Dask data frame or a `dperm.rows.Table`.
    y : array of shape (rows,)
        Numeric targets: above 0 or not for two classes, 0 … K−1 for K classes, numbers for regression.
    guarantee, solver, adjacency, noise, accountant
        As for `FitOptions`.
    n : int, optional
        The public divisor, by default the number of rows. Under add_remove it must be declared for a release.
    weights : array, optional
        Weight per row, clipped to [0, `problem.weight_bound`]; a row whose weight is not a number is dropped.
    schema : Schema, optional
        X is then a pandas, polars or Arrow table that it turns into rows, and y may be None: the table's target.
    groups : array of shape (rows,), optional
        The id of every row's unit, for rows without a schema.
    unit : PrivacyUnit, optional
        What the ids stand for: all rows of one are protected together. A schema declares its own.
    budget : Budget, optional
        The dataset's budget in a ledger. The cost is reserved before a row is read; a fit that exceeds it is refused.
    random_state : int, optional
        Seed. Makes the run reproducible, and the result not for release.
    progress : callable, optional
        Called with (steps done, steps planned).
    row_warnings : bool
        Emit a `DroppedRowsWarning` when many rows are dropped or clipped.

    Returns
    -------
    Release
        Coefficients, statement and accounting event.

    Guarantees
    ----------
    With noise="certified", no seed and, under add_remove, a declared n, the returned `w` is (ε, δ)-differentially
    private under `adjacency`.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import Guarantee, Problem, minimize
    >>> from dperm.problem import L2, Logistic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3)); y = np.sign(X[:, 0])
    >>> result = minimize(Problem(Logistic(), L2(0.1)), X, y, guarantee=Guarantee(1.0, 1e-6))
    >>> result.w.shape
    (3,)
    """
    options = FitOptions(
        problem, guarantee=guarantee, solver=solver, adjacency=adjacency, noise=noise, accountant=accountant, n=n,
        schema=schema, unit=unit,
    )  # fmt: skip
    check_releasable(budget, random_state)
    source = Table.of(X).source(y, schema, weights, groups=groups, unit=unit)
    plan = options.plan(source._n_units, source.n_features, source.is_slow)
    return plan.run(source, budget=budget, random_state=random_state, progress=progress, row_warnings=row_warnings)
