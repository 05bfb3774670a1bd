"""The noise of Theorem 5.3 for DP-AccMD."""

from dataclasses import replace

from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.paper import paper_sigma
from dperm.paper.printed.registry import published
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.mirror.dp_accmd import DPAccMD


@published(DPAccMD)
def theorem_5_3(solver: DPAccMD, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """σ = G sqrt(c T ln(1/δ))/(nε) on the mean gradient, with the paper's y-step."""
    plan = replace(solver, y_step=solver.y_step or "argmin").plan(setting, guarantee)
    sigma = paper_sigma(setting, guarantee, solver.paper_constant * plan.settings.n_steps)
    return CalibratedPlan(plan, sigma / plan.planned[0].query.sensitivity)
