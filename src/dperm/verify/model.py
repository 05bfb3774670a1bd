"""Whether a model, its schema, its parameters and its statement speak of the fit that its plan describes."""

import math
import warnings
from dataclasses import fields, replace
from typing import Any

import numpy as np

from dperm.errors import DpermError, NotInstalledError
from dperm.files.described import described
from dperm.files.plan_data import Part, Recorded
from dperm.models.base import PrivateEstimator
from dperm.models.weights import check_policy, expects_weights, facts_of_weights
from dperm.plan.fit_plan import Release
from dperm.plan.intervals import check_share, dispersion_of, public_facts
from dperm.plan.statement import statement_of
from dperm.privacy.guarantee import Guarantee
from dperm.privacy.statement import FitStatement
from dperm.schema import Classes, Schema
from dperm.verify.alike import alike
from dperm.verify.finding import Finding
from dperm.verify.plan import is_search

# What happens in a run, what accounting finds, and words.
_ELSEWHERE = frozenset(("certified_epsilon", "certified_delta", "seeded", "caveats", "mechanism"))


def model_agrees(content: dict[str, Any], model: PrivateEstimator, part: Recorded) -> Finding:
    """Whether a model file speaks of one fit throughout.

    Parameters
    ----------
    content : dict
        Of the file.
    model : estimator
        What was read from it.
    part : Part
        The plan of its fit.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return _agrees(content, model, part)
    except NotInstalledError as error:
        return Finding(False, f"NOT verified: what the fit was asked to do could not be read, as {error}")
    except (DpermError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return Finding(False, "the model, the schema and the statement do not agree with the plan")


def _agrees(content: dict[str, Any], model: PrivateEstimator, part: Recorded) -> Finding:
    statement, schema = model.privacy_, model.schema_
    other: str | None = "plan is not one of a fit"
    if isinstance(part, Part) and part.problem is not None:
        other = _shape_differs(content, statement, schema, part)
        if other is None and statement.noise == "certified":
            other = _fit_differs(model, part)
    if other is not None:
        return Finding(False, f"the {other}")
    bounded = f"‖x‖₂ ≤ {statement.row_norm:.4g}"
    if statement.gradient_clip is not None:
        bounded = f"‖g‖₂ ≤ {statement.gradient_clip:.4g} for every row's gradient g"
    if schema is None:
        return Finding(True, f"rows: {statement.n_features} features, {bounded}")
    return Finding(True, f"schema: {len(schema.columns)} columns → {schema.n_features} features, {bounded}")


def _shape_differs(
    content: dict[str, Any], statement: FitStatement, schema: Schema | None, part: Part
) -> str | None:  # fmt: skip
    """Whether model, schema, statement and plan are about the same rows, columns and classes."""
    classes = None if content["classes"] is None else tuple(content["classes"])
    agree = [
        statement.classes == classes,
        statement.n_features == len(content["columns"]) == part.n_features,
        statement.n == part.setting.n,
    ]
    if schema is not None:
        agree += [
            not schema.derived_from_data,
            not schema.private_ranges,
            not schema.private_edges,
            all(column.encode in ("linear", "bins") for column in schema.numbers.values()),
            set(statement.private_ranges) <= set(schema.released_ranges),
            set(statement.private_edges) <= set(schema.released_edges),
            statement.gradient_clip is not None or (statement.row_norm, statement.entry_bound) == (schema.bound, 1.0),
            schema.n == statement.n,
            schema.unit == statement.unit,
            classes == (schema.target.labels if isinstance(schema.target, Classes) else None),
        ]
    return None if all(agree) else "model, the schema, the statement and the plan are not about the same rows"


def _fit_differs(model: PrivateEstimator, part: Part) -> str | None:
    """Whether the parameters ask for the problem of the plan, and the statement says what the plan has."""
    assert part.problem is not None
    asked = model.as_asked()
    if model.schema_ is not None:
        asked._check_schema(model.schema_)
    if not _asks_for(asked, part):
        return "parameters are those of another problem than the plan's"
    planned = asked.schema if model.schema_ is not None else None
    if not _same_but_for_releases(planned, model.schema_, model.privacy_):
        return "schema that was fitted with is not the one in the file"
    derived = _statement(asked, model, part)
    for name in (field.name for field in fields(FitStatement) if field.name not in _ELSEWHERE):
        if not alike(getattr(derived, name), getattr(model.privacy_, name)):
            return f"statement has another {name.replace('_', ' ')} than the plan"
    return _uncertainty_differs(model, part)


def _asks_for(asked: PrivateEstimator, part: Part) -> bool:
    """Whether an estimator minimises what the plan says; what a rule chose, the plan alone knows."""
    check_policy(asked)
    problem, told = asked._problem(), part.problem
    assert told is not None
    start = asked._linear_start()
    by_rule = isinstance(getattr(asked, "penalty", None), str)
    same = ("row_norm", "weight_bound", "entry_bound")
    return (
        described(problem.loss.for_width(part.n_features)) == described(told.loss)
        and (type(problem.regularizer) is type(told.regularizer))
        and (by_rule or alike(described(problem.regularizer), described(told.regularizer)))
        and alike(described(problem.domain), described(told.domain))
        and all(alike(getattr(problem, name), getattr(told, name)) for name in same)
        and bool(problem.intercept) == bool(told.intercept)
        and alike(None if start is None else start.point(told, part.n_features), told.start_point)
        and bool(check_share(getattr(asked, "intervals", False))) == bool(part.told["after"])
    )


def _same_but_for_releases(planned: Schema | None, released: Schema | None, statement: FitStatement) -> bool:
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


def _statement(asked: PrivateEstimator, model: PrivateEstimator, part: Part) -> FitStatement:
    """What a fit by this plan states, in the target's own units."""
    stated, problem = model.privacy_, part.problem
    assert problem is not None
    statement = statement_of(
        problem, part.n_features, part.setting, part.calibrated, stated.mechanism,
        guarantee=Guarantee(stated.epsilon, stated.delta), noise="certified", accountant=asked.accountant,
        target_transform=None if model.schema_ is None else getattr(model.schema_.target, "transform", None),
        certified=(stated.certified_epsilon, stated.certified_delta),
    )  # fmt: skip
    facts: dict[str, Any] = {"classes": stated.classes} if hasattr(model, "classes_") else {}
    facts |= facts_of_weights(asked, stated.weights is not None or expects_weights(asked))
    start = problem.start(part.n_features)
    asked._keep(Release(start, statement, model.event_, model.schema_), problem, facts)
    return asked.privacy_


