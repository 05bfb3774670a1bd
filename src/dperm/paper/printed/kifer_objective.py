"""Objective perturbation as Kifer, Smith and Thakurta 2012 have it; Talwar et al. 2014 take it over bounded sets."""

import math

from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.registry import published
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.perturbation.kifer_objective import KiferObjective
from dperm.solvers.perturbation.talwar_objective import TalwarObjective
from dperm.solvers.perturbation.tolerance import check_lengths


@published(TalwarObjective)
@published(KiferObjective)
def algorithm_1(solver: KiferObjective, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """Δ = 2β/ε and b ~ N(0, G²(8 ln(2/δ) + 4ε)/ε² I), or a density ∝ exp(−ε‖b‖/(2G)) for δ = 0."""
    constants, epsilon = setting.constants, guarantee.epsilon
    ridge = 2.0 * constants.smoothness / (epsilon * setting.n)
    plan = solver.plan_with(setting, guarantee, ridge if solver.ridge is None else solver.ridge)
    if guarantee.delta == 0.0:
        scale = 2.0 * constants.lipschitz / epsilon
    else:
        scale = constants.lipschitz * math.sqrt(8.0 * math.log(2.0 / guarantee.delta) + 4.0 * epsilon) / epsilon
    calibrated = CalibratedPlan(plan, scale / plan.planned[0].query.sensitivity)
    if solver.ridge is not None:
        check_lengths(calibrated)
    return calibrated
