"""What an estimator of scikit-learn does with rows, step by step."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dperm.errors import DpermError, InvalidParameterError
from dperm.ledger.accounts import rounded_up
from dperm.models.charged import Charged
from dperm.models.steps import instead_of
from dperm.models.wrappers import Step, walk
from dperm.pipelines.pipeline import PrivatePipeline

_WORDS = {
    "private": "with noise",
    "public": "learns nothing from rows",
    "wrapper": "holds others",
    "looks": "WITHOUT NOISE",
}


@dataclass(frozen=True)
class PipelineCheck:
    """What every step does with rows. Prints as a table.

    Attributes
    ----------
    steps : tuple of Step
        Each with its `name`, `estimator`, `kind` ("private", "public", "wrapper" or "looks"), how many `fits` there are
        of it (None where that cannot be told in advance) and what is `not_covered`.
    """

    steps: tuple[Step, ...]

    @property
    def private(self) -> tuple[Step, ...]:
        """The steps that add noise."""
        return tuple(step for step in self.steps if step.kind == "private")

    @property
    def looking(self) -> tuple[Step, ...]:
        """The steps that learn from rows without noise."""
        return tuple(step for step in self.steps if step.kind == "looks")

    @property
    def fits(self) -> int | None:
        """How many private fits there are in all; None where that cannot be told in advance."""
        counts = [step.fits for step in self.private]
        return None if None in counts else sum(filter(None, counts))

    @property
    def is_counted(self) -> bool:
        """Whether somebody adds the fits up: there is one at most, or all are charged to one budget."""
        budgets = {step.estimator.budget for step in self.private}
        if self.fits is not None and self.fits <= 1:
            return True
        return len(budgets) == 1 and None not in budgets and len(self._units) == 1

    @property
    def _units(self) -> set[str | None]:
        """Whose rows the private steps protect."""
        return {_unit(step.estimator) for step in self.private}

    @property
    def is_private(self) -> bool:
        """Whether a stated guarantee covers all that comes out: noise in all that is learned, all fits counted."""
        return self.is_counted and not self.looking and not any(step.not_covered for step in self.steps)

    @property
    def cost(self) -> str:
        """What all private fits cost together, in a sentence."""
        if not self.private:
            return "no step adds noise: there is no guarantee."
        if self.fits is None:
            total = "how many fits there are depends on the table"
        else:
            if len({step.estimator.adjacency for step in self.private}) > 1:
                return "the steps have different adjacencies, which cannot be composed."
            if len(self._units) > 1:
                return "the steps have different privacy units, which cannot be composed."
            epsilon, delta = (
                math.fsum(getattr(step.estimator, name) * (step.fits or 0) for step in self.private)
                for name in ("epsilon", "delta")
            )
            many = "1 fit" if self.fits == 1 else f"{self.fits} fits, added up"
            total = f"{many}: ε = {rounded_up(epsilon)} at δ = {delta:.3g} ({self.private[0].estimator.adjacency})"
        budget = self.private[0].estimator.budget
        if budget is not None and self.is_counted:
            return f"{total}; the budget {budget.dataset!r} counts {'it' if self.fits == 1 else 'them'}."
        alone = (
            "; no budget."
            if self.is_counted
            else "; nothing accounts for them together: pass the same budget=Budget(…) to all."
        )
        return total + alone

    def __str__(self) -> str:
        """A table, what it costs, and the verdict."""
        lines = [("step", "class", "rows are read", "fits", "ε each"), *map(_line, self.steps)]
        widths = [max(len(line[place]) for line in lines) for place in range(5)]
        text = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        text += ["", f"cost: {self.cost}", *self._gaps()]
        return "\n".join([*text, f"private: {'yes' if self.is_private else 'NO'}"])

    def _gaps(self) -> Iterator[str]:
        for step in self.steps:
            name = step.name or type(step.estimator).__name__
            for gap in step.not_covered:
                hint = instead_of(step.estimator) if step.kind == "looks" else None
                yield f"not covered: {gap} ({name})" + (f"; take {hint}" if hint else "")


def _unit(estimator: Any) -> str | None:
    """The name of the unit that an estimator or its schema declares."""
    of_schema = getattr(getattr(estimator, "schema", None), "unit", None)
    return getattr(estimator, "unit", None) or (None if of_schema is None else of_schema.name)


def _line(step: Step) -> tuple[str, ...]:
    epsilon = f"{step.estimator.epsilon:g}" if isinstance(step.estimator, Charged) else ""
    fits = "?" if step.fits is None else str(step.fits)
    kind = "(default)" if step.estimator is None else type(step.estimator).__name__
    return (step.name or "-", kind, _WORDS[step.kind], fits, epsilon)


def check_pipeline(pipe: Any) -> PipelineCheck:
    """Report every step that reads rows without noise, and the cost of the private ones. No row is needed.

    Parameters
    ----------
    pipe : estimator
        A scikit-learn Pipeline, ColumnTransformer, FeatureUnion, search, ensemble or calibration, or a single
        estimator. Unknown estimators count as reading rows.

    Returns
    -------
    PipelineCheck
        Prints as a table; `is_private` says whether a stated guarantee covers all of it.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from dperm import PrivateLogisticRegression
    >>> check = check_pipeline(make_pipeline(StandardScaler(), PrivateLogisticRegression(classes=[0, 1])))
    >>> check.is_private, check.looking[0].name
    (False, 'standardscaler')
    """
    if not hasattr(pipe, "fit") or isinstance(pipe, type):
        raise InvalidParameterError(
            f"check_pipeline takes an estimator with the method fit, got {type(pipe).__name__}."
        )
    return PipelineCheck(tuple(map(_with_refusals, walk(pipe))))


def _with_refusals(step: Step) -> Step:
    """A private pipeline refuses steps itself, when it is fitted; it is said here already."""
    if not isinstance(step.estimator, PrivatePipeline):
        return step
    final = step.estimator.steps[-1][1]
    gaps = list(step.not_covered)
    if hasattr(final, "classes") and final.classes is None:
        gaps.append("anything before the classes are declared: it is refused")
    try:
        step.estimator.check_steps()
    except (DpermError, TypeError, ValueError) as error:
        gaps.append(f"anything, as it is refused: {error}")
    return replace(step, not_covered=tuple(gaps))
