"""What output and objective perturbation share: how exactly the minimiser is solved for, and what else they need."""

import math

from dperm.errors import NoiseTooLargeError
from dperm.mechanisms import ObjectivePerturbationQuery
from dperm.mechanisms.base import smallest_tolerance
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting, margin_rounding, pull_rounding
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.prox import prox_is_exact
from dperm.solvers.expected import moved_risk, noise_risk
from dperm.solvers.refusals import needs_convexity

# The share of ε that hides how far a minimisation was from done: the least, and the most where there are this many
# coefficients that its noise would count. Its risk is then kept to this share of that of the random linear term.
REMAINDER_SHARE, _LARGEST_REMAINDER_SHARE, _REMAINDER_RISK = 0.005, 0.1, 0.05

# The tolerance, as a share of the gradient's sensitivity: far below the noise.
_TOLERANCE_SHARE = 1e-7

# A random linear term is longer than what it is taken for with probability e^−this.
_LOG_UNLIKELY = 25.0


def tolerance_for(setting: Setting, strong_convexity: float) -> float:
    """Length of a subgradient at which a minimisation may end: far below the noise, and above what rounding can do."""
    constants = setting.constants
    moved = setting.adjacency.records_moved * constants.lipschitz / setting.n
    # Margins of a minimiser of norm W are off by p·u·W·R. (μ/2)W² is at most the initial gap; b may make it longer.
    norm = 3.0 * math.sqrt(2.0 * constants.initial_gap / strong_convexity) if strong_convexity > 0.0 else 0.0
    reach = constants.norm_bound if constants.norm_bound < math.inf else norm  # 0 need not lie in C
    norm = min(constants.diameter, norm)
    rounding = margin_rounding(setting, norm) + pull_rounding(2.0 * strong_convexity * reach)
    return max(_TOLERANCE_SHARE * moved, 2.0 * smallest_tolerance(setting)) + 4.0 * rounding


def check_lengths(calibrated: CalibratedPlan) -> None:
    """Refuse a ridge under which the random linear term makes the minimiser too long to be solved for exactly.

    Margins of a long minimiser are rounded by more than the tolerance leaves room for, and the search would end without
    an answer. The length is bounded whatever the rows: by strong convexity b moves the minimiser by at most ‖b‖/(nΛ).
    The default ridge keeps that below a nominal distance, so this is asked only where a ridge was given.
    """
    length = 0.0  # of what a later stage is centred on
    for item in calibrated.plan.planned:
        query = item.query
        if not isinstance(query, ObjectivePerturbationQuery) or query.strong_convexity == 0.0:
            continue
        setting, total = query.setting, query.strong_convexity
        constants = setting.constants
        term = _longest_term(query, calibrated.sigma(item)) / setting.n
        moved = term / total
        fall = min(
            constants.lipschitz / total, math.sqrt(2.0 * (constants.initial_gap + constants.lipschitz * length) / total)
        )
        length = min(constants.norm_bound, length + fall + moved)
        rounding = margin_rounding(setting, length) + pull_rounding(2.0 * total * length + term)
        if rounding > 0.25 * query.tolerance:
            raise NoiseTooLargeError(
                f"with a ridge of {query.ridge:.3g} the random linear term makes the minimiser up to {length:.2g} "
                "long, which cannot be solved for exactly on every table; use a larger ridge or leave it out."
            )


def _longest_term(query: ObjectivePerturbationQuery, scale: float) -> float:
    """A length that ‖b‖ exceeds with probability e^−25 at most."""
    p = query.setting.constants.dimension
    if query.distribution == "Gaussian":
        return scale * (math.sqrt(p) + math.sqrt(2.0 * _LOG_UNLIKELY))
    return scale * (p + math.sqrt(2.0 * p * _LOG_UNLIKELY) + _LOG_UNLIKELY)  # ‖b‖ is Gamma(p) times the scale


def remainder_for(
    setting: Setting, guarantee: Guarantee | None, tolerance: float, strong_convexity: float, noise: float
) -> float:
    """What the remainder costs; any number will do for a run without noise.

    Its noise has a density ∝ exp(−‖e‖/ϱ) with ϱ = 2τ/(Λε_r), so it is about pϱ long.

    Parameters
    ----------
    setting : Setting
        Public facts.
    guarantee : Guarantee or None
        What must hold.
    tolerance : float
        τ.
    strong_convexity : float
        Λ, the ridge included.
    noise : float
        √(E‖b‖²)/n of the random linear term.
    """
    if guarantee is None:
        return 1.0
    least, most = REMAINDER_SHARE * guarantee.epsilon, _LARGEST_REMAINDER_SHARE * guarantee.epsilon
    allowed = _REMAINDER_RISK * noise_risk(setting, noise**2, strong_convexity)
    if strong_convexity == 0.0 or allowed == 0.0:
        return least
    length = 2.0 * setting.constants.dimension * tolerance / strong_convexity
    return min(max(least, math.sqrt(moved_risk(setting, length**2) / allowed)), most)


def needs_a_stable_minimiser(problem: Problem) -> str | None:
    """Why the minimiser of this problem cannot be perturbed, or None."""
    reason = needs_convexity(problem)
    if reason is None and not prox_is_exact(problem.regularizer, problem.domain):
        reason = (
            f"it needs an exact proximal step, which {problem.regularizer.name} does not have on {problem.domain.name}."
        )
    return reason
