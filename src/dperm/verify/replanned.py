"""Whether a statement follows from the fit that its file describes, which is planned again with the noise it states."""

import math
import warnings
from dataclasses import fields, replace
from typing import Any

import numpy as np

from dperm.accounting.events import event_to_list
from dperm.errors import DpermError, NotInstalledError
from dperm.files.parameters import parameters_to_dict
from dperm.models.base import PrivateEstimator
from dperm.models.weights import expects_weights, facts_of_weights
from dperm.plan.fit_plan import FitPlan, Release
from dperm.plan.intervals import dispersion_of, public_facts
from dperm.privacy.statement import FitStatement, PrivacyStatement
from dperm.schema import Schema
from dperm.verify.finding import Finding
from dperm.version import __version__

# What no plan says (seeded, caveats), or what `verify` compares with what the events give.
_ELSEWHERE = frozenset(("certified_epsilon", "certified_delta", "seeded", "caveats"))

# Two machines may round the last digits differently.
_LAST_DIGITS = 1e-9


def derived(content: dict[str, Any], model: PrivateEstimator) -> list[Finding]:
    """Plan the fit again and compare events and statement; nothing to say of noise that is not certified.

    Parameters
    ----------
    content : dict
        Of a model file.
    model : estimator
        What `model_file.model_from` made of it.
    """
    statement = model.privacy_
    if statement.noise != "certified":
        return []
    if content.get("fit") is None:
        return [Finding(False, "the file does not describe its fit, so its noise and its steps cannot be derived")]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [_compared(content, model)]
    except NotInstalledError as error:
        return [Finding(False, f"NOT verified: the recorded fit could not be replanned, as {error}")]
    except (DpermError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return [Finding(False, f"the recorded fit cannot be planned{other_version(content)}")]


def _compared(content: dict[str, Any], model: PrivateEstimator) -> Finding:
    """Whether one of the plans that there can be has these events and this statement."""
    statement, released = model.privacy_, model.schema_
    again, wrong = model.as_asked(), "noise, or other events"
    plans = again.options().plans_with_noise(
        statement.noise_multiplier, statement.n, statement.n_features,
        has=lambda event: alike(event_to_list(event), content["events"]),
    )  # fmt: skip
    for plan in plans:
        if not same_but_for_releases(plan.schema, released, statement):
            return Finding(False, "the schema that was fitted with is not the one in the file")
        other = _differs(_statement(again, plan, model), statement) or _uncertainty_differs(plan, model)
        other = other or _description_differs(again, plan, content["fit"])
        if other is None:
            return Finding(True, "replanning the recorded fit gives the same events, noise and steps")
        wrong = other
    return Finding(False, f"replanning the recorded fit gives another {wrong}{other_version(content)}")


def same_but_for_releases(planned: Schema | None, released: Schema | None, statement: FitStatement) -> bool:
    """Whether the schema in the file is the planned one with ranges and bins in the place of private ones."""
    if planned is None or released is None:
        return planned is released
    if set(planned.private_ranges) != set(statement.private_ranges):
        return False
    if set(planned.private_edges) != set(statement.private_edges):
        return False
    columns: dict[str, Any] = {**released.columns, released.target.column: getattr(released.target, "number", None)}
    completed = planned.with_ranges({name: columns[name].bounds for name in planned.private_ranges})
    completed = completed.with_edges({name: columns[name].edges for name in planned.private_edges})
    return replace(completed, n=released.n) == released


def _statement(again: PrivateEstimator, plan: FitPlan, model: PrivateEstimator) -> FitStatement:
    """What a fit by this plan would state, in the target's own units."""
    problem = plan.problem
    w = problem.start(plan.n_features)
    facts: dict[str, Any] = {"classes": model.privacy_.classes} if hasattr(model, "classes_") else {}
    facts |= facts_of_weights(again, model.privacy_.weights is not None or expects_weights(again))
    again._keep(Release(w, plan.statement, plan.event, model.schema_), problem, facts)
    return again.privacy_


def _differs(derived: FitStatement, stated: FitStatement) -> str | None:
    """The first field in which they differ."""
    for part in fields(FitStatement):
        if part.name not in _ELSEWHERE and not alike(getattr(derived, part.name), getattr(stated, part.name)):
            return part.name.replace("_", " ")
    return None


def _description_differs(again: PrivateEstimator, plan: FitPlan, told: dict[str, Any]) -> str | None:
    """Whether the fit is described otherwise than the estimator that was made of it: a part is missing or too much."""
    return None if alike(parameters_to_dict(again, plan.solver, plan.schema), told) else "description of the fit"


def _uncertainty_differs(plan: FitPlan, model: PrivateEstimator) -> str | None:
    """Whether what intervals rest on has the noise and the public numbers of the plan."""
    known = model.uncertainty_
    if (known is None) == bool(plan.calibrated.plan.afterwards):
        return "part about intervals"
    if known is None:
        return None
    public = public_facts(plan.problem, plan.calibrated, model.schema_, known.point)
    right = alike(public, {name: getattr(known, name) for name in public})
    follows = not known.bend or alike(known.dispersion, dispersion_of(plan.problem, model.schema_))
    return None if right and follows else "noise of intervals"


def same_promise(derived: PrivacyStatement, stated: PrivacyStatement) -> bool:
    """Whether two statements are the same; what is certified is compared with what the events give."""
    certified = {name: getattr(stated, name) for name in ("certified_epsilon", "certified_delta")}
    return alike(replace(derived, **certified).to_dict(), stated.to_dict())


def alike(first: Any, second: Any) -> bool:
    """Whether two pieces of plain data are the same, but for the last digits of numbers."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(alike(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(alike, first, second))
    if isinstance(first, float) and isinstance(second, int | float) and not isinstance(second, bool):
        return math.isclose(first, second, rel_tol=_LAST_DIGITS)
    return type(first) is type(second) and bool(first == second)


def other_version(content: dict[str, Any]) -> str:
    """Whether another version of dperm wrote the file, in words."""
    written = content["library"]
    return "" if written == f"dperm {__version__}" else f" (it was written by {written}, this is {__version__})"
