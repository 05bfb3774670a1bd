"""δ(ε) of mechanisms that are neither Gaussian nor sampled: pure ones, concentrated ones, objective perturbation."""

import math
from collections.abc import Callable

import numpy as np
from dp_accounting import dp_event
from scipy.special import log_ndtr

from dperm.errors import InvalidParameter
from dperm.privacy.events import ObjectivePerturbationDpEvent, PureDpEvent
from dperm.privacy.gaussian import gaussian_delta
from dperm.privacy.guarantee import Adjacency

# Relative padding of what is computed by exponentials and logarithms of moderate size.
_ROUNDING = 1e-12


def pure_delta(total: float, epsilon: float) -> float:
    """δ(ε) of one mechanism with pure ε = `total`: randomized response is the worst, (e^total − e^ε)/(1 + e^total)."""
    if epsilon >= total:
        return 0.0
    return min(1.0, -math.expm1(epsilon - total) / (1.0 + math.exp(-total)) * (1.0 + _ROUNDING))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """δ(ε) of a ρ-zCDP mechanism: min over α > 1 of exp((α − 1)(αρ − ε)) (1 − 1/α)^α/(α − 1).

    Every α gives a bound (Canonne, Kamath and Steinke 2020, Proposition 12), so a grid of them does.
    """
    centre = max(epsilon / rho - 1.0, 1e-3) / 2.0 + 1.0 / math.sqrt(rho)
    less_one = centre * np.geomspace(1e-3, 1e2, 2001)  # α − 1
    alpha = 1.0 + less_one
    # log1p, since α may be so large that (α − 1)/α rounds to 1.
    log_delta = less_one * (alpha * rho - epsilon) - alpha * np.log1p(1.0 / less_one) - np.log(less_one)
    best = float(log_delta.min())
    return min(1.0, math.exp(min(best, 0.0)) * (1.0 + _ROUNDING * (1.0 + abs(best))))


def two_sided_delta(mu: float, epsilon: float) -> float:
    """E(1 − exp(ε − μ|Z| − μ²/2))₊ for a standard normal Z: the worse of two opposite Gaussian shifts, row by row."""
    if mu == 0.0:
        return 0.0
    start = max(0.0, epsilon / mu - mu / 2.0)
    first, second = log_ndtr(-start), epsilon + log_ndtr(-start - mu)
    rounding = 8.0 * 2.0**-53 * (abs(first) + abs(second) + epsilon + 1.0)
    return min(1.0, float(2.0 * math.exp(first) * (rounding - math.expm1(min(second - first, 0.0)))))


def objective_delta(event: ObjectivePerturbationDpEvent, epsilon: float, adjacency: Adjacency) -> float:
    """δ(ε) of objective perturbation for a generalized linear loss; proof in docs/proofs/objective_perturbation.md."""
    left = (epsilon - event.remainder - event.log_jacobian) * (1.0 - _ROUNDING)
    if left < 0.0:
        return 1.0
    mu = (1.0 + _ROUNDING) / event.noise_multiplier
    if adjacency is Adjacency.ADD_REMOVE:
        return gaussian_delta(mu, left) if event.monotone else two_sided_delta(mu, left)
    if event.monotone:
        # The corners of [0, G] × [0, G]: both rows' gradients together, and each of them alone.
        return min(1.0, gaussian_delta(2.0 * mu, left) + 2.0 * gaussian_delta(mu, left))
    # The corners of [−G, G] × [−G, G] are two pairs ±v with ‖v₁‖² + ‖v₂‖² = 4G².
    return min(1.0, two_sided_delta(2.0 * mu, left) + two_sided_delta(math.sqrt(2.0) * mu, left))


def privacy_profile(parts: list[tuple[dp_event.DpEvent, int]], adjacency: Adjacency) -> Callable[[float], float]:
    """δ as a function of ε for mechanisms with their counts.

    Parameters
    ----------
    parts : list of (DpEvent, int)
        What ran, and how often.
    adjacency : Adjacency
        Named, as everywhere.

    Raises
    ------
    InvalidParameter
        If these mechanisms cannot be priced together.
    """
    if len(parts) == 1 and parts[0][1] == 1 and isinstance(parts[0][0], ObjectivePerturbationDpEvent):
        event = parts[0][0]
        return lambda epsilon: objective_delta(event, epsilon, adjacency)
    rho = sum(count * _rho(leaf, adjacency) for leaf, count in parts) * (1.0 + _ROUNDING)
    if not all(isinstance(leaf, PureDpEvent) for leaf, _ in parts):
        return lambda epsilon: zcdp_delta(rho, epsilon)
    total = math.fsum(count * leaf.epsilon for leaf, count in parts)
    if len(parts) > 1 or parts[0][1] > 1:
        total *= 1.0 + _ROUNDING

    def of_pure(epsilon: float) -> float:
        # Grouped together they are one mechanism with the total ε; Rényi accounting does better for many.
        return min(pure_delta(total, epsilon), zcdp_delta(rho, epsilon))

    return of_pure


def _rho(leaf: dp_event.DpEvent, adjacency: Adjacency) -> float:
    match leaf:
        case PureDpEvent():
            return 0.5 * float(leaf.epsilon) ** 2
        case dp_event.ZCDpEvent():
            if leaf.xi == 0:
                return float(leaf.rho)
        case dp_event.GaussianDpEvent():
            return 0.5 * (adjacency.records_moved / float(leaf.noise_multiplier)) ** 2
    raise InvalidParameter("these mechanisms cannot be priced together.")
