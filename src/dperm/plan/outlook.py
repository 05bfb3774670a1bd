"""What more or less privacy would cost: the predictions of a fit at other ε, with everything else as it is."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from dperm.errors import InvalidParameterError, UnsupportedProblemError
from dperm.pictures.risk import RiskCurve
from dperm.plan.auto import check_solver
from dperm.plan.costs import cost_at, why_unknown
from dperm.privacy.guarantee import LARGEST_EPSILON, SMALLEST_EPSILON, Guarantee
from dperm.privacy.unit import counted

if TYPE_CHECKING:
    from dperm.plan.options import FitOptions

# Points of the curve, the fit's own ε besides; and the ε that it reaches to at least.
_POINTS, _LOW, _HIGH = 13, 0.03, 10.0


def risk_of_epsilon(
    options: "FitOptions", n: int | None, n_features: int | None, epsilons: Iterable[float] | None = None
) -> RiskCurve:
    """What noise is expected to cost at several ε; nothing is calibrated and no row is read.

    Parameters
    ----------
    options : FitOptions
        What is asked for; its ε is varied.
    n, n_features : int or None
        Shape of the table; a schema may know both.
    epsilons : iterable of float, optional
        Where, besides the fit's own ε. By default 13 numbers, from a tenth of it or less to three times it or more.

    Raises
    ------
    UnsupportedProblemError
        If there are no predictions of such fits.
    """
    if options.noise is None or options.guarantee is None:
        raise UnsupportedProblemError("a fit without noise has no cost to plot.")
    facts = options.facts(n, n_features)
    why = why_unknown(options, facts.problem, check_solver(options.solver, facts.problem, facts.left))
    if why is not None:
        raise UnsupportedProblemError(f"there is nothing to draw: {why}.")
    epsilon, delta = options.guarantee.epsilon, options.guarantee.delta
    asked = sorted({epsilon, *(_around(epsilon) if epsilons is None else _checked(epsilons, delta))})
    if len(asked) < 2:
        raise InvalidParameterError("epsilons must contain a number other than the fit's own ε.")
    costs = [cost_at(options, facts.n_features, facts.setting.n, each) for each in asked]
    return RiskCurve(
        epsilons=tuple(asked),
        shares=tuple(cost.most for cost in costs),
        words=tuple(cost.word for cost in costs),
        epsilon=epsilon,
        delta=delta,
        adjacency=str(facts.setting.adjacency),
        n=facts.setting.n,
        n_features=facts.n_features,
        counted=counted(facts.setting.unit),
    )


def _around(epsilon: float) -> list[float]:
    low, high = max(min(_LOW, epsilon / 10.0), SMALLEST_EPSILON), min(max(_HIGH, 3.0 * epsilon), LARGEST_EPSILON)
    return [float(each) for each in np.geomspace(low, high, _POINTS)]


def _checked(epsilons: Iterable[float], delta: float) -> list[float]:
    try:
        numbers = [float(each) for each in epsilons]
    except (TypeError, ValueError):
        raise InvalidParameterError("epsilons must be a list of numbers.") from None
    return [Guarantee(each, delta).epsilon for each in numbers]
