"""What a fit is asked to do, checked once, before any row is read."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import NamedTuple

import numpy as np

from dperm.accounting.calibration import ACCOUNTANTS, calibrate, find_noise_multiplier
from dperm.errors import DpermError, InvalidParameterError, UnsupportedProblemError
from dperm.mechanisms import LastIterateQuery
from dperm.mechanisms.histogram import histogram_query
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.range import range_queries
from dperm.mechanisms.setting import Setting
from dperm.plan.around import Beside, Fixed, fixed, what_is_left
from dperm.plan.auto import check_solver, choose_solver
from dperm.plan.encoding import decide
from dperm.plan.fit_plan import FitPlan
from dperm.plan.intervals import check_problem, check_share, interval_queries
from dperm.plan.noise_modes import NOISE_MODES
from dperm.plan.release_plan import Promise
from dperm.plan.rules import check_strength_by_rule, with_scaled_constant, with_strength_by_rule
from dperm.privacy.guarantee import LARGEST_EPSILON, Adjacency, Guarantee
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.problem.start import LinearStart
from dperm.schema import Schema
from dperm.solvers import Solver
from dperm.validation import count, one_of

# A plan holds vectors of as many numbers, and compiled code counts columns in 32 bits.
MOST_COLUMNS = 10**8

# Whether passes over this many rows of a schema cost much.
IsSlow = Callable[[int, Schema | None], bool]


@dataclass(frozen=True)
class FitOptions:
    """The options of a fit; all are public.

    Parameters
    ----------
    problem : Problem
        Loss, regularizer, domain and the declared row bound.
    guarantee : Guarantee or None
        (ε, δ); may be None only with noise=None.
    solver : str or Solver
        "auto", a name listed by `dperm solvers`, or a solver object.
    adjacency : {"replace_one", "add_remove"}
        Neighbouring relation: one record replaced, or one added/removed.
    noise : {"certified", "paper", None}
        Certified noise; the paper's formula, for reproduction only; or none at all (ε = ∞).
    accountant : {"pld", "advanced-composition"}
        Accounting method used to calibrate noise: numerical, or advanced composition as in the paper's Appendix B.1,
        which needs more noise and raises an error where its conditions fail.
    n : int, optional
        The declared, public number of rows or units; by default the schema's, or else that of the table.
    unit : PrivacyUnit, optional
        The privacy unit, for rows without a schema; a schema declares its own.
    schema : Schema, optional
        The public facts about a table that is fitted as it is.
    strength_by_rule : bool
        Whether the strength of the problem's l2 or l1 penalty is found when the fit is planned, from public numbers.
    scaled_constant : bool
        Whether the constant column gets a size that suits the number of columns, not the largest that it may have.
    start : LinearStart, optional
        Public starting coefficients. Only iterative solvers take them; "auto" then chooses among these.
    intervals : bool or float
        Also release what confidence intervals need, with half of the precision or this share of it.

    Examples
    --------
    >>> from dperm import FitOptions, Guarantee, Problem
    >>> from dperm.problem import L2, Logistic
    >>> options = FitOptions(Problem(Logistic(), L2(0.01)), guarantee=Guarantee(1.0, 1e-6))
    >>> options.plan(200_000, 54).solver.name
    'dp-objective'
    """

    problem: Problem
    _: KW_ONLY
    guarantee: Guarantee | None
    solver: str | Solver = "auto"
    adjacency: str = "replace_one"
    noise: str | None = "certified"
    accountant: str = "pld"
    n: int | None = None
    schema: Schema | None = None
    strength_by_rule: bool = False
    scaled_constant: bool = False
    start: LinearStart | None = None
    intervals: bool | float = False
    unit: PrivacyUnit | None = None

    def __post_init__(self) -> None:
        """Raise if a parameter is wrong or the solver does not take the problem."""
        if not isinstance(self.problem, Problem):
            raise InvalidParameterError(f"problem must be a dperm Problem, got {self.problem!r}.")
        self._check_noise()
        Adjacency.parse(self.adjacency)
        if self.n is not None:
            count("n", self.n)
        if self.schema is not None:
            check_schema(self.schema)
            if self.schema.private_ranges and not self._composes:
                raise InvalidParameterError("private ranges require certified noise and the accountant 'pld'.")
        if self.unit is not None and self.schema is not None:
            raise InvalidParameterError("unit cannot be combined with a schema, which declares it.")
        if self.protected_unit is not None:
            self._check_unit()
        if self.strength_by_rule:
            check_strength_by_rule(self.problem.regularizer)
        guarantee = None if self.noise is None else self.guarantee
        if check_share(self.intervals):
            check_problem(self.problem, guarantee)
            if not self._composes:
                raise InvalidParameterError("intervals require certified noise and the accountant 'pld'.")
        check_solver(self.solver, self.problem, guarantee)

    def _check_noise(self) -> None:
        """The noise mode and the accountant exist and, if there is noise, a guarantee says how much."""
        if one_of("accountant", self.accountant, ACCOUNTANTS) != "pld" and self.noise != "certified":
            raise InvalidParameterError(
                "accountant applies to certified noise only; with other noise leave it at 'pld'."
            )
        if self.noise is None:
            return
        if self.noise != "certified":
            one_of("noise", self.noise, ("certified", *NOISE_MODES))
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidParameterError(f"guarantee must be a Guarantee(epsilon, delta), got {self.guarantee!r}.")

    def _check_unit(self) -> None:
        if self._prescribed:
            raise InvalidParameterError("the published formulae are for single rows: with a unit use certified noise.")
        if self.intervals:  # rows of one unit are not independent
            raise InvalidParameterError("intervals cannot be combined with a privacy unit.")

    @property
    def protected_unit(self) -> PrivacyUnit | None:
        """Whose rows are protected together, wherever that is declared."""
        return self.unit if self.schema is None else self.schema.unit

    @property
    def _composes(self) -> bool:
        """Whether other releases may be part of the plan."""
        return not self._prescribed and self.accountant == "pld"

    @property
    def _prescribed(self) -> bool:
        """Whether a formula says how much noise there is."""
        return self.noise not in (None, "certified")

    @property
    def declared_n(self) -> int | None:
        """The public number of rows or units where one was declared, here or in the schema."""
        return self.schema.n if self.n is None and self.schema is not None else self.n

    @property
    def declared_rows(self) -> int | None:
        """The same where it is of rows: how many a unit has is not public."""
        return self.declared_n if self.protected_unit is None else None

    def plan(
        self, n_rows: int | None = None, n_features: int | None = None, is_slow: IsSlow | None = None
    ) -> FitPlan:  # fmt: skip
        """Choose the solver and find the noise from public numbers alone; no data is touched.

        Parameters
        ----------
        n_rows, n_features : int, optional
            Shape of the table, with a unit the number of units. A declared n comes first, and a schema knows the number
            of columns.
        is_slow : callable, optional
            Of a source, `Source.is_slow`: whether passes over this many rows cost much, so that "auto" counts them.
        """
        facts = self.facts(n_rows, n_features)
        try:
            return self._plan(facts, is_slow)
        except (ArithmeticError, ValueError) as error:
            if isinstance(error, DpermError):
                raise
            raise _no_plan() from error  # public numbers alone: nothing of a row is in it

    def _plan(self, facts: "PublicFacts", is_slow: IsSlow | None) -> FitPlan:
        schema, width, problem, setting, beside, left = facts
        chosen = self._choose(facts, is_slow)
        if self._prescribed and self.guarantee is not None:
            chosen, published = NOISE_MODES[str(self.noise)](chosen, setting, self.guarantee)
            calibrated = replace(published, constant=True)
        else:
            calibrated = self._calibrated(chosen, setting, beside, left)
        _check_start(problem, width, calibrated)
        promise = Promise(None if self.noise is None else self.guarantee, setting.adjacency, setting.n, setting.unit)
        plan = FitPlan(
            promise, (calibrated,), options=self, problem=problem, solver=chosen, n_features=width, schema=schema
        )  # fmt: skip
        _ = plan.statement  # numbers too large to account for are refused here, before a row is read
        return plan

    def chosen_solver(self, n_rows: int | None, n_features: int | None) -> Solver:
        """The solver that `plan` takes for a table in memory, by expected risk alone: nothing is calibrated.

        Parameters
        ----------
        n_rows, n_features : int or None
            As of `plan`.
        """
        return self._choose(self.facts(n_rows, n_features), None)

    def _choose(self, facts: "PublicFacts", is_slow: IsSlow | None) -> Solver:
        solver, setting = self.solver, facts.setting
        if solver == "auto" and (self._prescribed or self.accountant != "pld"):
            solver = "dp-gd"  # the published formulae and accountants are those of the paper's methods
        slow = is_slow is not None and is_slow(setting.n, facts.schema)
        return choose_solver(solver, facts.problem, setting, facts.left, slow_passes=slow)

    def facts(self, n_rows: int | None, n_features: int | None) -> "PublicFacts":
        """What a plan rests on, with all that is left to rules; nothing is calibrated and no solver chosen.

        Parameters
        ----------
        n_rows, n_features : int or None
            As of `plan`.
        """
        n = count("n", n_rows if self.declared_n is None else self.declared_n)
        schema = None if self.schema is None else self._decided(self.schema, n)
        width = count("n_features", n_features if schema is None else schema.n_features)
        if width > MOST_COLUMNS:
            raise InvalidParameterError(f"n_features must be at most {MOST_COLUMNS}, got {width}.")
        try:
            problem = replace(self.problem, loss=self.problem.loss.for_width(width))
            problem = with_scaled_constant(problem, width) if self.scaled_constant else problem
            if self.start is not None:
                problem = replace(problem, start_point=self.start.point(problem, width))
            setting = Setting(problem.constants(width), n, Adjacency.parse(self.adjacency), self.protected_unit)
            if self.strength_by_rule:
                problem = with_strength_by_rule(problem, setting, None if self.noise is None else self.guarantee)
                setting = replace(setting, constants=problem.constants(width))
            return PublicFacts(schema, width, problem, setting, *self._beside(schema, problem, setting))
        except ArithmeticError as error:
            raise _no_plan() from error

    @property
    def _promised(self) -> Guarantee:
        """The guarantee; of a run without noise, one with hardly any."""
        return self.guarantee or Guarantee(LARGEST_EPSILON, 1e-6)

    def _decided(self, schema: Schema, n: int) -> Schema:
        """The schema with every number's encoding decided."""
        decided = decide(
            schema, n, self._promised, Adjacency.parse(self.adjacency),
            edges=self._composes, slopes=bool(check_share(self.intervals)),
        )  # fmt: skip
        if decided.private_edges and not self._composes:
            raise InvalidParameterError("private bins require certified noise and the accountant 'pld'.")
        return decided

    def _beside(self, schema: Schema | None, problem: Problem, setting: Setting) -> tuple[Beside, Guarantee | None]:
        """What is asked besides the solver's own questions, and about what it leaves of the guarantee."""
        before: Fixed = ()
        if schema is not None and schema.private_ranges:
            before = tuple(map(fixed, range_queries(schema, setting, self._promised)))
        if schema is not None and schema.private_edges:
            before = (*before, fixed(histogram_query(schema.private_edges, setting, self._promised)))
        share = check_share(self.intervals)
        after: Fixed = ()
        left = what_is_left(self._promised, before)
        if share:
            after = interval_queries(problem, setting, left, share)
            left = what_is_left(left, after)
        return Beside(before, after), None if self.noise is None or self.guarantee is None else left

    def _calibrated(
        self, solver: Solver, setting: Setting, beside: Beside, left: Guarantee | None
    ) -> CalibratedPlan:  # fmt: skip
        if self.guarantee is None or left is None:
            return CalibratedPlan(beside.around(solver.plan(setting, None)), None)
        if not beside:
            return calibrate(solver.plan(setting, self.guarantee), self.guarantee, self.accountant)
        # All together keeps the whole guarantee. What costs the same whatever the noise may add up with the others to
        # more than was thought: then the solver plans for less than they leave.
        while True:
            plan = beside.around(solver.plan(setting, left))
            multiplier = find_noise_multiplier(plan, self.guarantee)
            if multiplier is not None:
                return plan.with_noise(multiplier)
            if left.epsilon < 0.05 * self.guarantee.epsilon:
                return calibrate(plan, self.guarantee)
            left = Guarantee(0.5 * left.epsilon, left.delta)


