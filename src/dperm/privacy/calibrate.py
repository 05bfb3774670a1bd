"""Find the least noise that keeps the guarantee, and check the answer before using it."""

import math

from scipy.optimize import brentq

from dperm.errors import InvalidParameter
from dperm.privacy.accountants import composed_mu, epsilon_of, gaussian_mu, is_gaussian, leaves, pld_epsilon
from dperm.privacy.guarantee import Guarantee
from dperm.privacy.plan import PaidPlan, Plan

# A calibrated plan of sampled queries may leave this share of ε unused.
_TOLERANCE = 2e-3


def calibrate(plan: Plan, guarantee: Guarantee) -> PaidPlan:
    """Pay for a plan: the smallest noise multiplier whose ε, evaluated again, is at most the target.

    Parameters
    ----------
    plan : Plan
        What will be asked.
    guarantee : Guarantee
        What must hold.

    Returns
    -------
    PaidPlan
        The plan with its noise.
    """
    gaussian = is_gaussian(plan.event(1.0))
    multiplier = _calibrate_gaussians(plan, guarantee) if gaussian else _calibrate_sampled(plan, guarantee)
    for _ in range(60):
        if epsilon_of(plan.event(multiplier), guarantee.delta, plan.adjacency) <= guarantee.epsilon:
            return PaidPlan(plan, multiplier)
        multiplier *= 1.0 + (1e-12 if gaussian else 1e-3)
    raise InvalidParameter(
        f"no noise was found that is certified for epsilon = {guarantee.epsilon:g}, delta = {guarantee.delta:g}; "
        "use a larger delta or fewer sampled steps."
    )


def _calibrate_gaussians(plan: Plan, guarantee: Guarantee) -> float:
    # μ of the plan is inversely proportional to the noise, so one division finds it.
    return composed_mu(plan.event(1.0), plan.adjacency) / gaussian_mu(guarantee)


def _calibrate_sampled(plan: Plan, guarantee: Guarantee) -> float:
    """Secant steps on log ε against log multiplier: on a coarse grid first, then on the one that decides."""
    log_multiplier = math.log(_central_limit_guess(plan, gaussian_mu(guarantee)))
    epsilon = guarantee.epsilon
    coarse = min(1e-3, 2e-3 * epsilon)
    slope = -1.0  # ε falls about as fast as the noise grows
    for interval in (coarse, None):
        previous: tuple[float, float] | None = None
        for _ in range(12):
            event = plan.event(math.exp(log_multiplier))
            if interval is None:
                found = epsilon_of(event, guarantee.delta, plan.adjacency)
            else:
                found = pld_epsilon(event, guarantee.delta, plan.adjacency, interval)
            if not math.isfinite(found) or found <= 0.0:
                # Off the scale of the accountant: walk towards it.
                log_multiplier += math.log(2.0) if found > 0.0 else -math.log(1.5)
                continue
            gap = math.log(found / epsilon)
            if -_TOLERANCE <= gap <= 0.0:
                break
            if previous is not None and previous[0] != log_multiplier:
                slope = min(max((gap - previous[1]) / (log_multiplier - previous[0]), -8.0), -0.2)
            previous = (log_multiplier, gap)
            # Aim a little below the target, so that the point found is usable.
            log_multiplier += (-0.5 * _TOLERANCE - gap) / slope
    return math.exp(log_multiplier)


def _central_limit_guess(plan: Plan, target_mu: float) -> float:
    """A start: k sampled Gaussians behave like μ = q·sqrt(k(e^{1/ν²} − 1)) (Dong, Roth and Su 2022)."""

    def excess(log_multiplier: float) -> float:
        total = 0.0
        for leaf, count in leaves(plan.event(math.exp(log_multiplier))):
            rate = getattr(leaf, "sampling_probability", 1.0)
            noise = getattr(leaf, "event", leaf).noise_multiplier
            precision = (plan.adjacency.records_moved / noise) ** 2
            total += count * (precision if rate == 1.0 else rate**2 * math.expm1(min(precision, 50.0)))
        return 0.5 * math.log(total) - math.log(target_mu)

    return math.exp(brentq(excess, math.log(1e-2), math.log(1e9)))
