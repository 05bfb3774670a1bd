"""The Rényi divergence that follows from a privacy curve, for the filter of budgets (docs/proofs/filter.md)."""

import math

import numpy as np
from scipy.special import ndtr

from dperm.accounting.curve import Array, Curve
from dperm.accounting.privacy_loss import convex_corners

# Points at which the curve of a minimiser is evaluated for a divergence.
_DOTS = 400


def divergence_of_curve(epsilons: Array, deltas: Array, beyond: float, order: int) -> float:
    """The largest Rényi divergence of a mechanism whose curve lies below these points, in both directions.

    Parameters
    ----------
    epsilons : array
        0 = ε_0 < ε_1 < ….
    deltas : array
        Upper bounds on δ there, falling.
    beyond : float
        A bound on the integral of e^{(α − 1)ε} δ(ε) beyond the last point.
    order : int
        α, at least 2.
    """
    corners = convex_corners(epsilons.tolist(), deltas.tolist())
    where, heights = epsilons[corners], deltas[corners]
    if corners[0] != 0:  # the line from (−1, 1) passes above δ(0): what it has at e^ε = 1
        shrunk = math.exp(-where[0])
        first = 1.0 - 2.0 * (1.0 - heights[0]) * shrunk / (1.0 + shrunk)
        where, heights = np.append(0.0, where), np.append(first, heights)
    gaps, total = np.diff(where), 2.0 * beyond
    for power in (order - 1.0, -float(order)):
        # Between two corners δ is below the chord in e^ε.
        flat = np.expm1(power * gaps) / power
        sloped = (np.expm1((power + 1.0) * gaps) / (power + 1.0) - flat) / np.expm1(gaps)
        chords = heights[:-1] * flat + np.diff(heights) * np.clip(sloped, 0.0, flat)
        total += float(np.exp(power * where[:-1]) @ chords)
    return math.log1p(order * (order - 1.0) * total * (1.0 + 1e-9)) / (order - 1.0)


def divergence_of_minimiser(curve: Curve, cost: float, shift: float, times: int, order: int) -> float:
    """The same for the curve of a minimiser, up to where it hardly counts; infinite where no budget has so much.

    Parameters
    ----------
    curve : Curve
        Of one minimiser of a perturbed objective.
    cost : float
        What the change of variables and the remainder can cost.
    shift : float
        The longest Gaussian shift over σ.
    times : int
        Beyond, the loss does no more than this many such shifts.
    order : int
        α, at least 2.
    """
    last = cost + (order - 0.5) * shift**2 + 9.0 * shift
    if order * last > 600.0:
        return math.inf  # more than any budget has
    epsilons = np.linspace(0.0, last, _DOTS)
    deltas = np.minimum.accumulate(curve.deltas(epsilons))
    # E[e^{(α − 1)L}; L > last]/(α − 1) for the loss L of a Gaussian that is shifted by the cost.
    tilted = math.exp((order - 1.0) * (cost + 0.5 * order * shift**2)) * float(ndtr(-9.0))
    return divergence_of_curve(epsilons, deltas, times * tilted / (order - 1.0), order)
