"""Output perturbation as Chaudhuri, Monteleoni and Sarwate 2011 have it."""

from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.registry import published
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.perturbation.chaudhuri_output import ChaudhuriOutput


@published(ChaudhuriOutput)
def algorithm_1(solver: ChaudhuriOutput, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """The density ∝ exp(−nΛε‖b‖/2) for gradients of length 1 at most."""
    plan, constants = solver.plan(setting, guarantee), setting.constants
    scale = 2.0 * constants.lipschitz / (setting.n * constants.strong_convexity * guarantee.epsilon)
    return CalibratedPlan(plan, scale / plan.planned[0].query.sensitivity)
