"""What the predictions of excess risk share: a public model of noise and bias, for choosing and never for privacy.

They are estimates, not bounds: they have to rank solvers on one problem, and are within a factor of about five of what
was measured (docs/choosing_a_solver.md).
"""

import math

from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee

# Of the worst case, ridge²‖w*‖²/(2(μ + ridge)), what a ridge was found to add: w* is long where it matters little.
_FOUND_BIAS = 0.25

# ‖w*‖ for rows of norm 1 is taken for this, growing with the root of nμ/√p beyond this many: the directions that make a
# minimiser long are those that only many rows can tell from noise.
LENGTH, _LENGTH_GROWS_FROM = 8.0, 300.0

# Of the longest minimiser that the strong convexity allows, √(2 (F^r(0) − min F^r)/μ), what is found in practice.
_FOUND_LENGTH = 0.25


def typical_length(setting: Setting, guarantee: Guarantee, nominal_distance: float = LENGTH) -> float:
    """A guess at ‖w*‖ from public numbers, in units in which logistic regression has rows of norm 1.

    It counts what can be told from noise: with μ-Gaussian DP, and no δ without it, nμ/√p or nε/p.
    """
    constants = setting.constants
    p, moved = constants.dimension, setting.adjacency.records_moved
    spread = math.sqrt(p) / gaussian_mu(guarantee) if guarantee.delta > 0.0 else p / guarantee.epsilon
    growth = math.sqrt(max(1.0, setting.n / (moved * spread * _LENGTH_GROWS_FROM)))
    length = nominal_length(setting, nominal_distance * growth)
    if constants.strong_convexity > 0.0:
        longest = math.sqrt(2.0 * constants.initial_gap / constants.strong_convexity)
        length = min(length, _FOUND_LENGTH * longest)
    return length


def noise_floor(setting: Setting, guarantee: Guarantee) -> float:
    """E‖noise‖² = p v of one full gradient that gets the whole budget, v = (Δ/(nμ))²."""
    return setting.constants.dimension * (setting.sum_sensitivity / (setting.n * gaussian_mu(guarantee))) ** 2


def noise_risk(setting: Setting, square: float, strong_convexity: float) -> float:
    """The excess risk of a minimiser whose gradient is off by noise with E‖noise‖² = square.

    ½ tr(H⁻¹) square/p: between H = Λ, the worst case, and all curvature L spread evenly, H = Λ + L/p, take the
    geometric mean. On a bounded domain noise does no more than ⟨noise, w − w*⟩, twice its Gaussian width.
    """
    constants = setting.constants
    on_a_domain = 2.0 * math.sqrt(square / constants.dimension) * constants.gaussian_width
    if strong_convexity == 0.0:
        return on_a_domain
    curvature = math.sqrt(strong_convexity * (strong_convexity + setting.smoothness / constants.dimension))
    return min(on_a_domain, 0.5 * square / curvature) if curvature > 0.0 else on_a_domain


def ridge_bias(setting: Setting, ridge: float, distance: float) -> float:
    """What a further ridge adds to the risk of a minimiser of norm `distance`.

    A strongly convex regularizer has already shortened it in flat directions, so there curvature counts as for noise.
    """
    mu = setting.constants.strong_convexity
    even = mu + ridge + (setting.smoothness / setting.constants.dimension if mu > 0.0 else 0.0)
    return _FOUND_BIAS * 0.5 * (ridge * distance) ** 2 / math.sqrt((mu + ridge) * even) if ridge > 0.0 else 0.0


def risk_at_zero(setting: Setting, guarantee: Guarantee) -> float:
    """What w = 0 costs: half the largest curvature, spread evenly, and a minimiser of typical length."""
    constants = setting.constants
    curvature = constants.strong_convexity + setting.smoothness / (2.0 * constants.dimension)
    return min(constants.initial_gap, 0.5 * curvature * typical_length(setting, guarantee) ** 2)


def mean_curvature(setting: Setting, total: float) -> float:
    """What curvatures average to at most, where all are at least `total`.

    By Jensen noise on the gradient moves a minimiser by at least its own length over this.
    """
    return total + setting.smoothness / setting.constants.dimension


def moved_risk(setting: Setting, square: float) -> float:
    """The excess risk of a minimiser that was itself moved by noise with E‖noise‖² = square: ½ tr(H) square/p."""
    return 0.5 * (setting.smoothness / setting.constants.dimension + setting.constants.strong_convexity) * square


def nominal_length(setting: Setting, nominal_distance: float) -> float:
    """A guess at ‖w*‖, in units in which logistic regression has rows of norm 1, within what the domain allows."""
    return min(setting.constants.diameter, nominal_distance * length_unit(setting))


def length_unit(setting: Setting) -> float:
    """What a nominal distance is multiplied by: 1 for logistic regression and rows of norm 1.

    K classes have K vectors, and more classes in the same space have longer ones. The noise that is best with them was
    found to be that for K times the length of one: K = 7 to 26, p = 17 to 785 columns (docs/choosing_a_solver.md).

    For regression the target has a unit, and with it w: there the risk at 0 stands for 1/2, which squared loss has for
    targets up to 1. So the guess does not depend on what the target is measured in.
    """
    constants = setting.constants
    in_units_of_a_target = constants.n_outputs == 1 and not constants.monotone
    scale = 0.5 * constants.initial_gap if in_units_of_a_target else 0.25
    return max(1, constants.n_outputs) * math.sqrt(scale / constants.smoothness)


def rate_risk(setting: Setting, guarantee: Guarantee, of_one_release: float, of_the_rate: float) -> float:
    """The risk in multiples, as measured, of one exact release's; or of √(E‖noise‖²)·‖w*‖ without strong convexity."""
    square, mu = noise_floor(setting, guarantee), setting.constants.strong_convexity
    if mu > 0.0:
        return of_one_release * noise_risk(setting, square, mu)
    return of_the_rate * math.sqrt(square) * typical_length(setting, guarantee)
