"""Objective perturbation for several classes with exact accounting, cut gradients, a ridge by rule, shrinkage."""

import math
from dataclasses import dataclass

import numpy as np

from dperm.accounting.calibration import calibrate
from dperm.mechanisms.objective_perturbation import hessian_rank, softmax_trace
from dperm.mechanisms.plan import Plan
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.domains import WholeSpace
from dperm.problem.regularizers import L2, NoRegularizer
from dperm.solvers.base import Array, Oracle, Profile
from dperm.solvers.expected import mean_curvature, noise_risk, ridge_bias, risk_at_zero, typical_length
from dperm.solvers.perturbation.objective import JACOBIAN_SHARE, ObjectiveSettings, ObjectiveSolver
from dperm.solvers.perturbation.tolerance import check_lengths, needs_a_stable_minimiser

# Measured on four data sets of 7 to 26 classes (docs/choosing_a_solver.md): cutting at c moved the risk of a long
# minimiser by about 0.015 (1/c − 1)². A third of it counts: probabilities suffer from a cut, the class with the largest
# much less. Accuracy fell from c = .7 or .5 on, and rose down to there on Covertype.
_CUT_BIAS = 0.005
# The c that are tried; below, nothing but noise is left to be made smaller.
_CUTS = np.linspace(0.2, 1.0, 81)


@dataclass(frozen=True)
class DPSoftmaxSettings(ObjectiveSettings):
    """What DP-Softmax decided further; None for a run without noise."""

    cut: float | None = None
    noise_length: float | None = None


