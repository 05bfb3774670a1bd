"""Objective perturbation of Chaudhuri, Monteleoni and Sarwate 2011, with pure ε."""

import math
from dataclasses import dataclass

from dperm.accounting.guarantee import Guarantee
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.solvers.base import Profile
from dperm.solvers.perturbation.objective import ObjectiveSolver


@dataclass(frozen=True)
class ChaudhuriObjective(ObjectiveSolver):
    """argmin F^r(w) + (ridge/2)‖w‖² + ⟨b, w⟩/n with a density of b ∝ exp(−‖b‖/scale).

    Parameters
    ----------
    ridge : float, optional
        Strength of the ridge that is added to the problem's own; with noise="paper" as published.
    nominal_distance : float
        A public guess at ‖w*‖ · R where the domain does not bound it. It steers the ridge, not privacy.

    Examples
    --------
    >>> from dperm import ChaudhuriObjective, PrivateLogisticRegression
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=0.0, solver=ChaudhuriObjective())
    >>> model.plan(200_000, 54).privacy.certified_delta
    0.0
    """

    name = "chaudhuri-objective"
    gaussian = False
    profile = Profile(
        summary="the minimiser of the objective with a random linear term, pure ε",
        source="Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2",
        table="Table 1, Chaudhuri et al.; objective perturbation",
        utility="p/(μn²ε²), with p² log²(p) in place of p for pure ε",
        gradients="until the minimiser is solved for",
        regularizers="published for twice differentiable ones; here any, and any domain",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss of one margin",
    )

    def paper(self, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
        """Algorithm 2, with β = sup ℓ''‖x‖² for its c and G for its 1."""
        constants, epsilon = setting.constants, guarantee.epsilon
        ridge = self.ridge or 0.0
        total = constants.strong_convexity + ridge
        left = 0.0
        if total > 0.0:  # ε' = ε − ln(1 + 2c/(nΛ) + c²/(nΛ)²)
            left = epsilon - 2.0 * math.log1p(constants.smoothness / (setting.n * total))
        if left <= 0.0:
            ridge = self._jacobian_ridge(setting, epsilon / 4.0) - constants.strong_convexity
            left = epsilon / 2.0
        plan = self._plan_with(setting, guarantee, ridge)
        return CalibratedPlan(plan, 2.0 * constants.lipschitz / left / plan.planned[0].query.sensitivity)
