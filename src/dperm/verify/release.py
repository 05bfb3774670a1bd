"""Whether what a file says is true: sensitivities and events from its plan, and ε from its events, twice."""

import math
import os
from contextlib import suppress
from decimal import ROUND_CEILING, Context
from typing import Any, NamedTuple

import numpy as np

from dperm.accounting.composition import curve_of
from dperm.accounting.events import Event, event_to_list
from dperm.accounting.renyi import has_renyi_bound, rdp_epsilon
from dperm.errors import DpermError, InvalidParameterError
from dperm.evaluation.result import PrivateEvaluation
from dperm.files.model_file import fingerprint_of, is_unchanged
from dperm.files.plan_data import Recorded, own_part, part_from, plan_from
from dperm.files.reading import promise_of, release_from
from dperm.ledger import Budget, budgets, default_ledger
from dperm.ledger.tables import NoBudgetError
from dperm.models.base import PrivateEstimator
from dperm.models.charged import Charged
from dperm.pipelines.pipeline import PrivatePipeline
from dperm.privacy.caveats import in_words
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import PrivacyStatement
from dperm.verify.alike import LAST_DIGITS, alike
from dperm.verify.finding import Finding
from dperm.verify.model import model_agrees, search_agrees
from dperm.verify.plan import follows
from dperm.verify.sums import evaluation_agrees, statement_agrees, steps_agree

MARKED_FOR_RELEASE = "marked for release: certified noise, unseeded, no caveats"
NOT_CHARGED = "budget: none was charged for this release"
# Said with every verdict.
CANNOT_PROVE = "a file cannot prove that the noise was added; that rests on who ran the fit (docs/threat_model.md)"


class Promise(NamedTuple):
    """Something that a file promises.

    Attributes
    ----------
    of : str
        Of what, in words that end in a colon; empty for what the file is about.
    statement : PrivacyStatement
        What is promised.
    recorded : Part or Several
        The plan that it rests on.
    """

    of: str
    statement: Any
    recorded: Recorded


def verify(content: dict[str, Any], ledger: str | None = None) -> list[Finding]:
    """Check a file's contents: no solver plans again and no sentence is compared.

    Parameters
    ----------
    content : dict
        What `model_file.read_content` returned.
    ledger : str, optional
        Also look the release up in this ledger.

    Returns
    -------
    list of Finding
        What is promised follows from the plan in the file if all of them hold.
    """
    found = [sealed(content)]
    release = release_from(content)
    if release is None:
        return [*found, Finding(False, "the contents do not fit together")]
    # What is cheap comes first: events that no plan has can take hours to account for.
    promises = promises_of(content, release)
    found += facts_of(content, release, promises)
    if all(finding.holds for finding in found[1:]):
        found += [
            _of(promise, one) for promise in promises for one in _bound(promise.recorded.event, promise.statement)
        ]
    found.append(_release(promises[-1].statement))
    if ledger is not None:
        found.append(_entry(content, promises[-1].recorded.event, ledger))
    return found


def _of(promise: Promise, finding: Finding) -> Finding:
    return Finding(finding.holds, promise.of + finding.text)


def promises_of(content: dict[str, Any], release: Any) -> list[Promise]:
    """What a file promises; the last of them covers everything that was released."""
    adjacency, unit = promise_of(content)
    recorded = plan_from(content["plan"], adjacency, unit)
    whole = Promise("", release.privacy_, recorded)
    if isinstance(release, PrivateEstimator) and hasattr(release, "search_"):
        own = part_from(own_part(release), adjacency, unit)
        together = Promise("search and last fit together: ", release.search_.statement, recorded)
        return [Promise("", release.privacy_, own), together]
    if isinstance(release, PrivatePipeline):
        private: list[tuple[str, Any]] = [one for one in release.steps if isinstance(one[1], Charged)]
        parts = zip(private, getattr(recorded, "nested", ()), strict=True)
        return [*(Promise(f"step {name}: ", step.privacy_, one) for (name, step), one in parts), whole]
    return [whole]


