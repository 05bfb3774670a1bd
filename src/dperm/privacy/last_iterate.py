"""Last-iterate accounting of noisy gradient descent (docs/proofs/last_iterate.md)."""

import math

import numpy as np


def last_iterate_amplification(n_steps: int, contraction: float, diameter: float) -> float:
    """Price of T noisy steps of which only the last iterate leaves, in single releases.

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
        A, rounded up; never more than √T, the price under composition.
    """
    if not (n_steps >= 1 and 0.0 <= contraction <= 1.0 and diameter >= 0.0):
        raise ValueError("last-iterate accounting needs T ≥ 1, a contraction in [0, 1] and a diameter.")
    powers = contraction ** np.arange(n_steps, dtype=np.float64)
    sums, squares = np.cumsum(powers), np.cumsum(powers**2)
    best = float(sums[-1] / math.sqrt(squares[-1]))
    if math.isfinite(diameter) and n_steps > 1:
        tails = powers[:-1] * diameter
        best = min(best, float(np.min((tails + sums[:-1]) / np.sqrt(squares[:-1]))))
    # The sums carry at most T relative rounding errors of 2⁻⁵³ each.
    return min(best * (1.0 + 4.0 * n_steps * 2.0**-53), math.sqrt(n_steps))
