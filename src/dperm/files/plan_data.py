"""A plan as plain data: every question with its noise, and all that its sensitivity and its privacy cost follow from.

What is read back is the plan that ran, with nothing planned again. Sensitivities, the scale of the noise and the
constants of the problem stand in a file although they follow from the rest: `verify` compares them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dperm.accounting.events import Composed, Event, OneOf, RandomTrials, event_to_list
from dperm.files.described import described, rebuilt, value_of
from dperm.mechanisms.base import Mechanism
from dperm.mechanisms.plan import CalibratedPlan, Plan, Planned, PlannedQuery, plan_of_sums
from dperm.mechanisms.setting import PublicTable, Setting
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Constants, Problem
from dperm.problem.domains import Domain
from dperm.problem.losses.base import RowLoss
from dperm.problem.regularizers import Regularizer
from dperm.solvers import Solver
from dperm.validation import count

# The constants that proofs rest on. The others steer solvers, and may be bounded otherwise in a later version.
_CONSTANTS = (
    "lipschitz", "lipschitz_at_zero", "smoothness", "strong_convexity", "diameter", "convex", "exact_prox", "monotone",
    "sigmoidal", "n_outputs", "dimension", "n_vertices", "vertex_lipschitz", "norm_bound", "sigmoid_norm", "softmax",
)  # fmt: skip
_PARTS = {"loss": RowLoss, "regularizer": Regularizer, "domain": Domain}
# More than a file of the largest size has: what states more would only fill memory.
_MOST_COEFFICIENTS = 10**8

_FIT = frozenset(
    (
        "n",
        "adjacency",
        "unit",
        "n_features",
        "problem",
        "constants",
        "solver",
        "noise_multiplier",
        "n_steps",
        "before",
        "queries",
        "after",
    )
)
_SUMS = frozenset(("n", "adjacency", "unit", "noise_multiplier", "queries"))
_QUERY = frozenset(("query", "count", "relative_noise", "fixed", "sensitivity", "sigma", "events"))


def plan_to_dict(plan: Any) -> dict[str, Any]:
    """A plan as plain data.

    Parameters
    ----------
    plan : ReleasePlan or CalibratedPlan
        What runs: a fit, sums over rows, or several of them.

    Raises
    ------
    NotDescribableError
        If a part of it cannot be written down.
    """
    if isinstance(plan, CalibratedPlan):
        return _sums_to_dict(plan)
    if hasattr(plan, "problem"):
        return _fit_to_dict(plan)
    if [type(part) for part in plan.parts] == [CalibratedPlan]:
        return _sums_to_dict(plan.parts[0])
    expected = {} if plan.expected_trials is None else {"expected": plan.expected_trials}
    return {plan.together.name.lower(): [plan_to_dict(part) for part in plan.parts]} | expected


def _fit_to_dict(plan: Any) -> dict[str, Any]:
    """The plan of a fit."""
    calibrated: CalibratedPlan = plan.calibrated
    return {
        **_table_to_dict(plan.setting),
        "n_features": plan.n_features,
        "problem": {part.name: described(getattr(plan.problem, part.name)) for part in fields(Problem)},
        "constants": constants_to_dict(plan.setting.constants),
        "solver": described(plan.solver),
        "noise_multiplier": _number(calibrated.noise_multiplier),
        "n_steps": calibrated.plan.n_steps,
        "before": _queries_to_list(calibrated, calibrated.plan.ranges),
        "queries": _queries_to_list(calibrated, calibrated.plan.planned),
        "after": _queries_to_list(calibrated, calibrated.plan.afterwards),
    }


def _sums_to_dict(calibrated: CalibratedPlan) -> dict[str, Any]:
    """Sums over rows that are released together."""
    return {
        **_table_to_dict(calibrated.plan.planned[0].query.setting),
        "noise_multiplier": _number(calibrated.noise_multiplier),
        "queries": _queries_to_list(calibrated, calibrated.plan.planned),
    }


def _table_to_dict(table: Any) -> dict[str, Any]:
    return {"n": table.n, "adjacency": table.adjacency.value, "unit": described(table.unit)}


def constants_to_dict(constants: Constants) -> dict[str, Any]:
    """What proofs rest on."""
    return {name: described(getattr(constants, name)) for name in _CONSTANTS}


def _queries_to_list(calibrated: CalibratedPlan, planned: Sequence[Planned]) -> list[dict[str, Any]]:
    return [
        {
            "query": described(item.query),
            "count": item.count,
            "relative_noise": float(item.relative_noise),
            "fixed": item.fixed,
            "sensitivity": float(item.query.sensitivity),
            "sigma": float(calibrated.sigma(item)),
            "events": events_of(item, calibrated.noise_multiplier),
        }
        for item in planned
    ]


def events_of(item: Planned, noise_multiplier: float | None) -> list[dict[str, Any]]:
    """What one answer costs, as plain data; nothing is accounted for in a run without noise."""
    if noise_multiplier is None:
        return []
    return event_to_list(item.query.event(item.multiplier(noise_multiplier)))


def _number(multiplier: float | None) -> float | None:
    return None if multiplier is None else float(multiplier)


def own_part(model: Any) -> dict[str, Any]:
    """Of a model's plan the part that is its own fit: after a search, the last fit of the winner."""
    plan: dict[str, Any] = model.plan_
    return plan["sequence"][1]["one_of"][model.search_.winner] if hasattr(model, "search_") else plan


def solver_from(part: dict[str, Any]) -> Solver:
    """The solver that ran: information, on which no cost rests."""
    solver: Solver = rebuilt(part["solver"], Solver)
    return solver


