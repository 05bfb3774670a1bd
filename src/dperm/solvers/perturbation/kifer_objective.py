"""Objective perturbation of Kifer, Smith and Thakurta 2012: non-smooth regularizers and convex domains."""

import math
from dataclasses import dataclass

from dperm.accounting.guarantee import Guarantee
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.solvers.base import Profile
from dperm.solvers.perturbation.objective import ObjectiveSolver


@dataclass(frozen=True)
class KiferObjective(ObjectiveSolver):
    """argmin over C of F^r(w) + (ridge/2)‖w‖² + ⟨b, w⟩/n, b Gaussian, or of density ∝ exp(−‖b‖/scale) for δ = 0.

    Parameters
    ----------
    ridge : float, optional
        Strength of the ridge that is added to the problem's own. By default so much that the total is at least
        √(E‖b‖²)/(nD), which balances noise and bias for a minimiser of norm D, and that the change of variables costs
        at most a third of ε; with noise="paper" 2β/(nε).
    nominal_distance : float
        A public guess at ‖w*‖ · R where the domain does not bound it. It steers the ridge, not privacy.

    Examples
    --------
    >>> from dperm import KiferObjective, PrivateLogisticRegression
    >>> PrivateLogisticRegression(epsilon=1.0, solver=KiferObjective()).plan(200_000, 54).privacy.noise_multiplier < 7
    True
    """

    name = "kifer-objective"
    gaussian = True
    profile = Profile(
        summary="the minimiser of the objective with a random linear term",
        source="Kifer, Smith and Thakurta 2012, Algorithm 1; accounted exactly for losses of one margin",
        table="Tables 1 and 2, Kifer et al.",
        utility="p/(μn²ε²) + β‖w*‖²/(nε) strongly convex; √p/(nε) convex",
        gradients="until the minimiser is solved for",
        regularizers="any, non-smooth ones too; any domain",
        adjacency="published for add_remove; certified for both",
        needs="convex smooth loss of one margin",
    )

    def paper(self, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
        """Algorithm 1: Δ = 2β/ε and b ~ N(0, G²(8 ln(2/δ) + 4ε)/ε² I), or a density ∝ exp(−ε‖b‖/(2G)) for δ = 0."""
        constants, epsilon = setting.constants, guarantee.epsilon
        ridge = 2.0 * constants.smoothness / (epsilon * setting.n)
        plan = self._plan_with(setting, guarantee, ridge if self.ridge is None else self.ridge)
        if guarantee.delta == 0.0:
            scale = 2.0 * constants.lipschitz / epsilon
        else:
            scale = constants.lipschitz * math.sqrt(8.0 * math.log(2.0 / guarantee.delta) + 4.0 * epsilon) / epsilon
        return CalibratedPlan(plan, scale / plan.planned[0].query.sensitivity)
