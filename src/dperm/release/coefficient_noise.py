"""How far noise moves a coefficient: a bound from public numbers, for error bars."""

import math

from dperm.mechanisms import DescentOutputQuery, ObjectivePerturbationQuery, OutputPerturbationQuery
from dperm.mechanisms.plan import CalibratedPlan


def coefficient_noise(paid: CalibratedPlan) -> float | None:
    """A bound on the standard deviation that noise gives one coefficient, or None where none is known.

    Noise on the output moves a coefficient by just as much. A random linear term b moves the minimiser of a Λ-strongly
    convex objective by at most ‖b‖/(nΛ), so by the Poincaré inequality its coefficients have a variance of at most
    C/(nΛ)², with C = σ² for Gaussian noise and C = E‖b‖²/(p − 1) for a density ∝ exp(−‖b‖/s) (Bonnefont, Joulin and
    Ma 2016). A second minimisation around the first passes on at most the share ridge/Λ. Shrinking and projecting come
    after and are not counted.

    Parameters
    ----------
    paid : CalibratedPlan
        What runs.
    """
    if paid.noise_multiplier is None:
        return None
    variance = 0.0
    for item in paid.plan.planned:
        query, scale = item.query, paid.sigma(item)
        p = query.setting.constants.dimension
        match query:
            case ObjectivePerturbationQuery(distribution="Gaussian"):
                spread = scale**2
            case ObjectivePerturbationQuery():
                spread = scale**2 * p * (p + 1.0) / (p - 1.0) if p > 1 else 2.0 * scale**2
            case DescentOutputQuery():
                return scale
            case OutputPerturbationQuery():
                return scale * math.sqrt(p + 1.0)
            case _:
                return None
        convexity = query.strong_convexity
        variance = (query.ridge / convexity) ** 2 * variance + spread / (query.setting.n * convexity) ** 2
        variance += (p + 1.0) * query.remainder_scale**2  # of the output noise that hides how far it was from done
    return math.sqrt(variance)
