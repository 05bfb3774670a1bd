"""Output perturbation of descent as Zhang, Zheng, Mou and Wang 2017 have it."""

import math

from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.registry import published
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.perturbation.zhang_output import ZhangOutput


@published(ZhangOutput)
def algorithm_1(solver: ZhangOutput, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """σ = Δ sqrt(2 ln(1.25/δ))/ε with the published Δ: 5G(μ + L)/(nμL) strongly convex, 3GTη/n convex."""
    plan, constants = solver.plan(setting, guarantee), setting.constants
    if constants.strong_convexity > 0.0:
        moved = 5.0 * (1.0 / constants.strong_convexity + 1.0 / setting.smoothness)
    else:
        moved = 3.0 * (plan.settings.n_steps * plan.settings.step_size)
    sensitivity = moved * constants.lipschitz / setting.n
    sigma = sensitivity * math.sqrt(2.0 * math.log(1.25 / guarantee.delta)) / guarantee.epsilon
    return CalibratedPlan(plan, sigma / plan.planned[0].query.sensitivity)
