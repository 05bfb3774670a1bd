"""Whether sums over rows are those of the evaluation that a file holds."""

from typing import Any

from dperm.evaluation.design import ERROR_SUMS, Design
from dperm.evaluation.result import PrivateEvaluation
from dperm.files.plan_data import Recorded
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.cell_counts import CellCounts
from dperm.privacy.statement import PrivacyStatement
from dperm.privacy.unit import counted
from dperm.verify.alike import alike
from dperm.verify.finding import Finding


def statement_agrees(statement: PrivacyStatement, recorded: Recorded) -> Finding:
    """Whether a statement is about the rows of a plan.

    Parameters
    ----------
    statement : PrivacyStatement
        What is promised.
    recorded : Part or Several
        What a file says will be asked.
    """
    ns = {part.setting.n for part in recorded.parts()}
    pure = statement.delta == 0.0
    drawn = {item.query.distribution for part in recorded.parts() for item in part.planned if part.problem is None}
    same = ns == {statement.n} and statement.generator == "ChaCha20" and drawn <= {"Laplace" if pure else "Gaussian"}
    if not same:
        return Finding(False, "the statement and the plan are not about the same rows")
    return Finding(True, f"{counted(statement.unit)}: n = {statement.n}")


def steps_agree(step: Any, whole: PrivacyStatement, name: str) -> Finding:
    """Whether the statement of a step is about the rows of its pipeline."""
    facts = ("adjacency", "n", "unit", "seeded", "generator")
    same = all(getattr(step, fact) == getattr(whole, fact) for fact in facts)
    same = same and len(step.caveats) == len(whole.caveats) + 1  # that it is a step
    text = "is about the pipeline's rows" if same else "is NOT about the pipeline's rows"
    return Finding(same, f"{name}its statement {text}")


def evaluation_agrees(evaluation: PrivateEvaluation, recorded: Recorded) -> Finding:
    """Whether what an evaluation says was counted is what its plan has."""
    (part,) = recorded.parts()
    design = evaluation.design
    shapes = [
        (query.size, query.bound, query.nonnegative) if isinstance(query, BoundedSum) else query.sizes
        for query in (item.query for item in part.planned)
        if isinstance(query, BoundedSum | CellCounts)
    ]
    same = alike(shapes, _expected(design, len(evaluation.released[0])))
    text = "the counts and sums are those of an evaluation" if same else "the plan is NOT that of the evaluation"
    return Finding(same, text)


def _expected(design: Design, size: int) -> list[tuple[float, ...]]:
    """The sums that the metrics are computed from; how fine the bins are, the plan alone knows."""
    if design.kind == "number":
        signed = ("targets", "cubed targets")
        return [(1, 1.0, name not in signed) for name in ERROR_SUMS]
    k = design.n_classes
    counts: tuple[int, ...] = (size,) if size % 2 == 0 and (design.kind != "label" or size == 4) else ()
    if k > 2:
        counts = (k * k, size - k * k) if design.kind == "probability" else (k * k,)
    if design.largest_loss is None:
        return [counts]
    return [counts, (1, design.largest_loss, True), (1, design.largest_loss**2, True)]