class PublicFacts(NamedTuple):
    """What a plan rests on.

    Attributes
    ----------
    schema : Schema or None
        With every number's encoding decided.
    n_features : int
        Columns of an encoded row.
    problem : Problem
        What is minimised.
    setting : Setting
        Its constants, the public n and the adjacency.
    beside : Beside
        What finds private ranges and bins, and what intervals need.
    left : Guarantee or None
        About what they leave of the guarantee for the solver; None for a run without noise.
    """

    schema: Schema | None
    n_features: int
    problem: Problem
    setting: Setting
    beside: Beside
    left: Guarantee | None


def check_schema(schema: object) -> Schema:
    """Raise unless it is a schema whose numbers somebody has called public."""
    if not isinstance(schema, Schema):
        raise InvalidParameterError(f"schema must be a dperm Schema, got {schema!r}.")
    if schema.derived_from_data:
        raise InvalidParameterError(
            "the schema was derived from the data, so fitting with it would leak: correct it to public knowledge, "
            "then remove the line derived_from_data."
        )
    return schema


def _check_start(problem: Problem, n_features: int, calibrated: CalibratedPlan) -> None:
    """Raise if a path of which only the end leaves would begin where its rounding is not accounted for."""
    if problem.start_point is None:
        return
    length = float(np.linalg.norm(problem.start(n_features)))
    for item in calibrated.plan.planned:
        multiplier = (calibrated.noise_multiplier or 0.0) * item.relative_noise
        if isinstance(item.query, LastIterateQuery) and length > item.query.path(multiplier).longest_start:
            raise InvalidParameterError(
                "start is too far from 0 for last-iterate accounting: use a nearer one, or "
                "DPGD(accounting='composition')."
            )


def _no_plan() -> UnsupportedProblemError:
    return UnsupportedProblemError(
        "no plan can be made: some of n, the number of columns, ε, δ, penalty, domain and bounds are too large or "
        "too small relative to the others."
    )
