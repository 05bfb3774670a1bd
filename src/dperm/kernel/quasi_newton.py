"""Quasi-Newton steps (limited-memory BFGS) by gradients alone, started from a Hessian of some of the rows.

Nothing here matters for privacy: the caller checks the gradient of the point that comes back.
"""

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Pairs of a step and the gradient's change that are kept: more save passes where the problem is ill-conditioned, and
# cost as many products of vectors a step.
_MEMORY = 30
# A step is taken back if the slope along it has turned, and is steeper than this share of what it was.
_STEEP = 0.7
# A line search that has come down to this share of the step has met the end of what floats can tell.
_SHORTEST = 1e-4
# Steps without the shortest gradient so far: floats cannot tell any better.
_PATIENCE = 40

# What takes a gradient to about a Newton step.
Inverse = Callable[[Array], Array]


def quasi_newton(
    gradient: Callable[[Array], Array],
    hessian: Callable[[Array, int], Inverse | None],
    first_scale: float,
    w: Array,
    n_steps: int,
    is_short: Callable[[Array, Array], bool],
) -> tuple[Array, Array]:
    """Steps until the gradient is short, or none makes it shorter: the point with the shortest gradient, and that.

    Parameters
    ----------
    gradient : callable
        Of a strongly convex function, or nearly so. Its values are never asked for: near the minimiser floats cannot
        tell them apart, while the slope along a step still says whether it went too far.
    hessian : callable
        Asked after every step, with the number of gradients so far: a rough inverse of the Hessian at this point where
        one is worth its price, else None.
    first_scale : float
        What stands for the inverse of the Hessian before anything is known.
    w : array
        Where to begin.
    n_steps : int
        At the most.
    is_short : callable
        Whether a point with this gradient will do.
    """
    pairs: deque[tuple[Array, Array, float]] = deque(maxlen=_MEMORY)
    slope, inverse, n_gradients = gradient(w), None, 1
    best, shortest, waited = (w, slope), np.inf, 0
    for _ in range(n_steps):
        length = float(np.linalg.norm(slope))
        if length < shortest:
            best, shortest, waited = (w, slope), length, 0
        waited += 1
        if is_short(w, slope) or waited > _PATIENCE or not length < np.inf:
            break
        inverse = hessian(w, n_gradients) or inverse
        direction = _direction(slope, pairs, inverse, first_scale)
        downhill = -float(direction @ slope)
        if not downhill > 0.0:
            if not pairs:
                break
            pairs.clear()
            continue
        share = 1.0
        while share > _SHORTEST:
            moved = w + share * direction
            moved_slope = gradient(moved)
            n_gradients += 1
            along = float(direction @ moved_slope)
            if along <= _STEEP * downhill:
                break
            share *= min(max(downhill / (along + downhill), 0.05), _STEEP)
        else:
            if not pairs:
                break
            pairs.clear()  # they belong to curvature that is gone
            continue
        step, change = moved - w, moved_slope - slope
        product = float(step @ change)
        if product > 0.0:
            pairs.append((step, change, 1.0 / product))
        w, slope = moved, moved_slope
    return best


def _direction(
    slope: Array, pairs: deque[tuple[Array, Array, float]], inverse: Inverse | None, first_scale: float
) -> Array:
    """The step that the pairs suggest, on top of a rough inverse of the Hessian or a multiple of the identity."""
    q, factors = -slope, []
    for step, change, weight in reversed(pairs):
        factors.append(weight * float(step @ q))
        q = q - factors[-1] * change
    if inverse is not None:
        q = inverse(q)
    elif pairs:
        step, change, weight = pairs[-1]
        q = q / (weight * float(change @ change))
    else:
        q = first_scale * q
    for (step, change, weight), factor in zip(pairs, reversed(factors), strict=True):
        q = q + (factor - weight * float(change @ q)) * step
    return q