def _uncertainty_differs(model: PrivateEstimator, part: Part) -> str | None:
    """Whether what intervals rest on has the noise and the public numbers of the plan."""
    known = model.uncertainty_
    if (known is None) == bool(part.told["after"]):
        return "part about intervals is missing, or too much"
    if known is None or part.problem is None:
        return None
    public = public_facts(part.problem, part.calibrated, model.schema_, known.point)
    right = alike(public, {name: getattr(known, name) for name in public})
    follows = not known.bend or alike(known.dispersion, dispersion_of(part.problem, model.schema_))
    return None if right and follows else "noise of intervals is not that of the plan"


def search_agrees(model: Any, recorded: Recorded) -> Finding:
    """Whether the fit is the winner's of the search that the plan describes, and part of what is accounted for.

    Parameters
    ----------
    model : estimator
        What was read from a file.
    recorded : Several
        The plan of search and last fit.
    """
    record, fitted = model.search_, model.privacy_
    together = record.statement
    agree = (
        is_search(recorded, together.n, record.n_held_out, record.n_candidates)
        and (together.adjacency, together.n, together.unit) == (fitted.adjacency, fitted.n, fitted.unit)
        and (together.seeded, set(together.caveats)) == (fitted.seeded, set(fitted.caveats))
        and together.generator == fitted.generator
        and math.isfinite(fitted.epsilon)
    )
    true = "the last fit is the winner's, and part of the accounting"
    return Finding(agree, true if agree else "the last fit is NOT part of the accounting")
