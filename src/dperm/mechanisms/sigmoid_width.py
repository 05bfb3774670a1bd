"""How far apart two rows' logistic gradients at one point can be. Proof: docs/proofs/ball_sensitivity.md."""

import math


def sigmoid(x: float) -> float:
    """1/(1 + e^−x) for x ≥ 0."""
    return 1.0 / (1.0 + math.exp(-x))


def sigmoid_width(margin: float) -> float:
    """2 max over a in [0, 1] of sigmoid(margin · a) √(1 − a²), rounded up: 1 at margin 0, towards 2 for large ones.

    Parameters
    ----------
    margin : float
        A bound on |⟨w, x⟩|, ‖w‖ times the row norm.
    """
    low, high = 0.0, 1.0
    for _ in range(60):  # the logarithm is concave: its derivative margin·(1 − sigmoid) − a/(1 − a²) falls through zero
        a = 0.5 * (low + high)
        if margin * (1.0 - sigmoid(margin * a)) * (1.0 - a * a) > a:
            low = a
        else:
            high = a
    # Both factors at the end where they are larger, so that no a in between gives more.
    return 2.0 * sigmoid(margin * high) * math.sqrt(1.0 - low * low) * (1.0 + 1e-12)
