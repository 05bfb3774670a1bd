"""Private Frank–Wolfe with the Laplace noise of Talwar, Thakurta and Zhang 2015."""

import math

from dperm.mechanisms import VertexQuery
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.registry import published
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.mirror.talwar_frank_wolfe import TalwarFrankWolfe


@published(TalwarFrankWolfe)
def algorithm_2(solver: TalwarFrankWolfe, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """Laplace noise of scale L₁‖C‖₁ sqrt(8 T ln(1/δ))/(nε)."""
    constants, budget = setting.constants, setting.n * guarantee.epsilon
    # T = (Γ nε/(L₁‖C‖₁))^{2/3}
    best = (constants.curvature * budget / constants.vertex_lipschitz) ** (2.0 / 3.0)
    n_steps = solver.n_steps or int(min(max(1.0, best), solver.max_steps))
    log_term = solver.paper_constant * n_steps * math.log(1.0 / guarantee.delta)
    scale = constants.vertex_lipschitz * math.sqrt(log_term) / budget
    query = VertexQuery(setting, noise="laplace")
    return CalibratedPlan(solver.plan_with(query, n_steps), scale / query.sensitivity)
