"""Whether the numbers of a recorded plan follow from each other: problem → constants → sensitivities → noise."""

from collections.abc import Iterator
from typing import Any

from dperm.files.plan_data import Part, Recorded, Several, constants_to_dict, events_of
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.held_out import HeldOutChoice
from dperm.mechanisms.setting import Setting
from dperm.verify.alike import alike
from dperm.verify.finding import Finding


def follows(recorded: Recorded) -> Finding:
    """Whether constants, sensitivities and noise are those that problem and public numbers give.

    Parameters
    ----------
    recorded : Part or Several
        What `plan_data.plan_from` read: its questions rest on constants that were derived anew.
    """
    wrong = next((text for part in recorded.parts() for text in _wrong(part)), None)
    if wrong is not None:
        return Finding(False, f"the recorded {wrong} NOT follow from the problem and the public numbers")
    questions = sum(item.count for part in recorded.parts() for item in part.planned)
    many = "the planned query matches" if questions == 1 else f"all {questions} planned queries match"
    return Finding(True, f"constants, sensitivities and noise: {many} the record")


def _wrong(part: Part) -> Iterator[str]:
    if isinstance(part.setting, Setting) and not alike(
        constants_to_dict(part.setting.constants), part.told["constants"]
    ):
        yield "constants of the problem do"
    if "n_steps" in part.told and part.told["n_steps"] != part.calibrated.plan.n_steps:
        yield "numbers of steps do"
    for item, told in zip(part.planned, part.told_queries, strict=True):
        if not alike(float(item.query.sensitivity), told["sensitivity"]):
            yield "sensitivities do"
        if not alike(float(part.calibrated.sigma(item)), told["sigma"]):
            yield "scales of the noise do"
        if not alike(events_of(item, part.calibrated.noise_multiplier), told["events"]):
            yield "accounting events do"


def is_search(recorded: Recorded, n: int, n_held_out: int, n_candidates: int) -> bool:
    """Whether a plan is that of a search: trials on a part of the rows, scores on the others, then a last fit.

    Parameters
    ----------
    recorded : Part or Several
        What a file says.
    n : int
        The public number of rows, or of units.
    n_held_out : int
        How many of them candidates are scored on.
    n_candidates : int
        How many there are to choose from.
    """
    match recorded:
        case Several("sequence", (Several("one_of", (Several("sequence", trials), Part() as scores)), last)):
            choice: Any = HeldOutChoice
        case Several("sequence", (Several("random_trials", (Several("one_of", (*trials, Part() as scores)),)), last)):
            choice = BoundedSum
        case _:
            return False
    query: Any = scores.planned[0].query
    fits: list[Any] = [*trials, *getattr(last, "nested", ())]
    return (
        isinstance(last, Several)
        and last.how == "one_of"
        and len(trials) == len(last.nested) == n_candidates
        and all(isinstance(one, Part) and one.problem is not None for one in fits)
        and [one.setting.n for one in (*fits, scores)] == [n - n_held_out] * n_candidates + [n] * (n_candidates + 1)
        and len(scores.planned) == 1
        and type(query) is choice
        and (
            query.n_candidates == n_candidates
            if choice is HeldOutChoice
            else (query.size, query.bound, query.nonnegative) == (1, 1.0, True)
        )
    )
