"""Mirror descent with the noise of Talwar, Thakurta and Zhang 2014."""

import math

import numpy as np

from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.registry import published
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.mirror.talwar_mirror import TalwarMirror, mirror_bounds


@published(TalwarMirror)
def algorithm_1(solver: TalwarMirror, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """σ² = 32 G² T ln²(T/δ)/(nε)² on the mean gradient, T = n²ε²/((G_C² + ‖C‖²) ln²(n/δ)), no more than the cap."""
    constants = setting.constants
    size = constants.gaussian_width**2 + constants.diameter**2
    best = (setting.n * guarantee.epsilon / math.log(setting.n / guarantee.delta)) ** 2 / (size or 1.0)
    n_steps = solver.n_steps or int(min(max(best, 1.0), solver.max_steps))
    sigma = constants.lipschitz * math.sqrt(32.0 * n_steps) * math.log(n_steps / guarantee.delta)
    sigma /= setting.n * guarantee.epsilon
    step_sizes, _ = mirror_bounds(setting, np.array([n_steps]), sigma**2 / n_steps)
    plan = solver.plan_with(setting, n_steps, solver.step_size or float(step_sizes[0]))
    return CalibratedPlan(plan, sigma / plan.planned[0].query.sensitivity)
