"""Whether what an evaluation file says is true: ε from its events, noise and metrics from its public numbers."""

import math
from typing import Any

from dperm.accounting.events import event_to_list
from dperm.errors import DpermError
from dperm.evaluation.result import PrivateEvaluation
from dperm.files.model_file import is_library
from dperm.privacy.caveats import Caveat, in_words
from dperm.verify.finding import Finding
from dperm.verify.model import MARKED_FOR_RELEASE, WORDS_MATCH, _bound, _entry, sealed
from dperm.verify.replanned import alike, same_promise

_LAST_DIGITS = 1e-9


def verify_evaluation(content: dict[str, Any], ledger: str | None = None) -> list[Finding]:
    """Check an evaluation file's contents.

    Parameters
    ----------
    content : dict
        What `read_evaluation` returned.
    ledger : str, optional
        Also look the release up in this ledger.

    Returns
    -------
    list of Finding
        What is promised follows from the events in the file if all of them hold.
    """
    found = [sealed(content)]
    evaluation = evaluation_from(content)
    if evaluation is None:
        return [*found, Finding(False, "the contents do not fit together")]
    statement = evaluation.privacy_
    found += [_words(content, evaluation), _noise(evaluation)]
    if found[-1].holds:  # events that no plan has can take hours to account for
        found += _bound(evaluation.event_, statement)
    release = in_words(statement.caveats) or (Caveat.SEEDED.value if statement.seeded else "")
    found.append(Finding(not release, f"not for release: {release}" if release else MARKED_FOR_RELEASE))
    if ledger is not None:
        found.append(_entry(content, ledger))
    return found


def evaluation_from(content: dict[str, Any]) -> PrivateEvaluation | None:
    """The evaluation of a file's contents, None if they do not fit together."""
    try:
        return PrivateEvaluation.from_dict(content)
    except DpermError:
        return None


def _words(content: dict[str, Any], evaluation: PrivateEvaluation) -> Finding:
    """Words, metrics and verdict follow from the released numbers, up to how two machines round."""
    again, free = evaluation.to_dict(), ("fingerprint", "library", "metrics")
    same = set(content) == set(again) and all(alike(again[key], content[key]) for key in again if key not in free)
    same = same and is_library(content["library"]) and _is_close(content["metrics"], again["metrics"])
    return Finding(
        same, f"{WORDS_MATCH}, and so do the metrics" if same else "statement text and recorded values differ"
    )


def _is_close(first: Any, second: Any) -> bool:
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_is_close(first[key], second[key]) for key in first)
    if type(first) is float and type(second) is float:
        return math.isclose(first, second, rel_tol=_LAST_DIGITS, abs_tol=_LAST_DIGITS)
    return bool(first == second)


def _noise(evaluation: PrivateEvaluation) -> Finding:
    """The plan that these public numbers give has these events and this noise."""
    plan, statement = evaluation.planned_again(), evaluation.privacy_
    pairs = zip(plan.calibrated.deviations, evaluation.deviations, strict=True)
    same = all(math.isclose(*pair, rel_tol=_LAST_DIGITS) for pair in pairs)
    same = same and event_to_list(plan.event) == event_to_list(evaluation.event_)
    same = same and same_promise(plan.statement.of_run(seeded=statement.seeded, caveats=statement.caveats), statement)
    return Finding(same, f"replanning the evaluation gives {'the same' if same else 'other'} events and noise")
