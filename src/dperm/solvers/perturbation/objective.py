"""Objective perturbation: what the methods of Chaudhuri, Kifer and Talwar share."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.accounting.calibration import calibrate
from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms import ObjectivePerturbationQuery
from dperm.mechanisms.base import LARGEST_CONDITION, LARGEST_PULL
from dperm.mechanisms.objective_perturbation import hessian_rank
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import SMALLEST_EPSILON, Guarantee
from dperm.problem import Problem
from dperm.problem.regularizers import L2, NoRegularizer
from dperm.solvers.base import Array, Oracle, Solver
from dperm.solvers.expected import noise_risk, nominal_length, ridge_bias, typical_length
from dperm.solvers.perturbation.tolerance import check_lengths, needs_a_stable_minimiser, remainder_for, tolerance_for
from dperm.solvers.refusals import needs_one_margin

# The share of ε that the change of variables may cost at the default ridge.
JACOBIAN_SHARE = 1.0 / 3.0


@dataclass(frozen=True)
class ObjectiveSettings:
    """What objective perturbation decided; released coefficients up to `zero_threshold` are noise and become 0."""

    ridge: float
    tolerance: float
    zero_threshold: float


@dataclass(frozen=True)
class ObjectiveSolver(Solver):
    """argmin over C of F^r(w) + (ridge/2)‖w‖² + ⟨b, w⟩/n; see a concrete method for its noise.

    Parameters
    ----------
    ridge : float, optional
        Strength of the ridge that is added to the problem's own. By default so much that the total is at least
        √(E‖b‖²)/(nD), which balances noise and bias for a minimiser of norm D, and that the change of variables costs
        at most a third of ε.
    nominal_distance : float
        A public guess at ‖w*‖ · R where the domain does not bound it. It steers the ridge, not privacy.
    """

    ridge: float | None = None
    nominal_distance: float = 10.0

    pure = True
    # Whether b is Gaussian for δ > 0; for δ = 0 it never is.
    gaussian: ClassVar[bool]

    def is_pure(self, guarantee: Guarantee) -> bool:
        """Unless b is Gaussian."""
        return not self._is_gaussian(guarantee)

    def refusal(self, problem: Problem) -> str | None:
        """The proof moves the linear term along one row's direction."""
        return needs_one_margin(problem) or needs_a_stable_minimiser(problem)

    @staticmethod
    def _with_zeros(problem: Problem, zero_threshold: float, w: Array) -> Array:
        """Exact zeros where a non-smooth regularizer made them and the noise for the remainder covered them."""
        if isinstance(problem.regularizer, NoRegularizer | L2):
            return w
        return problem.domain.project(np.where(np.abs(w) > zero_threshold, w, 0.0))

    @staticmethod
    def _shrunk(w: Array, start: Array, noise: float) -> Array:
        """Shorter by what noise of this length explains, as James and Stein do; not where 0 is outside of C."""
        length = float(np.linalg.norm(w))
        if start.any() or noise == 0.0 or length == 0.0:
            return w
        return w * max(0.0, 1.0 - (noise / length) ** 2)

    def plan_with(
        self, setting: Setting, guarantee: Guarantee | None, ridge: float, slope_share: float = 1.0
    ) -> Plan[ObjectiveSettings]:
        """One minimisation with this ridge."""
        distribution = "Gaussian" if self._is_gaussian(guarantee) else "Gamma"
        total = setting.constants.strong_convexity + ridge
        tolerance = tolerance_for(setting, total)
        noise = 0.0 if guarantee is None else slope_share * self._noise_length(setting, guarantee)
        remainder = remainder_for(setting, guarantee, tolerance, total, noise)
        query = ObjectivePerturbationQuery(setting, ridge, tolerance, remainder, distribution, slope_share)
        mechanism = f"{self.name}, the minimiser with a random linear term and a further ridge of {ridge:.3g}"
        # A coordinate of that noise is as long as this about once in a million.
        root = math.sqrt(setting.constants.dimension + 1.0)
        zero_threshold = 0.0 if guarantee is None else 8.0 * root * query.remainder_scale
        return Plan(mechanism, (PlannedQuery(query),), ObjectiveSettings(ridge, query.tolerance, zero_threshold))

    @staticmethod
    def _ridge_for(setting: Setting, total: float) -> float:
        """What brings the strong convexity to this total, as near as the search can solve for."""
        solvable = min(max(total, 2.0 * setting.smoothness / LARGEST_CONDITION), LARGEST_PULL * setting.smoothness)
        return max(0.0, solvable - setting.constants.strong_convexity)

    def _noise_length(self, setting: Setting, guarantee: Guarantee) -> float:
        """√(E‖b‖²)/n, if nothing but b were to be accounted for."""
        p, moved = setting.constants.dimension, setting.adjacency.records_moved * setting.constants.lipschitz
        if self._is_gaussian(guarantee):
            return moved * math.sqrt(p) / gaussian_mu(guarantee) / setting.n
        return moved * math.sqrt(p * (p + 1.0)) / guarantee.epsilon / setting.n

    def _is_gaussian(self, guarantee: Guarantee | None) -> bool:
        return self.gaussian and (guarantee is None or guarantee.delta > 0.0)

    @staticmethod
    def jacobian_ridge(setting: Setting, cost: float) -> float:
        """The total strong convexity at which the change of variables costs this much: r ln(1 + β/(rnΛ)) = cost."""
        rank = hessian_rank(setting)
        return setting.constants.smoothness / (rank * setting.n * math.expm1(min(cost / rank, 500.0)))

    @staticmethod
    def jacobian_cost(setting: Setting, total: float) -> float:
        """What the change of variables costs at this total strong convexity."""
        rank = hessian_rank(setting)
        return rank * math.log1p(setting.constants.smoothness / (rank * setting.n * total))