def facts_of(content: dict[str, Any], release: Any, promises: list[Promise]) -> list[Finding]:
    """Whether everything that a file says, but for ε, follows from what it says elsewhere; nothing is accounted for."""
    whole = promises[-1]
    found = [follows(whole.recorded)]
    if isinstance(release, PrivateEstimator):
        found.append(model_agrees(content, release, promises[0].recorded))
        if len(promises) > 1:
            found.append(search_agrees(release, whole.recorded))
        return found
    found.append(statement_agrees(whole.statement, whole.recorded))
    if isinstance(release, PrivateEvaluation):
        found.append(evaluation_agrees(release, whole.recorded))
    if isinstance(release, PrivatePipeline):
        told, final = content["steps"][-1][1], release.steps[-1][1]
        found.append(_of(promises[-2], model_agrees(told, final, promises[-2].recorded)))
        found += [steps_agree(promise.statement, whole.statement, promise.of) for promise in promises[:-1]]
    return found


def sealed(content: dict[str, Any]) -> Finding:
    """Whether the fingerprint is that of the contents; whoever changes a file can compute another."""
    same = is_unchanged(content)
    return Finding(same, "fingerprint matches the contents" if same else "the file was modified (fingerprint mismatch)")


def _release(statement: PrivacyStatement) -> Finding:
    if math.isinf(statement.epsilon):
        return Finding(False, "no guarantee: the run had no noise")
    if statement.caveats:
        return Finding(False, f"not for release: {in_words(statement.caveats)}")
    sound = not statement.seeded and getattr(statement, "noise", "certified") == "certified"
    return Finding(sound, MARKED_FOR_RELEASE if sound else "not for release, and the caveats leave out why")


def _bound(event: Any, statement: PrivacyStatement) -> list[Finding]:
    adjacency = Adjacency.parse(statement.adjacency)
    try:
        curve = curve_of(event, adjacency)
        epsilon, delta = curve.epsilon(statement.delta), curve.delta(statement.epsilon)
    except (ArithmeticError, ValueError, MemoryError):  # numbers that no run has
        return [Finding(False, "the accounting events have no privacy bound")]
    slack = 1.0 + LAST_DIGITS
    holds = epsilon <= statement.epsilon * slack and delta <= statement.delta * slack + 1e-300
    promised = f"(ε = {statement.epsilon:g}, δ = {statement.delta:g}), adjacency {statement.adjacency}"
    promised += "" if statement.unit is None else f", unit: {statement.unit.described}"
    derived = f"the recorded events give ε = {epsilon:.6g} at δ = {statement.delta:g}"
    found = [Finding(holds, f"{derived}: {'within' if holds else 'NOT within'} the promised {promised}")]
    # The accountant that wrote the file may have been looser than today's, never tighter. Two machines that compose on
    # a grid differ by about 1e-15 in δ.
    last = 1e-8 + (1e-15 / statement.delta if statement.delta > 0.0 else 0.0)
    below = statement.certified_epsilon < epsilon * (1.0 - last)
    below = below or statement.certified_delta < delta - 1e-6 * max(delta, statement.delta)
    above = statement.certified_epsilon > statement.epsilon * slack
    above = above or statement.certified_delta > statement.delta * slack + 1e-300
    if below or (holds and above):
        found.append(
            Finding(False, "the certified ε or δ of the statement is below what the events give, or above the promise")
        )
    if statement.delta > 0.0 and has_renyi_bound(event):
        try:
            check = rdp_epsilon(event, statement.delta, adjacency)
        except (ArithmeticError, ValueError):
            return [*found, Finding(False, "Rényi accounting has no bound for the accounting events")]
        agree = check >= epsilon * (1.0 - LAST_DIGITS)
        found.append(Finding(agree, f"independent check (Rényi accounting): ε ≤ {check:.6g}, looser, as expected"))
    return [*found, *_rigorous(event_to_list(event), statement)]


