"""Whether a model is the winner of the search that its file describes, which is planned again."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from dperm.accounting.events import event_to_list
from dperm.accounting.guarantee import Adjacency, Guarantee
from dperm.errors import DpermError, NotInstalled
from dperm.estimators.base import PrivateEstimator, n_scores
from dperm.estimators.registry import models
from dperm.estimators.units import unit_parameters
from dperm.planning.fit_plan import FitPlan
from dperm.planning.search import SearchOptions, SearchPlan, plan_search
from dperm.release.finding import Finding
from dperm.release.parameters import parameters_from_dict
from dperm.release.replanned import alike, other_version
from dperm.schema import schema_from_dict


def searched(content: dict[str, Any], model: PrivateEstimator) -> list[Finding]:
    """Whether the last fit is part of what was reserved, and whether the search that is described has these events.

    Parameters
    ----------
    content : dict
        Of a model file with a search.
    model : estimator
        What `model_file.model_from` made of it.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [_winner(content, model), _replanned(content, model)]
    except NotInstalled as error:
        return [Finding(True, f"the search that the file describes was NOT planned again: {error}")]
    except (DpermError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError):
        return [Finding(False, f"the search that the file describes cannot be planned{other_version(content)}")]


def _winner(content: dict[str, Any], model: Any) -> Finding:
    """Whether the model was fitted as the candidate that won was to be fitted."""
    record, fitted = model.search_, model.privacy_
    *_, (last, _) = record.event.leaves()
    winner = record.description["candidates"][record.description["winner"]]
    agree = [
        content["events"] in last.numbers()["alternatives"],
        winner["kind"] == content["kind"],
        winner["refit"] is None or winner["refit"] == content["fit"],
        (record.statement.adjacency, record.statement.n) == (fitted.adjacency, fitted.n),
        record.statement.unit == fitted.unit,
        (record.statement.seeded, set(record.statement.caveats)) == (fitted.seeded, set(fitted.caveats)),
        type(record.description["winner"]) is int and record.description["winner"] >= 0,
    ]
    true = "the last fit is the winner's, and part of what is accounted for"
    return Finding(all(agree), true if all(agree) else "the last fit is NOT part of what is accounted for")


def _replanned(content: dict[str, Any], model: Any) -> Finding:
    told, statement = model.search_.description, model.search_.statement
    if any(None in (candidate["trial"], candidate["refit"]) for candidate in told["candidates"]):
        return Finding(False, "the file does not describe all candidates, so that the search cannot be planned again")
    plan = _plan(told, statement, content)
    refit = plan.refits[told["winner"]].statement
    same = alike(event_to_list(plan.event), content["search"]["events"])
    same = same and alike([refit.epsilon, refit.delta], [model.privacy_.epsilon, model.privacy_.delta])
    same = same and plan.parts == statement.parts
    text = "is planned again with these events" if same else "has other events or another noise"
    return Finding(same, f"the search that the file describes {text}{'' if same else other_version(content)}")


def _plan(told: dict[str, Any], statement: Any, content: dict[str, Any]) -> SearchPlan:
    """The search by its description; solvers are those that were chosen."""
    options = SearchOptions(
        Guarantee(statement.epsilon, statement.delta), Adjacency.parse(statement.adjacency), told["score"],
        told["method"], told["share"], told["held_out"], told["trials"], statement.unit,
    )  # fmt: skip
    unit = statement.unit
    schemas = [replace(schema_from_dict(schema), unit=unit) for schema in told["schemas"]]

    def plan_fit(place: int, guarantee: Guarantee, rows: int) -> FitPlan:
        candidate = told["candidates"][place]
        parameters = parameters_from_dict(candidate["refit" if rows == statement.n else "trial"])
        parameters = models()[candidate["kind"]].from_description(parameters, n_scores(len(content["classes"] or ())))
        parameters["schema"] = None if candidate["schema"] is None else schemas[candidate["schema"]]
        if candidate["schema"] is None and unit is not None:
            parameters |= unit_parameters(unit)
        if candidate["classes"] is not None:
            parameters["classes"] = candidate["classes"]
        again = models()[candidate["kind"]](
            guarantee.epsilon, guarantee.delta, adjacency=statement.adjacency, n=rows, **parameters
        )
        return again.options().plan(rows, content["privacy"]["n_features"])

    return plan_search(options, statement.n, len(told["candidates"]), plan_fit)
