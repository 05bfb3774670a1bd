"""The researcher's door: state a problem, name a guarantee, get released coefficients."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dp_accounting import dp_event
from numpy.typing import NDArray

from dperm.accounting.accountants import delta_of, epsilon_of
from dperm.accounting.calibration import ACCOUNTANTS, calibrate
from dperm.accounting.events import event_to_list
from dperm.accounting.guarantee import LARGEST_EPSILON, Adjacency, Guarantee
from dperm.accounting.ledger import Budget, Reservation
from dperm.errors import InvalidParameter, LargeDeltaWarning
from dperm.files import fingerprint
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.range import RangeQuery, left_for_the_solver, range_queries
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem
from dperm.release.coefficient_noise import coefficient_noise
from dperm.release.statement import PrivacyStatement
from dperm.schema import Schema
from dperm.solvers import Solver, choose_solver
from dperm.trusted.noise import Randomness, check_random_state
from dperm.trusted.oracle import Oracle
from dperm.trusted.sources import Source, source_of
from dperm.trusted.sources.base import check_row_count
from dperm.validation import check_not_diverged, count, one_of

Array = NDArray[np.float64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Release:
    """Released coefficients and what is promised about them.

    Attributes
    ----------
    w : array
        The coefficients; with an intercept the last one of every output is the constant column's.
    privacy : PrivacyStatement
        Prints as six lines.
    event : DpEvent
        The accounting event of the run, for any other accountant.
    schema : Schema or None
        The schema, with the ranges that were paid for.
    reservation : Reservation or None
        What the ledger holds for it.
    """

    w: Array
    privacy: PrivacyStatement
    event: dp_event.DpEvent
    schema: Schema | None = None
    reservation: Reservation | None = None


@dataclass(frozen=True)
class PricedFit:
    """A fit that is planned and paid for, with no row read yet."""

    problem: Problem
    setting: Setting
    solver: Solver
    paid: CalibratedPlan
    statement: PrivacyStatement

    @property
    def privacy(self) -> PrivacyStatement:
        """The statement that a fit would carry, marked as a plan: there is nothing to release yet."""
        return replace(self.statement, caveats=(*self.statement.caveats, "this is a plan, nothing was fitted"))


def check_noise(noise: object, guarantee: object, accountant: object) -> None:
    """Raise unless the noise mode and the accountant exist and, if there is noise, a guarantee says how much."""
    if one_of("accountant", accountant, ACCOUNTANTS) != "pld" and noise != "certified":
        raise InvalidParameter("accountant chooses how certified noise is found; with other noise leave it at 'pld'.")
    if noise is None:
        return
    one_of("noise", noise, ("certified", "paper"))
    if not isinstance(guarantee, Guarantee):
        raise InvalidParameter(f"guarantee must be a Guarantee(epsilon, delta), got {guarantee!r}.")


def check_schema(schema: object) -> Schema:
    """Raise unless it is a schema whose numbers somebody has called public."""
    if not isinstance(schema, Schema):
        raise InvalidParameter(f"schema must be a dperm Schema, got {schema!r}.")
    if schema.derived_from_data:
        raise InvalidParameter(
            "the schema was derived from the data, so fitting with it would leak: correct it to what is public "
            "knowledge, then remove the line derived_from_data."
        )
    return schema


def check_budget(budget: object, random_state: Any) -> None:
    """Raise unless it is a budget, or None, and what is charged to it can be released."""
    if budget is not None and not isinstance(budget, Budget):
        raise InvalidParameter(f"budget must be a dperm Budget, got {type(budget).__name__}.")
    if budget is not None and random_state is not None:
        raise InvalidParameter(
            "noise from a seed protects nobody, so it cannot be charged as a release: leave the seed or the budget out."
        )


def price(
    problem: Problem,
    n: int,
    n_features: int,
    *,
    guarantee: Guarantee | None,
    solver: str | Solver = "auto",
    adjacency: str = "replace_one",
    noise: str | None = "certified",
    accountant: str = "pld",
    schema: Schema | None = None,
) -> PricedFit:
    """Plan a fit and find its noise from public numbers alone; no data is touched.

    Parameters
    ----------
    problem : Problem
        What will be minimised.
    n, n_features : int
        Public shape of the table.
    guarantee : Guarantee or None
        What must hold; may be None only with noise=None.
    solver, adjacency, noise, accountant, schema
        As for `minimize`; a schema whose ranges are public changes nothing here.
    """
    check_noise(noise, guarantee, accountant)
    kind = Adjacency.parse(adjacency)
    setting = Setting(problem.constants(count("n_features", n_features)), count("n", n), kind)
    if solver == "auto" and (noise == "paper" or accountant != "pld"):
        solver = "dp-gd"  # the published formulae and accountants are those of the paper's methods
    ranges: tuple[RangeQuery, ...] = ()
    left = None if noise is None else guarantee
    if schema is not None and schema.private_ranges:
        if noise == "paper" or accountant != "pld":
            raise InvalidParameter("private ranges go with certified noise and the accountant 'pld'.")
        # A run without noise asks for the same quantiles as one with hardly any.
        ranges = range_queries(schema, setting, guarantee or Guarantee(LARGEST_EPSILON, 1e-6))
        left = None if left is None else left_for_the_solver(left, schema.range_share)
    chosen = choose_solver(solver, problem, setting, left)
    if noise is None or guarantee is None or left is None:
        paid = CalibratedPlan(_after(ranges, chosen.plan(setting, None)), None)
    elif noise == "paper":
        paid = replace(chosen.paper(setting, guarantee), constant=True)
    elif not ranges:
        paid = calibrate(chosen.plan(setting, guarantee), guarantee, accountant)
    else:
        paid = _calibrate_after(ranges, chosen, setting, left, guarantee)
    statement = replace(_statement(problem, setting, chosen, paid, guarantee, noise, n_features), accountant=accountant)
    return PricedFit(problem, setting, chosen, paid, statement)


def _calibrate_after(
    ranges: tuple[RangeQuery, ...], solver: Solver, setting: Setting, left: Guarantee, guarantee: Guarantee
) -> CalibratedPlan:
    """The solver plans with about what the ranges leave; all together keeps the whole guarantee."""
    while True:
        try:
            return calibrate(_after(ranges, solver.plan(setting, left)), guarantee)
        except InvalidParameter:  # what it pays whatever the noise adds up with the ranges to more than was thought
            if left.epsilon < 0.05 * guarantee.epsilon:
                raise
            left = Guarantee(0.5 * left.epsilon, left.delta)


def _after(ranges: tuple[RangeQuery, ...], plan: Plan) -> Plan:
    """The plan with private ranges before it."""
    if not ranges:
        return plan
    counts = sum(query.n_steps for query in ranges)
    names = ", ".join(query.column for query in ranges)
    found = f"the range of {names} by {counts} noisy counts ({ranges[0].distribution}, scale {ranges[0].scale:.3g})"
    planned = tuple(PlannedQuery(query, relative_noise=query.scale, fixed=True) for query in ranges)
    return replace(plan, ranges=planned, mechanism=f"{found}, then {plan.mechanism}")


def minimize(
    problem: Problem,
    X: Any,
    y: Any,
    *,
    guarantee: Guarantee | None,
    solver: str | Solver = "auto",
    adjacency: str = "replace_one",
    noise: str | None = "certified",
    accountant: str = "pld",
    n: int | None = None,
    weights: Array | None = None,
    schema: Schema | None = None,
    budget: Budget | None = None,
    random_state: Any = None,
    progress: Progress | None = None,
) -> Release:
    """Minimise (1/n) Σ f(w, z_i) + r(w) over C with differential privacy.

    Parameters
    ----------
    problem : Problem
        Loss, regularizer, domain and the declared row bound.
    X : array or CSR matrix of shape (rows, columns)
        Rows are clipped to the declared norm; dense rows are not copied and sparse ones not densified.
    y : array of shape (rows,)
        Numeric targets: above 0 or not for two classes, 0 … K−1 for K classes, numbers for regression.
    guarantee : Guarantee or None
        (ε, δ); may be None only with noise=None.
    solver : str or Solver
        "auto", a name that `dperm solvers` lists, or a solver object with settings of its own.
    adjacency : {"replace_one", "add_remove"}
        Which two tables cannot be told apart.
    noise : {"certified", "paper", None}
        Certified noise; the paper's formula, for reproduction only; or none at all (ε = ∞).
    accountant : {"pld", "advanced-composition"}
        How certified noise is found: the least that numerical accounting allows, or as in Appendix B.1 of the paper,
        which needs more and is refused where its conditions fail.
    n : int, optional
        The public divisor, by default the number of rows. Under add_remove it must be declared for a release.
    weights : array, optional
        Public weights per row, at most `problem.weight_bound`.
    schema : Schema, optional
        X is then a pandas, polars or Arrow table that it turns into rows, and y may be None: the table's target.
    budget : Budget, optional
        Reserve the price there before a row is read; the fit is refused where it does not fit.
    random_state : int, optional
        Makes the run repeatable, and the result not for release.
    progress : callable, optional
        Called with (steps done, steps planned).

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
    >>> from dperm import L2, Guarantee, Logistic, Problem, minimize
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3)); y = np.sign(X[:, 0])
    >>> result = minimize(Problem(Logistic(), L2(0.1)), X, y, guarantee=Guarantee(1.0, 1e-6))
    >>> result.w.shape
    (3,)
    """
    if schema is not None:
        check_schema(schema)
    release = solve(
        problem, source_of(X, y, schema, weights), guarantee=guarantee, solver=solver, adjacency=adjacency, noise=noise,
        accountant=accountant, n=n, schema=schema, budget=budget, random_state=random_state, progress=progress,
    )  # fmt: skip
    if release.reservation is not None:
        content = {
            "w": release.w.tolist(),
            "privacy": release.privacy.to_dict(),
            "events": event_to_list(release.event),
        }
        release.reservation.settle(fingerprint(content))
    return release


def solve(
    problem: Problem, source: Source, *, guarantee: Guarantee | None, solver: str | Solver, adjacency: str,
    noise: str | None, accountant: str, n: int | None, schema: Schema | None, budget: Budget | None, random_state: Any,
    progress: Progress | None,
) -> Release:  # fmt: skip
    """Do what `minimize` does, and leave it to the caller to settle the reservation with the release's fingerprint."""
    if not isinstance(problem, Problem):
        raise InvalidParameter(f"problem must be a dperm Problem, got {problem!r}.")
    n = schema.n if schema is not None and n is None else n
    public_n = source.n_rows if n is None else count("n", n)
    check_random_state(random_state)
    check_budget(budget, random_state)
    fit = price(
        problem, public_n, source.n_features,
        guarantee=guarantee, solver=solver, adjacency=adjacency, noise=noise, accountant=accountant, schema=schema,
    )  # fmt: skip
    check_row_count(source.n_rows, public_n, fit.setting.adjacency)
    if noise is not None and guarantee is not None and guarantee.delta >= 1.0 / public_n:
        warnings.warn(
            f"delta = {guarantee.delta:g} is not below 1/n = {1.0 / public_n:g}: a promise this weak would allow "
            "publishing one row in the clear.",
            LargeDeltaWarning,
            stacklevel=3,
        )
    start = problem.start(source.n_features)
    reservation = None if budget is None else budget.reserve(fit.paid.event(), fit.setting.adjacency)
    randomness = Randomness.from_random_state(random_state)
    # A run that diverges overflows on its way; one sentence says so instead of numpy's warnings.
    with (
        Oracle(source, problem, fit.setting, fit.paid, randomness, progress) as oracle,
        np.errstate(over="ignore", invalid="ignore", divide="ignore"),
    ):
        ranges = oracle.find_ranges()
        w = fit.solver.run(oracle, problem, fit.paid.plan, start)
    check_not_diverged(w)
    schema = schema.with_ranges(ranges) if schema is not None and ranges else schema
    privacy = fit.statement
    if n is None and noise is not None and fit.setting.adjacency is Adjacency.ADD_REMOVE:
        privacy = replace(privacy, caveats=(*privacy.caveats, "n was read from the rows, declare it under add_remove"))
    if randomness.seeded:
        privacy = replace(privacy, seeded=True, caveats=(*privacy.caveats, "the noise came from a seed"))
    return Release(w, privacy, fit.paid.event(), schema, reservation)