@dataclass(frozen=True)
class OneMinimisation(ObjectiveSolver):
    """The methods of Chaudhuri, Kifer and Talwar: one minimisation, of which nothing is changed afterwards."""

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[ObjectiveSettings]:
        """One minimisation. Without noise no ridge is added."""
        if guarantee is None:
            return self.plan_with(setting, None, self.ridge or 0.0)
        if self.ridge is None:
            return self.plan_with(setting, guarantee, self._default_ridge(setting, guarantee))
        plan = self.plan_with(setting, guarantee, self.ridge)
        check_lengths(calibrate(plan, guarantee))
        return plan

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """Noise on what is minimised, what the determinant leaves of ε being spent on it, and the bias of the ridge."""
        ridge = self._default_ridge(setting, guarantee) if self.ridge is None else self.ridge
        total = setting.constants.strong_convexity + ridge
        if total == 0.0:
            return math.inf
        cost = self.jacobian_cost(setting, total)
        left = Guarantee(max(guarantee.epsilon - cost, 0.1 * guarantee.epsilon, SMALLEST_EPSILON), guarantee.delta)
        bias = ridge_bias(setting, ridge, typical_length(setting, guarantee))
        return noise_risk(setting, self._noise_length(setting, left) ** 2, total) + bias

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[ObjectiveSettings], start: Array) -> Array:
        """Ask once; projecting what the little output noise moved is post-processing."""
        w = problem.domain.project(oracle.ask(plan.planned[0], start))
        return self._with_zeros(problem, plan.settings.zero_threshold, w)

    def _default_ridge(self, setting: Setting, guarantee: Guarantee) -> float:
        distance = nominal_length(setting, self.nominal_distance)
        balanced = self._noise_length(setting, guarantee) / distance if distance > 0.0 else 0.0
        total = max(balanced, self.jacobian_ridge(setting, JACOBIAN_SHARE * guarantee.epsilon))
        return self._ridge_for(setting, total)
