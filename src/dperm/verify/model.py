"""Whether what a model file says is true: ε is derived again from its events, twice, and the rest from its plan."""

import math
import os
from contextlib import suppress
from decimal import ROUND_CEILING, Context
from typing import Any

import numpy as np

from dperm.accounting.composition import curve_of
from dperm.accounting.events import event_to_list
from dperm.accounting.renyi import has_renyi_bound, rdp_epsilon
from dperm.errors import DpermError, InvalidParameterError
from dperm.files.content import KEYS, content_of
from dperm.files.model_file import fingerprint_of, is_unchanged, model_from
from dperm.ledger import Budget, budgets, default_ledger
from dperm.ledger.names import composed
from dperm.ledger.tables import NoBudgetError
from dperm.privacy.caveats import in_words
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import FitStatement, PrivacyStatement
from dperm.schema import Classes, Schema
from dperm.verify.finding import Finding
from dperm.verify.replanned import alike, derived
from dperm.verify.searched import searched

# Two machines may round the last digits of an ε differently.
_LAST_DIGITS = 1e-9

WORDS_MATCH = "statement text matches the recorded values"
MARKED_FOR_RELEASE = "marked for release: certified noise, unseeded, no caveats"
NOT_CHARGED = "budget: none was charged for this release"
# Said with every verdict.
CANNOT_PROVE = "a file cannot prove that the noise was added; that rests on who ran the fit (docs/threat_model.md)"


def verify(content: dict[str, Any], ledger: str | None = None) -> list[Finding]:
    """Check a model file's contents.

    Parameters
    ----------
    content : dict
        What `model_file.read_content` returned.
    ledger : str, optional
        Also look the release up in this ledger.

    Returns
    -------
    list of Finding
        What is promised follows from the events in the file if all of them hold.
    """
    extra = sorted(set(content) - KEYS)
    if extra:
        return [Finding(False, f"the file holds {extra[0]!r}, which no model file does")]
    found = [sealed(content)]
    model = model_from(content)
    if model is None:
        return [*found, Finding(False, "the contents do not fit together")]
    # What is cheap comes first: events that no plan has can take hours to account for.
    statement, facts = model.privacy_, _facts(content, model.privacy_, model.schema_)
    found += [facts, _words(content_of(model), content)] if facts.holds else [facts]
    checked = derived(content, model) if facts.holds else []
    if checked and all(finding.holds for finding in checked):
        checked += _bound(model.event_, statement)
    found += [*checked, _release(statement)]
    if hasattr(model, "search_") and all(finding.holds for finding in found[1:]):
        found += _search(content, model)
    if ledger is not None:
        found.append(_entry(content, ledger))
    return found


def sealed(content: dict[str, Any]) -> Finding:
    """Whether the fingerprint is that of the contents; whoever changes a file can compute another."""
    same = is_unchanged(content)
    return Finding(same, "fingerprint matches the contents" if same else "the file was modified (fingerprint mismatch)")


def _search(content: dict[str, Any], model: Any) -> list[Finding]:
    """Whether what is promised of a search and of the last fit together is true."""
    record, beyond = model.search_, "search and last fit together: "
    found = [_words(record.to_dict(), content["search"]), *searched(content, model)]
    if all(finding.holds for finding in found):
        found += _bound(record.event, record.statement)
    return [Finding(finding.holds, beyond + finding.text) for finding in found]


def _release(statement: FitStatement) -> Finding:
    if math.isinf(statement.epsilon):
        return Finding(False, "nothing is promised: the run had no noise")
    if statement.caveats:
        return Finding(False, f"not for release: {in_words(statement.caveats)}")
    sound = not statement.seeded and statement.noise == "certified"
    return Finding(sound, MARKED_FOR_RELEASE if sound else "not for release, and the caveats leave out why")


def _words(again: dict[str, Any], content: dict[str, Any]) -> Finding:
    """Whether a release of these numbers is written as the file has it: every text, every key, every type."""
    free = ("fingerprint", "library")
    first, second = ({key: value for key, value in one.items() if key not in free} for one in (again, content))
    same = alike(first, second)
    return Finding(same, WORDS_MATCH if same else "statement text and recorded values differ")


