"""The noise of Theorem 6.1 for DP-GD."""

from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.paper import paper_sigma
from dperm.paper.printed.registry import published
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.descent.dp_gd import DPGD


@published(DPGD)
def theorem_6_1(solver: DPGD, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """σ = G sqrt(c T ln(1/δ))/(nε) on the mean gradient."""
    plan = solver.plan(setting, guarantee)
    sigma = paper_sigma(setting, guarantee, solver.paper_constant * plan.settings.n_steps)
    return CalibratedPlan(plan, sigma / plan.planned[0].query.sensitivity)