@dataclass(frozen=True)
class Part:
    """A fit, or sums over rows, as a file has it.

    Attributes
    ----------
    told : dict
        What the file says.
    calibrated : CalibratedPlan or CalibratedSums
        The questions, rebuilt on what their sensitivity follows from, and their noise.
    setting : Setting or PublicTable
        Derived from the problem and the public numbers.
    problem : Problem or None
        What was minimised; None for sums.
    """

    told: dict[str, Any]
    calibrated: Any
    setting: Any
    problem: Problem | None = None

    @property
    def event(self) -> Event:
        """What it costs."""
        event: Event = self.calibrated.event()
        return event

    @property
    def n_features(self) -> int:
        """Columns of an encoded row, of a fit."""
        return int(self.told["n_features"])

    @property
    def planned(self) -> tuple[Planned, ...]:
        """All questions in their order."""
        planned: tuple[Planned, ...] = self.calibrated.plan.everything
        return planned

    @property
    def told_queries(self) -> list[dict[str, Any]]:
        """What the file says of each."""
        return [*self.told.get("before", ()), *self.told["queries"], *self.told.get("after", ())]

    def parts(self) -> "Iterator[Part]":
        """Itself."""
        yield self


@dataclass(frozen=True)
class Several:
    """Several plans: one after the other, or one of them, or one that runs a random number of times.

    Attributes
    ----------
    how : {"sequence", "one_of", "random_trials"}
        Which.
    nested : tuple
        The plans.
    expected : int or None
        How many random trials are expected.
    """

    how: str
    nested: "tuple[Part | Several, ...]"
    expected: int | None = None

    @property
    def event(self) -> Event:
        """What they cost together."""
        events = tuple(plan.event for plan in self.nested)
        if self.how == "one_of":
            return OneOf(events)
        together = events[0] if len(events) == 1 else Composed(events)
        return together if self.expected is None else RandomTrials(together, 1.0 / self.expected)

    def parts(self) -> Iterator[Part]:
        """All fits and sums in it."""
        for plan in self.nested:
            yield from plan.parts()


Recorded = Part | Several


def plan_from(content: Any, adjacency: Adjacency, unit: PrivacyUnit | None) -> Recorded:
    """Read a plan: problem → constants → setting → questions. Nothing is planned and no heuristic is asked.

    Parameters
    ----------
    content : dict
        What a file says.
    adjacency : Adjacency
        The neighbouring relation.
    unit : PrivacyUnit or None
        Whose rows are protected together.

    Raises
    ------
    ValueError, KeyError, TypeError, ArithmeticError, DpermError
        If it is no plan.
    """
    if "queries" in content:
        return part_from(content, adjacency, unit)
    (how,) = set(content) - {"expected"}
    nested = tuple(plan_from(one, adjacency, unit) for one in content[how])
    if how not in ("sequence", "one_of", "random_trials") or not nested:
        raise ValueError("plan")
    if (how == "random_trials") != (len(content) == 2):
        raise ValueError("expected")
    return Several(how, nested, count("expected", content["expected"]) if len(content) == 2 else None)


def part_from(content: Any, adjacency: Adjacency, unit: PrivacyUnit | None) -> Part:
    """Read one fit, or sums over rows."""
    if set(content) not in (_FIT, _SUMS):
        raise ValueError("plan")
    n, multiplier = count("n", content["n"]), content["noise_multiplier"]
    if (content["adjacency"], content["unit"]) != (adjacency.value, described(unit)):
        raise ValueError("unit")
    if type(multiplier) not in (float, type(None)):
        raise TypeError("noise_multiplier")
    if set(content) == _SUMS:
        table = PublicTable(n, adjacency, unit)
        sums = plan_of_sums(tuple(_planned(one, table, Planned) for one in content["queries"]))
        return Part(content, sums.with_noise(multiplier), table)
    problem, width = problem_from(content["problem"]), count("n_features", content["n_features"])
    count("n_steps", content["n_steps"])
    if not isinstance(content["solver"], dict):
        raise TypeError("solver")
    outputs = max(1, problem.loss.n_outputs)
    if max(outputs, width, outputs * width) > _MOST_COEFFICIENTS:
        raise ValueError("n_features")
    setting = Setting(problem.constants(width), n, adjacency, unit)
    before, planned, after = (
        tuple(_planned(one, setting, PlannedQuery) for one in content[key]) for key in ("before", "queries", "after")
    )
    plan: Plan[None] = Plan("", planned, None, before, after)
    return Part(content, CalibratedPlan(plan, multiplier), setting, problem)


def problem_from(content: Any) -> Problem:
    """Read what was minimised."""
    if set(content) != {part.name for part in fields(Problem)}:
        raise ValueError("problem")
    parts: dict[str, Any] = {name: rebuilt(content[name], family) for name, family in _PARTS.items()}
    return Problem(**parts, **{name: value_of(value) for name, value in content.items() if name not in parts})


def _planned(content: Any, setting: Setting | PublicTable, kind: Any) -> Any:
    """Read a question, rebuilt on a setting that is derived."""
    if set(content) != _QUERY:
        raise ValueError("query")
    if type(content["fixed"]) is not bool or type(content["relative_noise"]) is not float:
        raise TypeError("query")
    for name in ("sensitivity", "sigma"):
        if type(content[name]) is not float:
            raise TypeError(name)
    query = rebuilt(content["query"], Mechanism, setting=setting)
    return kind(query, content["count"], content["relative_noise"], content["fixed"])
