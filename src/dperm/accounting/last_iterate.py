"""Last-iterate accounting of noisy gradient descent (docs/proofs/last_iterate.md)."""

import math

import numpy as np
from numpy.typing import NDArray


def last_iterate_amplification(n_steps: int, contraction: float, diameter: float) -> float:
    """Privacy cost of T noisy steps of which only the last iterate is released, in single releases.

    For w_{t+1} = φ(w_t) + N(0, s²/ν² I) with c-Lipschitz φ that moves by at most s between adjacent
    tables, w_T is (A/ν)-Gaussian-DP with

        A = min over 1 ≤ t ≤ T of (cᵗ⁻¹ d_t + Σ_{i<t} cⁱ) / sqrt(Σ_{i<t} c²ⁱ),

    d_T = 0 (both runs start at the same point) and d_t = diameter/s for t < T. For t = T this is
    sqrt((1 − cᵀ)/(1 + cᵀ) · (1 + c)/(1 − c)), which stays bounded as T grows if c < 1.

    Parameters
    ----------
    n_steps : int
        T.
    contraction : float
        c, at most 1.
    diameter : float
        Largest distance between two iterates, in units of s; may be infinite.

    Returns
    -------
    float
        A, rounded up; never more than √T, the cost under composition.
    """
    return float(last_iterate_amplifications(n_steps, contraction, diameter)[-1])


def last_iterate_amplifications(n_steps: int, contraction: float, diameter: float) -> NDArray[np.float64]:
    """The same for T = 1 … n_steps."""
    if not (n_steps >= 1 and 0.0 <= contraction <= 1.0 and diameter >= 0.0):
        raise ValueError("last-iterate accounting needs T ≥ 1, a contraction in [0, 1] and a diameter.")
    powers = contraction ** np.arange(n_steps, dtype=np.float64)
    sums, roots = np.cumsum(powers), np.sqrt(np.cumsum(powers**2))
    best = sums / roots
    if math.isfinite(diameter):
        forgotten = np.minimum.accumulate((powers * diameter + sums) / roots)
        best[1:] = np.minimum(best[1:], forgotten[:-1])
    # The sums carry at most T relative rounding errors of 2⁻⁵³ each.
    steps = np.arange(1.0, n_steps + 1.0)
    return np.asarray(np.minimum(best * (1.0 + 4.0 * steps * 2.0**-53), np.sqrt(steps)))