@dataclass(frozen=True)
class DPSoftmax(ObjectiveSolver):
    """argmin over C of F_c^r(W) + (ridge/2)‖W‖² + ⟨b, W⟩/n, then shrunk towards 0 by the known length of the noise.

    F_c is F with the probabilities that a row gives to wrong classes cut to c in all, which multiplies the noise by c.
    Where nothing else moves it, W is released in the subspace that sums to 0 over the classes.

    Parameters
    ----------
    ridge : float, optional
        Strength of the ridge that is added to the problem's own μ. By default what is missing to √(E‖b‖²)/(nD), which
        balances noise and bias for a minimiser of norm D, and at least so much that the change of variables costs a
        third of ε.
    nominal_distance : float
        A public guess at ‖W*‖ · R/K for few rows; D is K times that, and grows as for DP-Objective. It steers the
        ridge, not privacy.
    cut : float, optional
        c. By default where the bias that a cut is expected to have and the noise's part of the risk have the least sum.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import DPSoftmax
    >>> model = PrivateLogisticRegression(epsilon=1.0, classes=["a", "b", "c"], solver=DPSoftmax())
    >>> 0.5 < model.plan(20_000, 54).settings.cut < 1.0
    True
    """

    nominal_distance: float = 8.0
    cut: float | None = None

    name = "dp-softmax"
    listed = 17
    gaussian = True
    profile = Profile(
        summary="objective perturbation for several classes: exact accounting, cut gradients, a ridge by rule",
        source="Kifer, Smith and Thakurta 2012; the bound for several classes is dperm's own",
        table="none: it came later",
        utility="Kp/(μn²ε²) strongly convex; √(Kp)/(nε) convex, both with a log factor in K",
        gradients="until the minimiser is solved for",
        regularizers="any, non-smooth ones too; any domain",
        adjacency="certified for both",
        needs="softmax loss",
    )

    def refusal(self, problem: Problem) -> str | None:
        """The proof knows the corners that a softmax gradient lies between."""
        if not problem.loss.slope_is_the_softmax:
            return f"it needs the softmax loss, and got {problem.loss.name}."
        return needs_a_stable_minimiser(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[DPSoftmaxSettings]:
        """One minimisation. Without noise no ridge is added and nothing is cut."""
        if guarantee is None:
            exact = self.plan_with(setting, None, self.ridge or 0.0)
            return Plan(exact.mechanism, exact.planned, DPSoftmaxSettings(**vars(exact.settings)))
        cut, ridge = self._choose(setting, guarantee)
        one = self.plan_with(setting, guarantee, ridge, cut)
        curvature = mean_curvature(setting, setting.constants.strong_convexity + ridge)
        length = cut * self._noise_length(setting, guarantee) / curvature
        settings = DPSoftmaxSettings(**vars(one.settings), cut=cut, noise_length=length)
        of_wrong = "" if cut == 1.0 else f", probabilities of wrong classes cut at {cut:.0%}"
        mechanism = f"dp-softmax, the minimiser with a random linear term, a further ridge of {ridge:.3g}{of_wrong}"
        plan = Plan(mechanism, one.planned, settings)
        if self.ridge is not None:
            check_lengths(calibrate(plan, guarantee))
        return plan

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[DPSoftmaxSettings], start: Array) -> Array:
        """Minimise; then take off what is the same for all classes, and shrink as James and Stein do: without rows."""
        w = problem.domain.project(oracle.ask(plan.planned[0], start))
        w = self._with_zeros(problem, plan.settings.zero_threshold, w)
        if isinstance(problem.regularizer, NoRegularizer | L2) and isinstance(problem.domain, WholeSpace):
            matrix = w.reshape(problem.loss.n_outputs, -1)
            w = (matrix - matrix.mean(axis=0)).reshape(-1)  # nothing but b and the ridge has moved their mean from 0
        return self._shrunk(w, start, plan.settings.noise_length or 0.0)

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """Noise, of which shrinkage makes N·P/(N + P) where w = 0 costs P, and the biases of the ridge and the cut."""
        cut, ridge = self._choose(setting, guarantee)
        total = setting.constants.strong_convexity + ridge
        noise = noise_risk(setting, (cut * self._noise_length(setting, guarantee)) ** 2, total)
        bias = ridge_bias(setting, ridge, self._distance(setting, guarantee))
        bias += self._cut_bias(setting, guarantee, cut)
        at_zero = risk_at_zero(setting, guarantee)
        return bias + (noise * at_zero / (noise + at_zero) if at_zero > 0.0 else 0.0)

    def _choose(self, setting: Setting, guarantee: Guarantee) -> tuple[float, float]:
        """The cut, and the ridge."""
        cut = self._default_cut(setting, guarantee) if self.cut is None else self.cut
        ridge = self._ridge_at(setting, guarantee, cut) if self.ridge is None else self.ridge
        return cut, ridge

    def _ridge_at(self, setting: Setting, guarantee: Guarantee, cut: float) -> float:
        distance = self._distance(setting, guarantee)
        balanced = cut * self._noise_length(setting, guarantee) / distance if distance > 0.0 else 0.0
        return self._ridge_for(setting, max(balanced, _least_total(setting, JACOBIAN_SHARE * guarantee.epsilon, cut)))

    def _default_cut(self, setting: Setting, guarantee: Guarantee) -> float:
        """Where the bias of the cut and the noise's part of the risk, which is c² of that without a cut, are least."""
        total = setting.constants.strong_convexity + self._ridge_at(setting, guarantee, 1.0)
        noise = noise_risk(setting, self._noise_length(setting, guarantee) ** 2, total)
        risks = [self._cut_bias(setting, guarantee, cut) + cut**2 * noise for cut in _CUTS.tolist()]
        return float(_CUTS[int(np.argmin(risks))])

    def _cut_bias(self, setting: Setting, guarantee: Guarantee, cut: float) -> float:
        """As measured for a long minimiser; a short one has all rows cut, as if the penalty were 1/c of what it is."""
        excess = 1.0 / cut - 1.0
        stronger = ridge_bias(setting, excess * setting.constants.strong_convexity, self._distance(setting, guarantee))
        return _CUT_BIAS * excess**2 + stronger

    def _distance(self, setting: Setting, guarantee: Guarantee) -> float:
        return typical_length(setting, guarantee, self.nominal_distance)


def _least_total(setting: Setting, cost: float, cut: float) -> float:
    """The total strong convexity at which the change of variables costs this much."""
    rank = hessian_rank(setting)
    trace = 2.0 * setting.constants.smoothness * softmax_trace(setting.constants.n_outputs, cut)
    return trace / (rank * setting.n * math.expm1(min(cost / rank, 500.0)))
