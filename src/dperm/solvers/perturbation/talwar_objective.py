"""Objective perturbation over a bounded set, after Talwar, Thakurta and Zhang 2014: the ridge follows its width."""

import math
from dataclasses import dataclass

import numpy as np

from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms.base import LARGEST_CONDITION
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import SMALLEST_EPSILON, Guarantee
from dperm.problem import Problem
from dperm.problem.domains import WholeSpace
from dperm.solvers.base import Profile
from dperm.solvers.perturbation.kifer_objective import KiferObjective
from dperm.solvers.refusals import needs_no_regularizer


@dataclass(frozen=True)
class TalwarObjective(KiferObjective):
    """argmin over a bounded C of F(w) + (ridge/2)‖w‖² + ⟨b, w⟩/n, b Gaussian, or Gamma for δ = 0.

    On a bounded set noise costs at most 2σG_C/n, G_C its Gaussian width, whatever the ridge. So the ridge is there for
    the change of variables alone.

    Parameters
    ----------
    ridge : float, optional
        Strength of the ridge. By default the one that minimises σ(ridge) · 2G_C/n + (ridge/2) max ‖w‖²; with
        noise="paper" 2β/(nε).
    nominal_distance : float
        As in `KiferObjective`.

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.problem import L1Ball, Logistic
    >>> from dperm.solvers import TalwarObjective
    >>> problem = Problem(Logistic(), domain=L1Ball(5.0))
    >>> FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver=TalwarObjective()).plan(10_000, 1000).solver.name
    'talwar-objective'
    """

    name = "talwar-objective"
    listed = 15
    profile = Profile(
        summary="the minimiser over a bounded set of the objective with a random linear term",
        source="Talwar, Thakurta and Zhang 2014, on Kifer et al.'s algorithm; accounted exactly",
        table="Table 3, Talwar et al. 2014; objective perturbation",
        utility="(G_C + β‖C‖²)/(nε)",
        gradients="until the minimiser is solved for",
        regularizers="none; any bounded domain",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss of one margin, a bounded domain",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Bounded sets, without a regularizer."""
        reason = needs_no_regularizer(problem)
        if reason is None and isinstance(problem.domain, WholeSpace):
            reason = f"it needs a bounded domain, which {problem.domain.name} is not."
        return reason or super().refusal(problem)

    def _default_ridge(self, setting: Setting, guarantee: Guarantee) -> float:
        constants = setting.constants
        moved = setting.adjacency.records_moved * constants.lipschitz
        reach = 0.5 * constants.diameter

        def bound(cost: float) -> float:
            left = max(guarantee.epsilon - cost, SMALLEST_EPSILON)
            if self._is_gaussian(guarantee):
                noise = moved / gaussian_mu(Guarantee(left, guarantee.delta)) * constants.gaussian_width
            else:
                # A Gamma vector is, up to a few per cent, √p times as long as a Gaussian one of the same scale.
                noise = moved / left * math.sqrt(constants.dimension) * constants.gaussian_width
            return 2.0 * noise / setting.n + 0.5 * self.jacobian_ridge(setting, cost) * reach**2

        costs = guarantee.epsilon * np.linspace(0.02, 0.9, 45)
        ridge = self.jacobian_ridge(setting, float(min(costs, key=bound)))
        return max(ridge, 2.0 * setting.smoothness / LARGEST_CONDITION)
