"""The privacy of a Gaussian release in closed form: exact, and rounded to the safe side."""

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr

from dperm.accounting.guarantee import Guarantee
from dperm.errors import InvalidParameter


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) of a μ-Gaussian-DP release: exact, rounded up."""
    if mu == 0.0:
        return 0.0
    first = log_ndtr(-epsilon / mu + mu / 2)
    second = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    # The difference of the logarithms is off by a few units in the last place of its larger term.
    rounding = 8.0 * 2.0**-53 * (abs(first) + abs(second) + epsilon + 1.0)
    return min(1.0, float(math.exp(first) * (rounding - math.expm1(min(second - first, 0.0)))))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest ε with δ(ε) ≤ delta for a μ-Gaussian-DP release, rounded up."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if not math.isfinite(mu):
        return math.inf
    # δ(ε) ≤ Φ(−ε/μ + μ/2), and Φ(−x) ≤ exp(−x²/2): beyond this ε the curve is below delta.
    top = mu * (mu / 2 + math.sqrt(2 * math.log(1 / delta))) + 1e-9
    root = brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, top, xtol=1e-14, rtol=1e-13, maxiter=200)
    epsilon, stride = float(root), 1e-12
    while gaussian_delta(mu, epsilon) > delta:
        epsilon *= 1.0 + stride
        stride *= 2.0
    return epsilon


def gaussian_mu(guarantee: Guarantee) -> float:
    """The largest μ whose Gaussian release keeps the guarantee, rounded down."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if delta == 0.0:
        raise InvalidParameter("delta = 0 cannot be kept with Gaussian noise; use a delta above 0, or a pure-ε solver.")
    top = 1.0
    while gaussian_delta(top, epsilon) <= delta:
        top *= 2.0
    bottom = top
    while gaussian_delta(bottom, epsilon) > delta:
        bottom /= 2.0
    mu = float(brentq(lambda m: gaussian_delta(m, epsilon) - delta, bottom, top, xtol=1e-300, rtol=1e-13))
    stride = 1e-12
    while gaussian_delta(mu, epsilon) > delta:
        mu *= 1.0 - stride
        stride *= 2.0
    return mu
