"""How far a coefficient is drawn to be uncertain: the one place where the bars of all pictures come from."""

from typing import Any, NamedTuple

import numpy as np

from dperm.pictures.entries import Array, coefficients_of

# Bars and bands reach this many standard deviations of the noise.
DEVIATIONS = 2.0


class Bars(NamedTuple):
    """The dots and the ends of the bars of all coefficients, in their shape, and what they mean; NaN for no bar."""

    middle: Array
    low: Array
    high: Array
    meaning: str


def bars_of(model: Any) -> Bars | None:
    """The bars of a fitted linear model's coefficients; None where nothing bounds the noise of one.

    They are confidence intervals where the fit released what those need.

    Parameters
    ----------
    model : estimator
        A fitted linear model, or one from a file.
    """
    coef, reach = coefficients_of(model), noise_reach(model)
    if model.uncertainty_ is not None:
        found = model.confidence_intervals()
        ends = np.stack([found.estimate, found.lower, found.upper])[:, None, : coef.shape[1]]
        middle, low, high = np.where(np.isfinite(ends), ends, np.nan)
        return Bars(middle, low, high, "estimates, 95 % intervals for sampling and privacy noise; no bar: not known")
    if reach is None:
        return None
    return Bars(coef, coef - reach, coef + reach, "bars: two standard deviations of the privacy noise, at most")


def noise_reach(model: Any) -> float | None:
    """Two standard deviations of the noise of one coefficient, or of any sum of them with weights of norm 1."""
    noise = model.privacy_.coefficient_noise
    return None if noise is None else DEVIATIONS * noise


def no_bars(model: Any, drawn: str = "bars") -> str:
    """Why there are none."""
    if model.privacy_.noise == "none":
        return f"no {drawn}: no noise was added"
    return f"no {drawn}: no bound on the noise of a coefficient is known for this solver"
