"""Attack (c): one fit on the owner's table with synthetic rows in it, each put in or left out by a fair coin.

Where rows are protected by unit, each is a synthetic unit of as many equal rows as may be used.

After Steinke, Nasr and Jagielski 2023. What is looked at is released by a private fit, so the result may be released
with it; the fit costs what any fit costs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.audit.bounds import epsilon_from_guesses
from dperm.audit.result import Attack, AuditResult, result_of
from dperm.audit.tables import longest, rows_of_a_canary, targets_of
from dperm.errors import InvalidParameterError, UnsupportedProblemError
from dperm.kernel.source import Source
from dperm.ledger import Budget
from dperm.mechanisms.setting import Setting
from dperm.models.base import PrivateEstimator
from dperm.models.units import split_groups
from dperm.plan.fit_plan import FitPlan, Progress
from dperm.plan.options import FitOptions
from dperm.privacy.guarantee import Adjacency
from dperm.problem import Problem
from dperm.problem.losses.base import Loss
from dperm.rows.canaries import WithCanaries
from dperm.validation import count

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Canaries:
    """Synthetic rows at the declared bounds, and the coins that put them in."""

    X: Array
    y: Array
    included: NDArray[np.bool_]

    def rows(self, setting: Setting) -> tuple[Array, Array, NDArray[np.int64] | None]:
        """What goes into the table: an ignored row stands for one that was left out, where n is public.

        With a unit, this many equal rows for each, and the number of every row's unit.
        """
        if setting.adjacency is Adjacency.ADD_REMOVE:
            X, y = self.X[self.included], self.y[self.included]
        else:
            X, y = np.where(self.included[:, None], self.X, np.nan), self.y
        if setting.unit is None:
            return X, y, None
        numbers = np.repeat(np.arange(len(y)), rows_of_a_canary(setting.unit))
        return X[numbers], y[numbers], numbers


def draw_canaries(problem: Problem, n_features: int, m: int, rng: np.random.Generator) -> Canaries:
    """Rows in random directions, as long as the bounds allow, with targets at the ends of their range.

    As many as there are columns are orthogonal to each other, so that they pull the coefficients into different
    directions.
    """
    blocks = [np.linalg.qr(rng.normal(size=(n_features, n_features)))[0] for _ in range(-(-m // n_features))]
    X = np.array([longest(problem, direction) for direction in np.concatenate(blocks)[:m]])
    return Canaries(X, rng.choice(targets_of(problem), size=m), rng.random(m) < 0.5)


def scores(problem: Problem, canaries: Canaries, w: Array) -> Array:
    """How far the released coefficients lie in the direction into which each row pulls them from 0."""
    loss = problem.loss
    if not isinstance(loss, Loss):
        raise UnsupportedProblemError("one-run auditing needs a loss of margins.")
    X = canaries.X
    if problem.intercept:
        X = np.column_stack([X, np.full(len(X), problem.intercept_value)])
    matrix = w.reshape(loss.n_outputs, -1)
    found = np.empty(len(X))
    for place, (x, target) in enumerate(zip(X, canaries.y, strict=True)):
        if loss.n_outputs == 1:
            slope = np.atleast_1d(loss.derivative(0.0, target, *loss.parameters))
        else:
            slope = np.empty(loss.n_outputs)
            loss.derivative(np.zeros(loss.n_outputs), int(target), slope, *loss.parameters)
        found[place] = -slope @ matrix @ x
    return found


def right_guesses(found: Array, included: NDArray[np.bool_], k_plus: int, k_minus: int) -> int:
    """Guess "in" for the k₊ highest scores and "out" for the k₋ lowest, nothing for the others; count what is right."""
    order = np.argsort(found, kind="stable")
    return int(included[order[len(order) - k_plus :]].sum() + (~included[order[:k_minus]]).sum())


def one_run(
    fit: Callable[[Source, FitPlan], Array],
    source: Source,
    options: FitOptions,
    m: int,
    guesses: tuple[int, int],
    alpha: float,
    rng: np.random.Generator,
) -> tuple[FitPlan, Attack]:
    """Fit once on the rows of a source and m canaries, and guess the coins from what is released.

    Parameters
    ----------
    fit : callable
        Runs the plan on the source with the canaries and returns released coefficients.
    source : Source
        The owner's rows; nothing is computed from them but the private fit.
    options : FitOptions
        Of the fit; its plan is made for m rows or units more.
    m : int
        How many canaries.
    guesses : (int, int)
        k₊ and k₋: how many guesses "in" and "out", fixed in advance.
    alpha : float
        The chance that the bound is wrong.
    rng : Generator
        Draws the canaries and the coins, which are public afterwards.
    """
    k_plus, k_minus = guesses
    if not 0 < k_plus + k_minus <= m:
        raise InvalidParameterError(f"there are {m} canaries, so at most that many guesses are possible.")
    n = (options.declared_n or source._n_units) + m
    plan = replace(options, n=n).plan(n, None if options.schema is not None else source.n_features)
    problem = plan.problem
    canaries = draw_canaries(problem, plan.n_features, m, rng)
    w = fit(WithCanaries(source, *canaries.rows(plan.setting)), plan)
    right = right_guesses(scores(problem, canaries, w), canaries.included, k_plus, k_minus)
    epsilon = epsilon_from_guesses(m, k_plus + k_minus, right, plan.statement.delta, alpha)
    unit = plan.setting.unit
    what = "" if unit is None else f" ({unit.word}: {rows_of_a_canary(unit)} rows each)"
    found = f"{right} of {k_plus + k_minus} guesses about {m} canaries{what} were right"
    return plan, Attack("one run", epsilon, 1, found)


def audit_table(
    model: PrivateEstimator,
    X: Any,
    y: Any = None,
    groups: Any = None,
    *,
    canaries: int = 200,
    guesses: tuple[int, int] | None = None,
    confidence: float = 0.95,
    budget: Budget | None = None,
    random_state: int | None = None,
    progress: Progress | None = None,
) -> AuditResult:
    """Audit an estimator by one private fit on a sensitive table, for the owner of the table.

    Parameters
    ----------
    model : estimator
        An unfitted one.
    X, y, groups
        What its `fit` takes.
    canaries : int
        Synthetic rows, or units of rows; each is put in by a fair coin. They make the fit worse: it is for the audit
        only.
    guesses : (int, int), optional
        How many guesses "in" and "out"; by default a quarter of the canaries each.
    confidence : float
        Of the lower bound.
    budget : Budget, optional
        Charge the fit there. The result follows from what the fit releases, so it costs what a fit costs. Without a
        budget it is not for release.
    random_state : int, optional
        Makes the audit repeatable, and its result not for release.
    progress : callable, optional
        Called with (steps done, steps planned).

    Returns
    -------
    AuditResult
        Of the plan for the table with the canaries.
    """
    m = count("canaries", canaries)
    X, groups = split_groups(model, model._taken(X, y), groups)
    source, options, facts = model._read(X, y, model.options(), groups=groups)
    if facts.get("caveats"):
        raise InvalidParameterError("declare the classes: the guarantee does not cover classes read from the rows.")

    def fit(with_canaries: Source, plan: FitPlan) -> Array:
        return plan.run(
            with_canaries, budget=budget, random_state=random_state, progress=progress, row_warnings=False
        ).w

    plan, attack = one_run(
        fit, source, options, m, guesses or (m // 4, m // 4), 1.0 - check_confidence(confidence),
        np.random.default_rng(random_state),
    )  # fmt: skip
    return result_of(plan, confidence, (attack,))


def check_confidence(confidence: float) -> float:
    """Raise unless it is a probability below 1 that says something."""
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0.5 <= confidence < 1.0:
        raise InvalidParameterError(f"confidence must lie in [0.5, 1), got {confidence!r}.")
    return float(confidence)
