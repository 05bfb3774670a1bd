"""How far noise moves a coefficient: a bound from public numbers, for error bars."""

import math

from dperm.mechanisms.plan import CalibratedPlan


def coefficient_noise(calibrated: CalibratedPlan) -> float | None:
    """A bound on the standard deviation that noise gives one coefficient, or None where none is known.

    Every mechanism says how (`coefficient_variance`). Shrinking and projecting come after and are not counted.

    Parameters
    ----------
    calibrated : CalibratedPlan
        What runs.
    """
    if calibrated.noise_multiplier is None:
        return None
    variance = 0.0
    for item in calibrated.plan.planned:
        after = item.query.coefficient_variance(calibrated.sigma(item), variance)
        if after is None:
            return None
        variance = after
    return math.sqrt(variance)