def _bound(event: Any, statement: PrivacyStatement) -> list[Finding]:
    adjacency = Adjacency.parse(statement.adjacency)
    try:
        curve = curve_of(event, adjacency)
        epsilon, delta = curve.epsilon(statement.delta), curve.delta(statement.epsilon)
    except (ArithmeticError, ValueError, MemoryError):  # numbers that no run has
        return [Finding(False, "the accounting events have no privacy bound")]
    slack = 1.0 + _LAST_DIGITS
    holds = epsilon <= statement.epsilon * slack and delta <= statement.delta * slack + 1e-300
    promised = f"(ε = {statement.epsilon:g}, δ = {statement.delta:g}), adjacency {statement.adjacency}"
    promised += "" if statement.unit is None else f", unit: {statement.unit.described}"
    derived = f"the recorded events give ε = {epsilon:.6g} at δ = {statement.delta:g}"
    found = [Finding(holds, f"{derived}: {'within' if holds else 'NOT within'} the promised {promised}")]
    # Two machines that compose on a grid differ by about 1e-15 in δ.
    last = 1e-8 + (1e-15 / statement.delta if statement.delta > 0.0 else 0.0)
    same = math.isclose(statement.certified_epsilon, epsilon, rel_tol=last)
    same = same and math.isclose(statement.certified_delta, delta, rel_tol=1e-6, abs_tol=1e-6 * statement.delta)
    if not same:
        found.append(Finding(False, "the certified ε and δ of the statement are not those that the events give"))
    if statement.delta > 0.0 and has_renyi_bound(event):
        try:
            check = rdp_epsilon(event, statement.delta, adjacency)
        except (ArithmeticError, ValueError):
            return [*found, Finding(False, "Rényi accounting has no bound for the accounting events")]
        agree = check >= epsilon * (1.0 - _LAST_DIGITS)
        found.append(Finding(agree, f"independent check (Rényi accounting): ε ≤ {check:.6g}, looser as it must be"))
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


def _facts(content: dict[str, Any], statement: FitStatement, schema: Schema | None) -> Finding:
    """Whether model, schema and statement speak of the same rows, columns and classes."""
    classes = None if content["classes"] is None else tuple(content["classes"])
    constant = min(statement.row_norm, statement.entry_bound or math.inf)
    constants = (constant, min(constant, statement.row_norm / statement.n_features**0.25))
    norms = (statement.row_norm, *(math.hypot(statement.row_norm, value) for value in constants))
    agree = [
        statement.classes == classes,
        statement.n_features == len(content["columns"]),
        any(math.isclose(statement.full_row_norm, norm) for norm in norms),
        (statement.coefficient_noise or 0.0) >= 0.0,
    ]
    bounded = f"‖x‖₂ ≤ {statement.row_norm:.4g}"
    if statement.gradient_clip is not None:
        bounded = f"‖g‖₂ ≤ {statement.gradient_clip:.4g} for every row's gradient g"
    text = f"rows: {statement.n_features} features, {bounded}"
    if schema is not None:
        agree += [
            not schema.derived_from_data,
            not schema.private_ranges,
            not schema.private_edges,
            set(statement.private_ranges) <= set(schema.released_ranges),
            set(statement.private_edges) <= set(schema.released_edges),
            statement.gradient_clip is not None or (statement.row_norm, statement.entry_bound) == (schema.bound, 1.0),
            schema.n == statement.n,
            schema.unit == statement.unit,
            classes == (schema.target.labels if isinstance(schema.target, Classes) else None),
        ]
        text = f"schema: {len(schema.columns)} columns → {schema.n_features} features, {bounded}"
    return Finding(all(agree), text if all(agree) else "the model, the schema and the statement do not agree")


def _entry(content: dict[str, Any], ledger: str) -> Finding:
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
    charged = content["search"]["events"] if "search" in content else content["events"]
    if event_to_list(reserved.event) != charged or account.adjacency != content["privacy"]["adjacency"]:
        return Finding(False, f"{place} is for other events")
    unit = content["privacy"].get("unit")
    if account.unit != (None if unit is None else unit["name"]):
        return Finding(False, f"{place} is of a budget that protects another unit")
    return Finding(True, f"{place} was charged for this release")


def ledger_of(content: dict[str, Any]) -> str | None:
    """The ledger at hand that is to be asked: that of DPERM_LEDGER or the user's own, if it knows the dataset.

    Of two that know it the one that confirms the release is asked. None if neither knows the dataset: then nobody
    confirms the release.
    """
    return None if model_from(content) is None else ledger_knowing(content)


def ledger_knowing(content: dict[str, Any]) -> str | None:
    """The same for the contents of any file that fit together."""
    entry = content["ledger"]
    if entry is None:
        return None
    places = dict.fromkeys(filter(None, (os.environ.get("DPERM_LEDGER"), _own_ledger())))
    knowing = [place for place in places if _knows(place, entry["dataset"])]
    return next((place for place in knowing if _entry(content, place).holds), knowing[0] if knowing else None)


def _own_ledger() -> str | None:
    with suppress(InvalidParameterError):  # a user without a home folder
        return default_ledger()
    return None


def _knows(place: str, dataset: str) -> bool:
    with suppress(DpermError):
        return composed(dataset) in [budget.dataset for budget in budgets(place)]
    return False