def _statement(
    problem: Problem, setting: Setting, solver: Solver, paid: CalibratedPlan, guarantee: Guarantee | None,
    noise: str | None, n_features: int,
) -> PrivacyStatement:  # fmt: skip
    epsilon, delta = (math.inf, 0.0) if noise is None or guarantee is None else (guarantee.epsilon, guarantee.delta)
    event, first = paid.event(), paid.plan.planned[0]
    caveats = {
        "certified": (),
        "paper": ("the paper's noise is for reproduction only",),
        None: ("no noise was added",),
    }
    return PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        certified_epsilon=epsilon_of(event, delta, setting.adjacency),
        certified_delta=delta_of(event, epsilon, setting.adjacency),
        adjacency=setting.adjacency.value,
        mechanism=f"{solver.name} without noise" if noise is None else paid.plan.mechanism,
        n_steps=paid.plan.n_steps,
        noise=noise or "none",
        noise_multiplier=(paid.noise_multiplier or 0.0) * first.relative_noise,
        sigma=paid.sigma(first),
        noise_levels=len({item.relative_noise for item in paid.plan.planned}),
        distribution=first.query.distribution,
        n=setting.n,
        n_features=n_features,
        classes=None,
        row_norm=problem.row_norm,
        full_row_norm=problem.full_row_norm,
        entry_bound=problem.entry_bound,
        target_range=problem.loss.clipped_range,
        seeded=False,
        caveats=caveats[noise],
        private_ranges=paid.plan.private_ranges,
        coefficient_noise=coefficient_noise(paid),
    )
