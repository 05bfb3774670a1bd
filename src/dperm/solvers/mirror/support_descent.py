"""Support descent: find privately which coefficients matter, then fit those alone by a dense method."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from dperm.accounting.curve import gaussian_mu
from dperm.errors import InvalidParameterError
from dperm.mechanisms import GradientQuery, VertexQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.domains import L1Ball
from dperm.solvers.base import Array, Oracle, Profile, Solver
from dperm.solvers.mirror.talwar_frank_wolfe import (
    Mask,
    frank_wolfe_bound,
    frank_wolfe_steps,
    frank_wolfe_walk,
    needs_a_larger_delta,
)
from dperm.solvers.refusals import needs_convexity, needs_no_regularizer
from dperm.validation import one_of

# F falls by a quarter of what is possible, as it does where labels are noisy.
_NOMINAL_FALL = 0.25
_SMALLEST_SHARE, _LARGEST_SHARE = 0.2, 0.6

# What a run without noise aims at, and how long it may take.
_NOISELESS_GAP = 1e-8
_NOISELESS_MAX_STEPS = 10_000


# With more rows than this for a coefficient other methods do better than their predictions say, and this one worse.
_ROWS_PER_COEFFICIENT = 50.0


@dataclass(frozen=True)
class SupportSettings:
    """What support descent decided; None is what the plan has no use for.

    Attributes
    ----------
    selection : str
        How the support is chosen.
    selection_share : float or None
        Share of the budget for that; None for a run without noise.
    threshold : float
        From which size on an entry of the noisy gradient is kept, with "gradient".
    n_steps : int
        T; 0 if all of the budget goes to choosing.
    longest_step : float or None
        Cap on the step size; None without steps.
    """

    selection: str
    selection_share: float | None
    threshold: float
    n_steps: int
    longest_step: float | None


@dataclass(frozen=True)
class SupportDescent(Solver):
    """Choose a support S within the l1 ball by noisy answers, then take accelerated projected gradient steps on S.

    S is public once it is released, so the steps on it are post-processing of noisy gradients: their noise enters
    through |S| coordinates instead of p. S is chosen in one of two ways. By "gradient": one noisy gradient at the
    start, of which the entries are kept that stand out of their noise. By "vertices": the vertices that private
    Frank–Wolfe chooses, from whose last iterate the descent starts.

    Parameters
    ----------
    selection : {"gradient", "vertices"}, optional
        By default whichever finds the smaller slopes: the gradient where rows are short in the l2 norm, the vertices
        where only their entries are small.
    n_vertices : int, optional
        k, how often a vertex is chosen; by default what private Frank–Wolfe would take with this share of the budget.
    n_steps : int, optional
        T, steps on the support; by default what minimises the bound of accelerated descent for the nominal support.
        With "vertices" and no settings given it is 0, plain private Frank–Wolfe, where its bound is the better one.
    selection_share : float, optional
        Share of the budget for choosing, within (0, 1).
    nominal_support : int
        A public guess at how many coefficients matter. It steers T and the shares, not privacy.
    false_alarms : float
        How many entries of pure noise may stand out of it on average, with "gradient".
    max_steps : int
        Cap on the defaults of k and T, a matter of running time.

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.problem import L1Ball, Logistic
    >>> from dperm.solvers import SupportDescent
    >>> problem = Problem(Logistic(), domain=L1Ball(5.0))
    >>> fit = FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver=SupportDescent()).plan(10_000, 100_000)
    >>> fit.settings.selection
    'gradient'
    """

    selection: str | None = None
    n_vertices: int | None = None
    n_steps: int | None = None
    selection_share: float | None = None
    nominal_support: int = 10
    false_alarms: float = 2.0
    max_steps: int = 1_000

    name = "support-descent"
    listed = 20
    profile = Profile(
        summary="a support chosen privately, then noisy accelerated descent on it",
        source="private Frank–Wolfe or thresholding of a noisy gradient, then Nesterov 1983",
        table="none; Table 3 has its rivals",
        utility="‖w*‖₂ √|S|/(nε) on the support, and what the support misses",
        gradients="n·(T + 1) or n·(T + k)",
        regularizers="none; the l1 ball",
        adjacency="certified for both",
        needs="convex smooth loss",
    )

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        if self.selection is not None:
            one_of("selection", self.selection, ("gradient", "vertices"))
        if self.n_vertices is not None and self.selection == "gradient":
            raise InvalidParameterError("n_vertices counts choices of a vertex; use selection='vertices'.")

    def refusal(self, problem: Problem) -> str | None:
        """Convex losses, no regularizer, the l1 ball."""
        reason = needs_convexity(problem) or needs_no_regularizer(problem)
        if reason is None and not isinstance(problem.domain, L1Ball):
            reason = f"it chooses coordinates of the l1 ball, and got {problem.domain.name}."
        return reason

    def refusal_at(self, setting: Setting, guarantee: Guarantee) -> str | None:
        """Choosing vertices takes a δ that the noise of a choice can keep."""
        return needs_a_larger_delta(guarantee) if self._chooses_vertices(setting) else None

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[SupportSettings]:
        """Choose how to select, the shares, k and T."""
        if guarantee is None:
            return self._noiseless_plan(setting)
        self.check_at(setting, guarantee)
        mu = gaussian_mu(guarantee)
        if self._chooses_vertices(setting):
            return self._plan_with_vertices(setting, mu)
        return self._plan_with_gradient(setting, mu)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[SupportSettings], start: Array) -> Array:
        """Choose S, then descend on it."""
        first, *rest = plan.planned
        if isinstance(first.query, VertexQuery):
            w, support = frank_wolfe_walk(oracle, first, start)
        else:
            w = start
            support = np.asarray(np.abs(oracle.ask(first, start)) >= plan.settings.threshold)
        longest_step = math.inf if plan.settings.longest_step is None else plan.settings.longest_step
        for item in rest:
            w = self._descend(oracle, problem, item, longest_step, w, support)
        return w

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """What the support misses, and what noise does on it, for the nominal support (docs/proofs/support.md).

        Nothing is predicted worse than not to move, and nothing at all for far more rows than coefficients: what a
        nominal support says then is far from what is found.
        """
        if setting.n > _ROWS_PER_COEFFICIENT * setting.constants.dimension:
            return math.inf
        plan, mu = self.plan(setting, guarantee), gaussian_mu(guarantee)
        fall, share = _nominal_fall(setting), plan.settings.selection_share or 0.0
        part = mu * math.sqrt(share)
        if plan.settings.selection == "gradient":
            # A slope is missed that its noise takes below the threshold.
            sigma = GradientQuery(setting).sensitivity_at_norm(0.0) / part
            missed = fall * float(norm.cdf(self._stands_out(setting) - _nominal_slope(setting) / sigma))
        elif share < 1.0:
            missed = self._choosing_risk(setting, part, plan.planned[0].count)
        else:
            missed = frank_wolfe_bound(setting, mu, plan.planned[0].count)
        return min(fall, missed + (self._descent_risk(setting, mu * math.sqrt(1.0 - share)) if share < 1.0 else 0.0))

    def _descend(
        self, oracle: Oracle, problem: Problem, item: PlannedQuery, longest_step: float, start: Array, support: Mask
    ) -> Array:
        """Nesterov's method on the support; the rest of every noisy gradient is dropped."""
        setting = item.query.setting
        step = min(1.0 / _smoothness_on(setting, int(support.sum())), longest_step)
        w = before = start
        for t in range(item.count):
            ahead = w + t / (t + 3.0) * (w - before)
            gradient = np.where(support, oracle.ask(item, ahead), 0.0)
            before, w = w, problem.prox(ahead - step * gradient, step)
        return w

    def _chooses_vertices(self, setting: Setting) -> bool:
        if self.selection is not None or self.n_vertices is not None:
            return self.selection != "gradient"
        # Slopes found by k noisy choices among V vertices, against those that stand out of one noisy gradient.
        by_vertices = self._choosing_risk(setting, 1.0, 2 * self.nominal_support) / _radius(setting)
        return by_vertices < self._stands_out(setting) * GradientQuery(setting).sensitivity_at_norm(0.0)

    def _stands_out(self, setting: Setting) -> float:
        """The size above which `false_alarms` of p standard normal numbers come to lie."""
        return float(norm.isf(min(self.false_alarms / (2.0 * setting.constants.dimension), 0.25)))

    def _choosing_risk(self, setting: Setting, mu: float, n_vertices: int) -> float:
        """By how much a choice misses the best vertex, g ln V, if k of them are μ²/2-zCDP."""
        noise = VertexQuery(setting).sensitivity * math.sqrt(n_vertices) / mu
        return noise * math.log(setting.constants.n_vertices)

    def _plan_with_gradient(self, setting: Setting, mu: float) -> Plan[SupportSettings]:
        query, size = GradientQuery(setting), self._stands_out(setting)
        # A nominal slope is to lie one standard deviation above the threshold.
        moved = query.sensitivity_at_norm(0.0)  # the gradient is asked for at 0
        wanted = (size + 1.0) * moved / (mu * _nominal_slope(setting))
        share = self.selection_share or _share(wanted**2)
        part = mu * math.sqrt(share)
        chosen = PlannedQuery(query, 1, 1.0 / part)
        return self._finished(setting, mu, share, chosen, "one noisy gradient", size * moved / part)

    def _plan_with_vertices(self, setting: Setting, mu: float) -> Plan[SupportSettings]:
        wanted = self._choosing_risk(setting, mu, 2 * self.nominal_support) / _nominal_fall(setting)
        share = self.selection_share or _share(wanted**2)
        if self.n_vertices is None and self.n_steps is None and self.selection_share is None:
            # Where the descent would add more than Frank–Wolfe leaves, or more than twice what there is to gain, all of
            # the budget goes to Frank–Wolfe.
            alone = frank_wolfe_bound(setting, mu, frank_wolfe_steps(setting, mu, self.max_steps))
            if self._descent_bound(setting, mu * math.sqrt(1.0 - share)) > min(alone, 2.0 * _nominal_fall(setting)):
                share = 1.0
        n_vertices = self.n_vertices or frank_wolfe_steps(setting, mu * math.sqrt(share), self.max_steps)
        chosen = PlannedQuery(VertexQuery(setting), n_vertices, math.sqrt(n_vertices / share) / mu)
        return self._finished(setting, mu, share, chosen, f"k = {n_vertices} noisy choices of a vertex")

    def _finished(
        self, setting: Setting, mu: float, share: float, chosen: PlannedQuery, text: str, threshold: float = 0.0
    ) -> Plan[SupportSettings]:
        """Add the descent to what chooses the support."""
        selection = "vertices" if isinstance(chosen.query, VertexQuery) else "gradient"
        if share == 1.0:
            settings = SupportSettings(selection, share, threshold, 0, None)
            return Plan(f"{self.name}, {text}, all of them accounted for", (chosen,), settings)
        part = mu * math.sqrt(1.0 - share)
        distance, noise = self._distance(setting), self._noise(setting, part)
        smoothness = _smoothness_on(setting, self._nominal_size(setting))
        # 2LD²/T² + T²vk/(2L) is least at T⁴ = 4L²D²/(vk) (docs/proofs/support.md).
        best = math.sqrt(2.0 * smoothness * distance / noise)
        n_steps = self.n_steps or int(min(max(1.0, best), self.max_steps))
        settings = SupportSettings(selection, share, threshold, n_steps, distance / noise)
        steps = PlannedQuery(GradientQuery(setting), n_steps, math.sqrt(n_steps) / part)
        return Plan(f"{self.name}, {text} for a support, T = {n_steps} noisy full-gradient steps on it, "
                    "all of them accounted for", (chosen, steps), settings)  # fmt: skip

    def _noiseless_plan(self, setting: Setting) -> Plan[SupportSettings]:
        smoothness, distance = setting.smoothness, setting.constants.diameter
        enough = math.sqrt(2.0 * smoothness / _NOISELESS_GAP) * distance
        n_steps = self.n_steps or int(min(max(1.0, enough), _NOISELESS_MAX_STEPS))
        chosen, steps = PlannedQuery(GradientQuery(setting)), PlannedQuery(GradientQuery(setting), n_steps, 2.0)
        settings = SupportSettings("gradient", None, 0.0, n_steps, math.inf)
        return Plan(f"{self.name}, T = {n_steps} full-gradient steps", (chosen, steps), settings)

    def _nominal_size(self, setting: Setting) -> float:
        return min(self.nominal_support + self.false_alarms, float(setting.constants.dimension))

    def _distance(self, setting: Setting) -> float:
        """‖w*‖₂ if the radius is divided evenly among the coefficients that matter."""
        return _radius(setting) / math.sqrt(min(self.nominal_support, setting.constants.dimension))

    def _noise(self, setting: Setting, mu: float) -> float:
        """√(vk): the noise on the nominal support of one gradient that is μ-GDP."""
        return math.sqrt(self._nominal_size(setting)) * GradientQuery(setting).sensitivity / mu

    def _descent_bound(self, setting: Setting, mu: float) -> float:
        """2LD²/T² + T²vk/(2L) at its best T."""
        return 2.0 * self._distance(setting) * self._noise(setting, mu)

    def _descent_risk(self, setting: Setting, mu: float) -> float:
        """That, or where it is less twice vk/(2h), what one release costs at the curvature h of the nominal fall."""
        curvature = 2.0 * _nominal_fall(setting) / self._distance(setting) ** 2
        return min(self._descent_bound(setting, mu), self._noise(setting, mu) ** 2 / curvature)


def _radius(setting: Setting) -> float:
    """R₁: the l1 ball is 2R₁ wide."""
    return 0.5 * setting.constants.diameter


def _nominal_fall(setting: Setting) -> float:
    """A guess at F(0) − F*."""
    return _NOMINAL_FALL * setting.constants.initial_gap


def _nominal_slope(setting: Setting) -> float:
    """The slope at 0 towards w*, per unit of the l1 norm: on the way it falls to 0, so twice the mean one."""
    return 2.0 * _nominal_fall(setting) / _radius(setting)


def _smoothness_on(setting: Setting, size: float) -> float:
    """L for steps that stay on this many coordinates: their part of a row has norm at most √size times an entry."""
    entry = setting.constants.vertex_lipschitz / (_radius(setting) * setting.constants.lipschitz)
    return setting.smoothness * min(1.0, max(size, 1.0) * entry**2)


def _share(wanted: float) -> float:
    return min(max(wanted, _SMALLEST_SHARE), _LARGEST_SHARE)
