"""Objective perturbation as Chaudhuri, Monteleoni and Sarwate 2011 have it."""

import math

from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.registry import published
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.perturbation.chaudhuri_objective import ChaudhuriObjective
from dperm.solvers.perturbation.tolerance import check_lengths


@published(ChaudhuriObjective)
def algorithm_2(solver: ChaudhuriObjective, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """Algorithm 2, with β = sup ℓ''‖x‖² for its c and G for its 1."""
    constants, epsilon = setting.constants, guarantee.epsilon
    ridge = solver.ridge or 0.0
    total = constants.strong_convexity + ridge
    left = 0.0
    if total > 0.0:  # ε' = ε − ln(1 + 2c/(nΛ) + c²/(nΛ)²)
        left = epsilon - 2.0 * math.log1p(constants.smoothness / (setting.n * total))
    if left <= 0.0:
        ridge = solver.jacobian_ridge(setting, epsilon / 4.0) - constants.strong_convexity
        left = epsilon / 2.0
    plan = solver.plan_with(setting, guarantee, ridge)
    calibrated = CalibratedPlan(plan, 2.0 * constants.lipschitz / left / plan.planned[0].query.sensitivity)
    if solver.ridge is not None:
        check_lengths(calibrated)
    return calibrated
