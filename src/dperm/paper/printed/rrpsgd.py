"""RRPSGD of Zhang, Zheng, Mou and Wang 2017, with noise of the form that Bassily et al. have."""

from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.bassily_sgd import bassily_sigma
from dperm.paper.printed.registry import published
from dperm.paper.solvers.rrpsgd import RRPSGD
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.descent.stochastic import Schedule


@published(RRPSGD)
def random_rounds(solver: RRPSGD, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """n² steps of one row each on average."""
    n_steps = solver.n_steps or min(setting.n**2, solver.max_steps)
    rate = solver.sampling_rate or 1.0 / setting.n
    sigma = bassily_sigma(setting, guarantee, rate, n_steps)
    plan = solver.plan_with(setting, Schedule(n_steps, rate, sigma))
    return CalibratedPlan(plan, sigma / plan.planned[0].query.sensitivity)
