"""Regression by two objective perturbations, with residuals clipped at what was released about their size."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import lambertw

from dperm.accounting.calibration import calibrate
from dperm.mechanisms import AdaptedObjectiveQuery, SlopeSizeQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import SMALLEST_EPSILON, Guarantee
from dperm.problem import Problem
from dperm.problem.losses.base import ResidualLoss
from dperm.solvers.base import Array, Oracle, Profile
from dperm.solvers.expected import noise_risk, ridge_bias
from dperm.solvers.perturbation.objective import ObjectiveSettings, ObjectiveSolver
from dperm.solvers.perturbation.tolerance import check_lengths, remainder_for, tolerance_for

# The share of ε that the determinant may cost each minimisation: the second one's ridge lies around the first one's
# result, so that its bias is small and a larger ridge costs less than a larger part of ε.
_JACOBIAN_SHARE = 0.1

# Shares of the budget, in μ²: each of the three sizes, which are two numbers where a minimisation has p, the first
# minimisation, the size at the end, by which the constant is moved, and the second minimisation. Of 0.2 and 0.35 for
# the first minimisation neither was better throughout.
_SIZE, _FIRST, _BALANCE, _LAST = 0.015, 0.285, 0.03, 0.64

# What is expected of targets before anything is known, in units of their bound: how far from the middle of their
# range, the mean distance from that centre; and over that distance the size of residuals of a fitted model.
_OFF_CENTRE, _SPREAD, _UNEXPLAINED = 0.5, 0.3, 0.7

# ‖w*‖ of the first minimisation, which has less of the budget and so sees less, over that of the second.
_FIRST_DISTANCE = 1.0 / 3.0

# For predictions: ‖w*‖ as it was found over the nominal one, which is what the ridge leaves room for, and what the
# first minimisation leaves of the bias of the second one's ridge.
_TYPICAL_DISTANCE, _LEFT_BY_THE_FIRST = 0.25, 0.25

# The share of their bound that residuals are clipped at, roughly: for what hides the end of a minimisation.
_TYPICAL_CLIP = 0.1

# A size is asked for with slopes clipped at this many times the one before it.
_REACH = 6.0

# By how much clipping is expected to move the mean of residuals, over their mean size; and the noise of that mean, over
# the same, up to which slopes are clipped at more than `_REACH` times it. Of 0.1 to 0.25 and 0.03 to 0.1 these lost
# least on lognormal and on normal targets of 500 to 50 000 rows.
_OFF_BALANCE, _NOISE_OF_THE_MEAN = 0.15, 0.06

# What the first minimisation explained is taken for at least so much of the spread.
_LEAST_EXPLAINED = 0.3


@dataclass(frozen=True)
class DPRegressionSettings(ObjectiveSettings):
    """What DP-Regression decided; None for a run without noise.

    `noise_length` is √(E‖b‖²)/n of one minimisation that has the whole budget and no slope clipped, `size_noise` the
    noise of a size with no slope clipped; both are about what calibration will find.
    """

    noise_length: float | None = None
    size_noise: float | None = None


@dataclass(frozen=True)
class DPRegression(ObjectiveSolver):
    """Two minimisations of the clipped loss with a random linear term, the second around the first one's result.

    The noise is in proportion to the residual at which the loss is clipped. The bound on residuals is the target's
    range; the residuals of a fitted model are much smaller. So their mean size is released on the way, which takes
    little of the budget because it is one number: before the first minimisation around the released mean of the
    targets, and again after it. Both the clip and the ridge follow from it. A fit of clipped residuals lies between a
    mean and a median, so that at the end the mean residual is released, clipped at far more, and the intercept moved by
    it, as far as its noise allows.

    Parameters
    ----------
    ridge : float, optional
        Least strength of the ridge that is added to the problem's own. By default so much that the change of variables
        costs a tenth of ε each time. Where noise and bias balance at a larger one, that is taken.
    nominal_distance : float
        A public guess at ‖w*‖ · R over the mean distance of the targets from their mean. It steers the ridge, not
        privacy.

    Examples
    --------
    >>> from dperm import PrivateLinearRegression
    >>> from dperm.solvers import DPRegression
    >>> model = PrivateLinearRegression(epsilon=1.0, penalty=None, solver=DPRegression(), row_norm=1.0)
    >>> model.plan(20_000, 8).statement.n_steps
    6
    """

    nominal_distance: float = 60.0

    name = "dp-regression"
    listed = 22
    gaussian = True
    pure = False
    profile = Profile(
        summary="regression by two objective perturbations, residuals clipped at their released size",
        source="objective perturbation after Kifer et al. 2012 and Redberg et al. 2023, with adaptive clipping",
        table="none: it came later",
        utility="p/(n²ε²) tr((XᵀX/n)⁻¹)/p times the residuals' size, or √p/(nε) where that is less",
        gradients="until the minimisers are solved for",
        regularizers="any, non-smooth ones too; any domain",
        adjacency="certified for both",
        needs="squared or Huber loss",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Losses of a residual, whose slope says how far off a prediction is."""
        if not isinstance(problem.loss, ResidualLoss):
            return f"it requires a loss of residuals, such as squared loss, not {problem.loss.name}."
        return super().refusal(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[DPRegressionSettings]:
        """Four sizes and two minimisations. Without noise one minimisation and no ridge."""
        if guarantee is None:
            exact = self.plan_with(setting, None, self.ridge or 0.0)
            return Plan(exact.mechanism, exact.planned, DPRegressionSettings(**vars(exact.settings)))
        ridge = self._least_ridge(setting, guarantee)
        total = setting.constants.strong_convexity + ridge
        tolerance = tolerance_for(setting, total)
        # Residuals are clipped at about a tenth of their bound, and the noise with them.
        noise = _TYPICAL_CLIP * self._noise_length(setting, guarantee)
        remainder = remainder_for(setting, guarantee, tolerance, total, noise)
        objective = AdaptedObjectiveQuery(setting, ridge, tolerance, remainder, "Gaussian")
        sizes = SlopeSizeQuery(setting)
        planned = (
            PlannedQuery(objective, 1, 1.0 / math.sqrt(_LAST)),
            PlannedQuery(objective, 1, 1.0 / math.sqrt(_FIRST)),
            PlannedQuery(sizes, 3, 1.0 / math.sqrt(_SIZE)),
            PlannedQuery(sizes, 1, 1.0 / math.sqrt(_BALANCE)),
        )
        left = self._left(setting, guarantee, ridge)
        noise = self._noise_length(setting, left)
        per_record = noise / math.sqrt(setting.constants.dimension) / objective.sensitivity * setting.n
        root = math.sqrt(setting.constants.dimension + 1.0)
        settings = DPRegressionSettings(
            ridge,
            tolerance,
            8.0 * root * objective.remainder_scale,
            noise,
            per_record * sizes.sensitivity / math.sqrt(_SIZE),
        )
        mechanism = (
            f"{self.name}, the mean size of residuals three times, the minimiser with a random linear term twice, "
            f"residuals clipped at what was released and a further ridge of at least {ridge:.3g}, and the mean "
            "residual, by which the intercept is moved"
        )
        plan = Plan(mechanism, planned, settings)
        if self.ridge is not None:
            check_lengths(calibrate(plan, guarantee))
        return plan

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[DPRegressionSettings], start: Array) -> Array:
        """Centre, size, minimiser, size, minimiser, mean."""
        chosen, noise_length, size_noise = plan.settings, plan.settings.noise_length, plan.settings.size_noise
        if noise_length is None or size_noise is None:
            return problem.domain.project(oracle.ask(plan.planned[0], start))
        last, first, sizes, balance = plan.planned
        setting = sizes.query.setting
        unit = setting.constants.lipschitz / problem.slope_scale  # the bound on slopes
        at_zero = setting.constants.lipschitz_at_zero / setting.constants.lipschitz

        def minimised(item: PlannedQuery, around: Array, share: float, budget: float, explained: float) -> Array:
            length = noise_length * share / math.sqrt(budget)
            distance = self.nominal_distance * explained * unit / problem.row_scale
            released = oracle.ask(item, around, np.array([share, length / distance]))
            return self._with_zeros(problem, chosen.zero_threshold, problem.domain.project(released))

        slope, _ = oracle.ask(sizes, start, np.array([at_zero]))
        around = start
        if problem.intercept and not start.any():
            around = self._moved(
                problem, start, -unit * _weighed(slope, size_noise * at_zero, 0.0, _OFF_CENTRE * at_zero)
            )
        # Residuals around the centre.
        _, size = oracle.ask(sizes, around, np.array([at_zero]))
        typical = _SPREAD * at_zero
        spread = _weighed(size, size_noise * at_zero, typical, typical)
        spread = min(max(spread, 0.25 * size_noise * at_zero), 1.0)
        share = min(1.0, max(2.0, self._clip(setting, chosen.ridge, noise_length, _FIRST)) * spread)
        w = minimised(first, around, share, _FIRST, _FIRST_DISTANCE * spread)
        # Residuals of the first minimiser.
        reach = min(1.0, _REACH * spread)
        noise = size_noise * reach
        _, size = oracle.ask(sizes, w, np.array([reach]))
        left = max(_weighed(size, noise, _UNEXPLAINED * spread, 0.5 * spread), 0.25 * noise)
        if left >= spread:
            w, left = around, spread  # what was found explains nothing
        share = min(1.0, self._clip(setting, chosen.ridge, noise_length, _LAST) * left)
        explained = math.sqrt(max(spread**2 - left**2, (_LEAST_EXPLAINED * spread) ** 2))
        w = minimised(last, w, share, _LAST, explained)
        # Clipped residuals make of a mean something nearer to a median: the constant is moved to where they balance.
        noise = size_noise * math.sqrt(_SIZE / _BALANCE)
        reach = min(1.0, max(_REACH, _NOISE_OF_THE_MEAN / noise) * left)
        slope, _ = oracle.ask(balance, w, np.array([reach]))
        off = _weighed(slope, noise * reach, 0.0, _OFF_BALANCE * left)
        return self._moved(problem, w, -unit * off)

    @staticmethod
    def _moved(problem: Problem, w: Array, slope: float) -> Array:
        """The same with another constant, by which predictions change as much as this slope asks for."""
        if not problem.intercept:
            return w
        moved = w.copy()
        moved[-1] += slope / (problem.intercept_value * problem.curvature_bound(w.size - 1))
        return problem.domain.project(moved)

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """That of the last minimisation for targets and residuals of the size that is expected of them."""
        constants, ridge = setting.constants, self._least_ridge(setting, guarantee)
        noise = self._noise_length(setting, self._left(setting, guarantee, ridge))
        spread = _SPREAD * constants.lipschitz_at_zero / constants.lipschitz
        share = min(1.0, self._clip(setting, ridge, noise, _LAST) * _UNEXPLAINED * spread)
        # G/L is the largest slope over the row's norm.
        distance = min(constants.diameter, self.nominal_distance * spread * constants.lipschitz / constants.smoothness)
        if distance == 0.0:
            return 0.0  # C is a point
        length = share * noise / math.sqrt(_LAST)
        ridge = max(ridge, length / distance)
        from_noise = noise_risk(setting, length**2, constants.strong_convexity + ridge)
        at_zero = 0.5 * (spread * constants.lipschitz) ** 2 / constants.smoothness
        bias = _LEFT_BY_THE_FIRST * ridge_bias(setting, ridge, _TYPICAL_DISTANCE * distance)
        return from_noise * at_zero / (from_noise + at_zero) + min(bias, at_zero)

    @staticmethod
    def _clip(setting: Setting, ridge: float, noise_length: float, budget: float) -> float:
        """How many times their mean size residuals are clipped at.

        With noise for slopes that are clipped at their mean size, the excess risk is x times the residuals' variance by
        the rule of `noise_risk`; clipped at k times that size, xk². Clipping itself adds e^−2k, if tails are
        exponential and to one side. The sum is least where xk = e^−2k.
        """
        constants, total = setting.constants, setting.constants.strong_convexity + ridge
        curvature = math.sqrt(total * (total + setting.smoothness / constants.dimension))
        x = noise_length**2 / (budget * curvature) * constants.smoothness / constants.lipschitz**2
        return max(1.0, 0.5 * float(lambertw(2.0 / max(x, 1e-300)).real))

    def _least_ridge(self, setting: Setting, guarantee: Guarantee) -> float:
        if self.ridge is not None:
            return self.ridge
        return self._ridge_for(setting, self.jacobian_ridge(setting, _JACOBIAN_SHARE * guarantee.epsilon))

    def _left(self, setting: Setting, guarantee: Guarantee, ridge: float) -> Guarantee:
        """About what the determinants leave of the guarantee."""
        total = setting.constants.strong_convexity + ridge
        cost = 2.0 * self.jacobian_cost(setting, total) if total > 0.0 else math.inf
        return Guarantee(max(guarantee.epsilon - cost, 0.1 * guarantee.epsilon, SMALLEST_EPSILON), guarantee.delta)


def _weighed(seen: float, noise: float, expected: float, deviation: float) -> float:
    """The mean of a number that was seen with this noise and expected with this deviation, each by its precision."""
    weight = deviation**2 / (deviation**2 + noise**2)
    return weight * float(seen) + (1.0 - weight) * expected
