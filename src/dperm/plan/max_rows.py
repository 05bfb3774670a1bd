"""What a choice of max_rows is expected to cost: noise against rows that are not used, from public numbers."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dperm.errors import InvalidParameterError, UnsupportedProblemError
from dperm.plan.costs import Cost, cost_at, why_unknown
from dperm.plan.rows_per_unit import RowsPerUnit
from dperm.printable import one_line
from dperm.privacy.unit import PrivacyUnit
from dperm.problem.losses import Logistic, Softmax
from dperm.validation import count, positive

if TYPE_CHECKING:
    from dperm.plan.options import FitOptions

# Losses that are minus a log-likelihood: fitting p coefficients to N rows then costs about p/(2N).
_LIKELIHOODS = (Logistic, Softmax)


@dataclass(frozen=True)
class Choice:
    """What one choice is expected to cost.

    Attributes
    ----------
    max_rows : int or None
        At most this many rows of a unit are used, each with a weight of one over that; None for the mean of all rows.
    rows_used : float
        How many rows of a unit are used, in the mean.
    weight : float
        What the rows of a unit weigh together, in the mean: less than 1 where units have fewer rows than max_rows.
    cost : Cost
        What noise costs, as a share of the loss of a constant predictor on the rows that are used.
    sampling : float
        What the sampling of rows costs, as the same share and at the least: if rows of a unit were independent and
        classes even. NaN if unknown.
    """

    max_rows: int | None
    rows_used: float
    weight: float
    cost: Cost
    sampling: float

    @property
    def together(self) -> float:
        """Noise and sampling."""
        return self.cost.share + (0.0 if math.isnan(self.sampling) else self.sampling)


@dataclass(frozen=True)
class RiskOfMaxRows:
    """Predictions for several max_rows, all else equal; estimates, right to a factor of several, and no promise.

    Attributes
    ----------
    unit : PrivacyUnit
        Whose rows are protected together.
    n : int
        The public number of units.
    choices : tuple of Choice
        One for each max_rows, and the mean of all rows where it is known how many there are.
    typical : str
        What is assumed of how many rows a unit has, in words.
    """

    unit: PrivacyUnit
    n: int
    choices: tuple[Choice, ...]
    typical: str

    @property
    def best(self) -> Choice:
        """The one that is expected to cost the least."""
        return min(self.choices, key=lambda choice: choice.together)

    def __str__(self) -> str:
        """A table for a person."""
        word = self.unit.word
        lines = [
            f"max_rows, if {self.typical} (noise does not depend on it; what it is added to does):",
            "   max_rows  rows used    weight     noise  sampling",
        ]
        for choice in self.choices:
            most = "average" if choice.max_rows is None else str(choice.max_rows)
            sampling = "" if math.isnan(choice.sampling) else f"{100.0 * choice.sampling:.2g} %"
            noise = f"{100.0 * choice.cost.share:.2g} %" if choice.cost.word != "unknown" else "unknown"
            lines.append(
                f"  {most:>9}  {choice.rows_used:>9.3g}  {choice.weight:>8.2g}  {noise:>8}  {sampling:>8}".rstrip()
            )
        lines += [
            f"One {word} with fewer rows than max_rows weighs less than 1, so that noise costs more; of one with more, "
            "the others are not used.",
            "noise, sampling: about what each costs, as a share of the loss of a constant predictor. Noise may cost "
            f"three times that, and sampling more if rows of one {word} are alike.",
        ]
        if self.choices[-1].max_rows is None:
            least = self.best.max_rows
            lines.append(f"The least of both together: {'average' if least is None else f'max_rows = {least}'}.")
        return "\n".join(map(one_line, lines))


def risk_of_max_rows(
    options: "FitOptions", n: int | None, n_features: int | None, rows_per_unit: float | RowsPerUnit | None,
    choices: Iterable[int],
) -> RiskOfMaxRows:  # fmt: skip
    """What noise and the rows that are not used are expected to cost at several max_rows; no row is read.

    Parameters
    ----------
    options : FitOptions
        What is asked for, with a unit, whose max_rows is varied.
    n, n_features : int or None
        Units and columns of the table; a schema may know both.
    rows_per_unit : float, RowsPerUnit or None
        How many rows a unit has, from public knowledge, or a private count of them. Without it every line assumes that
        all units have at least this many rows.
    choices : iterable of int
        The max_rows to compare.

    Raises
    ------
    UnsupportedProblemError
        If there are no predictions of such fits.
    """
    unit = options.protected_unit
    if unit is None:
        raise InvalidParameterError("max_rows requires a unit.")
    if isinstance(rows_per_unit, RowsPerUnit):
        typical = f"rows per {unit.word} are as they were counted with noise"
    elif rows_per_unit is None:
        typical = f"every {unit.word} has at least so many rows"
    else:
        rows = f"{positive('rows_per_unit', rows_per_unit):g}"
        typical = f"every {unit.word} has {rows} row{'' if rows == '1' else 's'}"
    if options.noise is None or options.guarantee is None:
        raise UnsupportedProblemError("a fit without noise has no cost to compare.")
    facts = options.facts(n, n_features)
    why = why_unknown(options, facts.problem)
    if why is not None:
        raise UnsupportedProblemError(f"there is nothing to compare: {why}.")
    size, dimension, loss = facts.setting.n, facts.setting.constants.dimension, facts.problem.loss
    # Of even classes; what a constant predicts of a number is not public.
    constant = math.log(max(2, loss.n_outputs)) if isinstance(loss, _LIKELIHOODS) else None
    found = []
    for most in (*sorted({count("max_rows", each) for each in choices}), *(() if rows_per_unit is None else (None,))):
        used = _rows_used(rows_per_unit, most)
        weight = 1.0 if most is None else used / most
        # What n units of this weight add up to is what fewer units of weight 1 do, and noise is the same.
        whole, epsilon = max(size * weight, 1.0), options.guarantee.epsilon
        cost = cost_at(_with_max_rows(options, unit, most), facts.n_features, whole, epsilon)
        alike = rows_per_unit.rows_of_equal_weight if most is None and isinstance(rows_per_unit, RowsPerUnit) else used
        sampling = dimension / (2.0 * size * alike) / constant if constant else math.nan
        found.append(Choice(most, used, weight, cost, sampling))
    return RiskOfMaxRows(unit, size, tuple(found), typical)


def _rows_used(rows_per_unit: float | RowsPerUnit | None, most: int | None) -> float:
    """How many rows of a unit are used in the mean, if at most this many are."""
    if isinstance(rows_per_unit, RowsPerUnit):
        return rows_per_unit.rows_used(most)
    return min(math.inf if rows_per_unit is None else rows_per_unit, math.inf if most is None else most)


def _with_max_rows(options: "FitOptions", unit: PrivacyUnit, most: int | None) -> "FitOptions":
    """The same fit with another choice."""
    other = replace(unit, max_rows=most, contribution="average" if most is None else "limit")
    if options.schema is not None:
        return replace(options, schema=replace(options.schema, unit=other))
    return replace(options, unit=other)