def _rigorous(events: list[dict[str, Any]], statement: PrivacyStatement) -> list[Finding]:
    """ε by other code, with balls instead of floats."""
    from dperm.rigorous.bound import rigorous_bound  # python-flint takes a moment to load

    try:
        with np.errstate(all="ignore"):
            bound = rigorous_bound(events, statement.delta, statement.adjacency, statement.epsilon)
    except (ArithmeticError, ValueError, IndexError, MemoryError):  # numbers that no run has
        return [Finding(False, "independent check (interval arithmetic): the accounting events have no privacy bound")]
    if math.isinf(bound.epsilon):
        return [Finding(False, f"independent check (interval arithmetic): no ε at δ = {statement.delta:g}")]
    place = f"at δ = {statement.delta:g}, adjacency {statement.adjacency}"
    place += "" if statement.unit is None else f", unit: {statement.unit.described}"
    derived = f"ε ≤ {_rounded_up(bound.epsilon)} (± {bound.radius:.1g}) {place}"
    if bound.epsilon <= statement.epsilon:
        return [Finding(True, f"independent check (interval arithmetic): {derived}")]
    if bound.cells is None:
        return [
            Finding(
                False,
                f"independent check (interval arithmetic): {derived}, NOT within the promised {statement.epsilon:g}",
            )
        ]
    undecided = f"not decided on a grid of {bound.cells} cells, promised is ε = {statement.epsilon:g}"
    return [Finding(False, f"independent check (interval arithmetic): {derived}: {undecided}")]


def _rounded_up(epsilon: float) -> str:
    """Ten digits, none of them too small."""
    return f"{Context(prec=10, rounding=ROUND_CEILING).create_decimal(epsilon).normalize():f}"


def _entry(content: dict[str, Any], event: Event, ledger: str) -> Finding:
    entry = content["ledger"]
    if entry is None:
        return Finding(False, NOT_CHARGED)
    place = f"entry {entry['number']} of {entry['dataset']!r} in the ledger"
    try:
        budget = Budget(entry["dataset"], ledger)
        # The fingerprint of what is there, not the one that the file states.
        budget.confirm(entry["number"], entry["digest"], fingerprint_of(content))
        account = budget.account()
        reserved = next(release for release in account.releases if release.number == entry["number"])
    except NoBudgetError as error:
        return Finding(False, f"{error.fact}; name the ledger that was charged with --ledger")
    except DpermError as error:
        return Finding(False, str(error))
    same = alike(event_to_list(reserved.event), event_to_list(event))
    if not same or account.adjacency != content["privacy"]["adjacency"]:
        return Finding(False, f"{place} has different events")
    unit = content["privacy"].get("unit")
    if account.unit != (None if unit is None else unit["name"]):
        return Finding(False, f"{place} is of a budget with a different privacy unit")
    return Finding(True, f"{place} was charged for this release")


def ledger_of(content: dict[str, Any]) -> str | None:
    """The ledger at hand that is to be asked: that of DPERM_LEDGER or the user's own, if it knows the dataset.

    Of two that know it the one that confirms the release is asked. None if neither knows the dataset: then nobody
    confirms the release.
    """
    release = release_from(content)
    entry = None if release is None else content["ledger"]
    if entry is None:
        return None
    event = promises_of(content, release)[-1].recorded.event
    places = dict.fromkeys(filter(None, (os.environ.get("DPERM_LEDGER"), _own_ledger())))
    knowing = [place for place in places if _knows(place, entry["dataset"])]
    return next((place for place in knowing if _entry(content, event, place).holds), knowing[0] if knowing else None)


def _own_ledger() -> str | None:
    with suppress(InvalidParameterError):  # a user without a home folder
        return default_ledger()
    return None


def _knows(place: str, dataset: str) -> bool:
    with suppress(DpermError):
        return Budget(dataset, place) in budgets(place)
    return False
