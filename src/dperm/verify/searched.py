"""Whether a model is the winner of the search that its file describes, which is planned again."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from dperm.accounting.events import event_to_list
from dperm.errors import DpermError, NotInstalledError
from dperm.files.parameters import parameters_from_dict, parameters_to_dict, solver_to_dict
from dperm.models.base import PrivateEstimator, n_scores
from dperm.models.candidates import MOST_CANDIDATES
from dperm.models.registry import models
from dperm.models.units import unit_parameters
from dperm.plan.options import FitOptions
from dperm.plan.search import SearchOptions, SearchPlan, plan_search
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.unit import PrivacyUnit
from dperm.schema import schema_from_dict, schema_to_dict
from dperm.solvers import SOLVERS
from dperm.verify.finding import Finding
from dperm.verify.replanned import alike, other_version, same_but_for_releases, same_promise


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
            winner = _winner(content, model)
            return [winner, _replanned(content, model)] if winner.holds else [winner]
    except NotInstalledError as error:
        return [Finding(False, f"NOT verified: the recorded search could not be replanned, as {error}")]
    except (DpermError, ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError):
        return [Finding(False, f"the recorded search cannot be planned{other_version(content)}")]


def _winner(content: dict[str, Any], model: Any) -> Finding:
    """Whether the model was fitted as the candidate that won was to be fitted."""
    record, fitted = model.search_, model.privacy_
    *_, (last, _) = record.event.leaves()
    candidates = record.description["candidates"]
    winner = candidates[record.description["winner"]]
    agree = [
        1 <= len(candidates) <= MOST_CANDIDATES,
        *(_tried_as_fitted(candidate) for candidate in candidates),
        content["events"] in last.numbers()["alternatives"],
        winner["kind"] == content["kind"],
        winner["fit"] is None or winner["fit"] == content["fit"],
        (record.statement.adjacency, record.statement.n) == (fitted.adjacency, fitted.n),
        record.statement.unit == fitted.unit,
        (record.statement.seeded, set(record.statement.caveats)) == (fitted.seeded, set(fitted.caveats)),
        type(record.description["winner"]) is int and record.description["winner"] >= 0,
    ]
    true = "the last fit is the winner's, and part of what is accounted for"
    return Finding(all(agree), true if all(agree) else "the last fit is NOT part of what is accounted for")


def _tried_as_fitted(candidate: dict[str, Any]) -> bool:
    """Whether the trial had the solver of the last fit; "auto" may choose two, with nothing set in either."""
    if candidate["fit"] is None or candidate["trial"] is None:
        return candidate["fit"] is candidate["trial"]
    tried, fitted = candidate["trial"], candidate["fit"]["solver"]
    kinds = (SOLVERS[one["kind"]] for one in (tried, fitted))
    return alike(tried, fitted) or [solver_to_dict(kind()) for kind in kinds] == [tried, fitted]


def _replanned(content: dict[str, Any], model: Any) -> Finding:
    told, statement = model.search_.description, model.search_.statement
    if any(None in (candidate["trial"], candidate["fit"]) for candidate in told["candidates"]):
        return Finding(False, "the file does not describe all candidates, so the search cannot be planned again")
    plan = _plan(told, statement, content)
    refit = plan.refits[told["winner"]]
    same = [
        alike(event_to_list(plan.event), content["search"]["events"]),
        alike([refit.statement.epsilon, refit.statement.delta], [model.privacy_.epsilon, model.privacy_.delta]),
        same_promise(plan.statement.of_run(seeded=statement.seeded, caveats=statement.caveats), statement),
        same_but_for_releases(refit.schema, model.schema_, model.privacy_),
        alike([plan.method, plan.random_trials], [told["method"], told["trials"]]),
        *(
            alike(_described(place, plan, told, content), told["candidates"][place])
            for place in range(len(plan.refits))
        ),
        alike([schema_to_dict(schema_from_dict(schema)) for schema in told["schemas"]], told["schemas"]),
        set(range(len(told["schemas"]))) == {one["schema"] for one in told["candidates"]} - {None},
    ]
    text = "gives the same events" if all(same) else "gives other events, another noise or another description"
    return Finding(all(same), f"replanning the recorded search {text}{'' if all(same) else other_version(content)}")


def _plan(told: dict[str, Any], statement: Any, content: dict[str, Any]) -> SearchPlan:
    """The search by its description; solvers are those that were chosen."""
    options = SearchOptions(
        Guarantee(statement.epsilon, statement.delta), Adjacency.parse(statement.adjacency), told["score"],
        told["method"], told["share"], told["held_out"], told["trials"], statement.unit,
    )  # fmt: skip

    n_features = content["privacy"]["n_features"]

    def fit_of(place: int, guarantee: Guarantee, rows: int) -> FitOptions:
        return _candidate(place, told, content, guarantee, rows, last=rows == statement.n).options()

    return plan_search(
        options, statement.n, len(told["candidates"]),
        lambda place, guarantee, rows: fit_of(place, guarantee, rows).chosen_solver(rows, n_features),
        lambda place, guarantee, rows, _: fit_of(place, guarantee, rows).plan(rows, n_features),
    )  # fmt: skip


def _candidate(
    place: int, told: dict[str, Any], content: dict[str, Any], guarantee: Guarantee, rows: int, *, last: bool
) -> PrivateEstimator:  # fmt: skip
    """The estimator of a candidate, with the solver of its trial or of the last fit."""
    candidate, unit = told["candidates"][place], content["search"]["privacy"].get("unit")
    described = candidate["fit"] if last else candidate["fit"] | {"solver": candidate["trial"]}
    kind, unit = models()[candidate["kind"]], None if unit is None else PrivacyUnit.from_dict(unit)
    parameters = kind.from_description(parameters_from_dict(described), n_scores(len(content["classes"] or ())))
    parameters["schema"] = None
    if candidate["schema"] is not None:
        parameters["schema"] = replace(schema_from_dict(told["schemas"][candidate["schema"]]), unit=unit)
    elif unit is not None:
        parameters |= unit_parameters(unit)
    if candidate["classes"] is not None:
        parameters["classes"] = candidate["classes"]
    adjacency = content["search"]["privacy"]["adjacency"]
    return kind(guarantee.epsilon, guarantee.delta, adjacency=adjacency, n=rows, **parameters)


def _described(place: int, plan: SearchPlan, told: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    """How a search describes the estimator that was made of a candidate's description."""
    candidate, guarantee = told["candidates"][place], plan.options.guarantee
    again = _candidate(place, told, content, guarantee, plan.n, last=True)
    trial, refit = plan.trials[place], plan.refits[place]
    classes = None if candidate["schema"] is not None else content["classes"]
    schema = candidate["schema"]
    return {
        "kind": again.kind,
        "schema": schema,
        "classes": classes,
        "trial": solver_to_dict(trial.solver),
        "fit": parameters_to_dict(again, refit.solver, refit.schema),
    }
