"""Whether what a model file says is true: ε is derived again from its accounting events."""

import math
from dataclasses import dataclass
from typing import Any

from dperm.errors import DpermError
from dperm.model_file import is_unchanged, model_from
from dperm.privacy.accountants import delta_of, epsilon_of, has_renyi_price, rdp_epsilon
from dperm.privacy.assumptions import assumptions
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.ledger import Budget
from dperm.privacy.statement import PrivacyStatement
from dperm.schema import Schema

# Two machines may round the last digits of an ε differently.
_LAST_DIGITS = 1e-9


@dataclass(frozen=True)
class Finding:
    """One thing that was checked."""

    holds: bool
    text: str


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
        The statement is true if all of them hold.
    """
    unchanged = is_unchanged(content)
    found = [Finding(unchanged, "the fingerprint is that of the contents" if unchanged else "the file was changed")]
    model = model_from(content)
    if model is None:
        return [*found, Finding(False, "the contents do not fit together")]
    statement, schema = model.privacy_, model.schema_
    found += [_words(content, statement, schema), *_price(model.event_, statement)]
    if schema is not None:
        found.append(_bounds(statement, schema))
    found.append(_release(statement))
    if ledger is not None:
        found.append(_entry(content, ledger))
    return found


def _release(statement: PrivacyStatement) -> Finding:
    if statement.caveats:
        return Finding(False, f"not for release: {'; '.join(statement.caveats)}")
    sound = not statement.seeded and statement.noise == "certified"
    return Finding(sound, "it is for release" if sound else "not for release, and the caveats leave out why")


def _words(content: dict[str, Any], statement: PrivacyStatement, schema: Schema | None) -> Finding:
    dataset = None if content["ledger"] is None else content["ledger"].get("dataset")
    same = content["statement"] == str(statement).splitlines()
    same = same and content["assumptions"] == assumptions(statement, schema, dataset)
    return Finding(same, "the words say what the numbers say" if same else "the words and the numbers differ")


def _price(event: Any, statement: PrivacyStatement) -> list[Finding]:
    if math.isinf(statement.epsilon):
        return [Finding(False, "nothing is promised: the run had no noise")]
    adjacency = Adjacency.parse(statement.adjacency)
    try:
        epsilon = epsilon_of(event, statement.delta, adjacency)
        delta = delta_of(event, statement.epsilon, adjacency)
    except ArithmeticError:  # numbers that no run has
        return [Finding(False, "the accounting events have no price")]
    room = 1.0 + _LAST_DIGITS
    holds = epsilon <= statement.epsilon * room and delta <= statement.delta * room + 1e-300
    promised = f"(ε = {statement.epsilon:g}, δ = {statement.delta:g}), adjacency {statement.adjacency}"
    derived = f"the accounting events give ε = {epsilon:.6g} at δ = {statement.delta:g}"
    found = [Finding(holds, f"{derived}: {'within' if holds else 'NOT within'} the promised {promised}")]
    if statement.delta > 0.0 and has_renyi_price(event):
        check = rdp_epsilon(event, statement.delta, adjacency)
        agree = check >= epsilon * (1.0 - _LAST_DIGITS)
        found.append(Finding(agree, f"Rényi accounting, other code, gives ε ≤ {check:.6g}: looser, as it must be"))
    return found


def _bounds(statement: PrivacyStatement, schema: Schema) -> Finding:
    declared = not schema.derived_from_data and not schema.private_ranges
    same = statement.row_norm == schema.bound and statement.n_features == schema.n_features
    text = f"{len(schema.columns)} columns give rows of {schema.n_features} entries and norm at most {schema.bound:.4g}"
    return Finding(declared and same, text if declared and same else "the schema and the statement do not agree")


def _entry(content: dict[str, Any], ledger: str) -> Finding:
    entry = content["ledger"]
    if entry is None:
        return Finding(False, "no ledger was charged for this release")
    try:
        Budget(entry["dataset"], ledger).confirm(entry["number"], entry["digest"], content["fingerprint"])
    except (DpermError, KeyError, TypeError) as error:
        return Finding(False, str(error) if isinstance(error, DpermError) else "the ledger entry is not readable")
    return Finding(True, f"entry {entry['number']} of {entry['dataset']!r} in the ledger is this release")
