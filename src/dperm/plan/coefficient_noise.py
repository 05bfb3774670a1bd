"""How far noise moves a coefficient: a bound from public numbers, for error bars."""

import functools
import math

from dperm.mechanisms import (
    AdaptedObjectiveQuery,
    DescentOutputQuery,
    ObjectivePerturbationQuery,
    OutputPerturbationQuery,
)
from dperm.mechanisms.base import Mechanism
from dperm.mechanisms.plan import CalibratedPlan


def coefficient_noise(calibrated: CalibratedPlan) -> float | None:
    """A bound on the standard deviation that noise gives one coefficient, or None where none is known.

    Shrinking and projecting come after and are not counted.

    Parameters
    ----------
    calibrated : CalibratedPlan
        What runs.
    """
    if calibrated.noise_multiplier is None:
        return None
    variance = 0.0
    for item in calibrated.plan.planned:
        after = _variance(item.query, calibrated.sigma(item), variance)
        if after is None:
            return None
        variance = after
    return math.sqrt(variance)


@functools.singledispatch
def _variance(query: Mechanism, scale: float, before: float) -> float | None:
    """A bound on the variance that noise of this scale gives one coefficient, or None where none is known.

    Parameters
    ----------
    query : Mechanism
        What is asked.
    scale : float
        Of the noise.
    before : float
        The same bound for the point that the mechanism is asked at.
    """
    return None


@_variance.register
def _(query: DescentOutputQuery, scale: float, before: float) -> float | None:
    """Noise on the output moves a coefficient by just as much."""
    return scale**2


@_variance.register
def _(query: OutputPerturbationQuery, scale: float, before: float) -> float | None:
    """Noise on the output moves a coefficient by just as much; its length has the variance of a Gamma variable."""
    return scale**2 * (query.setting.constants.dimension + 1.0)


@_variance.register
def _(query: ObjectivePerturbationQuery, scale: float, before: float) -> float | None:
    """What b does to a coefficient, what a point before passes on, and the noise for the remainder.

    b moves the minimiser of a Λ-strongly convex objective by at most ‖b‖/(nΛ), so by the Poincaré inequality its
    coefficients have a variance of at most C/(nΛ)², with C = σ² for Gaussian noise and C = E‖b‖²/(p − 1) for a
    density ∝ exp(−‖b‖/s) (Bonnefont, Joulin and Ma 2016). The centre of the ridge passes on the share ridge/Λ.
    """
    p, convexity = query.setting.constants.dimension, query.strong_convexity
    spread = scale**2
    if query.distribution == "Gamma":
        spread = scale**2 * p * (p + 1.0) / (p - 1.0) if p > 1 else 2.0 * scale**2
    variance = (query.ridge / convexity) ** 2 * before + spread / (query.setting.n * convexity) ** 2
    return variance + (p + 1.0) * query.remainder_scale**2


@_variance.register
def _(query: AdaptedObjectiveQuery, scale: float, before: float) -> float | None:
    """Not known before it is asked: the noise is in proportion to the share."""
    return None
