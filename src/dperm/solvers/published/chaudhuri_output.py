"""Output perturbation as Chaudhuri, Monteleoni and Sarwate 2011 have it."""

from dperm.accounting.guarantee import Guarantee
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.solvers.perturbation.chaudhuri_output import ChaudhuriOutput
from dperm.solvers.published.registry import published


@published(ChaudhuriOutput)
def algorithm_1(solver: ChaudhuriOutput, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """The density ∝ exp(−nΛε‖b‖/2) for gradients of length 1 at most."""
    plan, constants = solver.plan(setting, guarantee), setting.constants
    scale = 2.0 * constants.lipschitz / (setting.n * constants.strong_convexity * guarantee.epsilon)
    return CalibratedPlan(plan, scale / plan.planned[0].query.sensitivity)
