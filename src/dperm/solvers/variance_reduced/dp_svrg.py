"""DP-SVRG, Algorithm 1 of the paper, anchored: corrected so that its guarantee holds."""

import math
from dataclasses import dataclass
from typing import Any

from dperm.mechanisms.plan import Plan
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile
from dperm.solvers.expected import rate_risk
from dperm.solvers.refusals import needs_strong_convexity
from dperm.solvers.variance_reduced.anchored import (
    AnchoredSolver,
    anchored_epoch,
    anchored_text,
    equal_epochs,
    sampling_rate_for,
)
from dperm.solvers.variance_reduced.stationary import Stationary, StationarySettings

# With η = 1/L, 2κ steps reduce the error in the slowest direction e²-fold.
STEPS_PER_CONDITION = 2.0

# Without convexity: cap on the default number of steps, a matter of running time.
_MOST_STEPS = 1_000


@dataclass(frozen=True)
class SVRGSettings:
    """What DP-SVRG and DP-SVRG++ decided; m is that of the first half epoch for the second."""

    n_epochs: int
    n_inner: int
    step_size: float


@dataclass(frozen=True)
class DPSVRG(AnchoredSolver):
    """Variance-reduced proximal steps around anchors, for strongly convex problems and for losses that are not convex.

    Every epoch releases ṽ = ∇F(w̃) + N(0, σ_s² I) once. An inner step is
    w_t = prox_{ηr, C}(w_{t−1} − η(d_t + ṽ)), where d_t estimates ∇F(w_{t−1}) − ∇F(w̃) on a batch, with noise
    proportional to min(2G, L‖w_{t−1} − w̃‖). The next anchor is a mean of iterates. The steps as the paper prints them
    are `PrintedSVRG`, which noise="paper" takes.

    For a loss that is not convex every step asks for the change from the anchor on all rows, the next anchor is the
    last iterate, and what is returned is the iterate with the shortest step. n_epochs, n_inner and step_size are then
    those with the least bound on the squared gradient norm (docs/proofs/spider.md); the other settings do nothing.

    Parameters
    ----------
    n_epochs : int, optional
        T. By default what takes the initial gap to that of one release, 20-fold per epoch, unless noise forbids.
    n_inner : int, optional
        m, by default 2κ, or fewer where the differences' noise would undo them.
    sampling_rate : float, optional
        q, every row's chance to be in a step's batch.
    step_size : float, optional
        η, by default 1/L, or less where noise forbids even one such step.
    anchor_share : float, optional
        Share of the budget for anchors, within [1e-6, 1 − 1e-6]; the differences get the rest.
    anchor_growth : float
        How much more of the budget every anchor gets than the one before it, within [1e-3, 1e3]; the first and the last
        may differ 1e12-fold.
    averaging : float
        The share of an epoch's iterates, counted from its end, whose mean is the next anchor.
    barzilai_borwein : bool
        Step sizes ‖Δw‖²/(m ⟨Δw, Δv⟩) from the released values of two epochs (SVRG-BB), within [1/(mL), 1/(mμ)] and
        at most 1/L.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import DPSVRG
    >>> PrivateLogisticRegression(epsilon=1.0, penalty=0.01, solver=DPSVRG(n_epochs=4)).plan(200_000, 54).passes < 20
    True
    """

    barzilai_borwein: bool = False

    name = "dp-svrg"
    listed = 2
    takes_start = True
    profile = Profile(
        summary="variance-reduced steps around privately released anchors",
        source="Wang, Ye and Xu 2017, Algorithm 1, corrected",
        table="Table 1, this paper",
        utility="p log(n)/(μn²ε²)",
        gradients="(n + bκ) T, T = log(n²ε²μ/p), batches of b rows",
        regularizers="strongly convex ones, non-smooth parts by a proximal step; any domain",
        adjacency="published for replace_one; certified for both",
        needs="smooth loss: with strongly convex F^r, or not convex (stationary points)",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Algorithm 1 needs strong convexity; without convexity it looks for stationary points."""
        return needs_strong_convexity(problem) if problem.loss.convex else None

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[SVRGSettings] | Plan[StationarySettings]:
        """Choose T, m, q, η and the shares."""
        if not setting.constants.convex:
            return self._to_stationary_points.plan(setting, guarantee)
        pace = self._pace(setting, guarantee, lambda n_steps: n_steps / STEPS_PER_CONDITION)
        slowness = max(1.0, 1.0 / pace.step_size / setting.smoothness)
        inner = equal_epochs(pace.n_epochs, self.n_inner or STEPS_PER_CONDITION * pace.condition * slowness)
        smallest_rate = sampling_rate_for(setting, pace.condition)
        planned = self._anchored_queries(setting, guarantee, inner, pace.condition, smallest_rate)
        text = anchored_text(planned[-1].query.sampling_rate)
        settings = SVRGSettings(pace.n_epochs, inner[0], pace.step_size)
        return Plan(f"dp-svrg, T = {pace.n_epochs} epochs of m = {inner[0]} steps, {text}", planned, settings)

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """As measured on Covertype: close to one release, until the noise of the differences stops it early."""
        if not setting.constants.convex:
            return math.inf  # DP-Spider has the smaller bound
        condition = setting.smoothness / setting.constants.strong_convexity
        return rate_risk(setting, guarantee, 1.1 + 1e-3 * condition, math.inf)

    def gradient_bound(self, setting: Setting, guarantee: Guarantee) -> float:
        """That of docs/proofs/spider.md with differences from the anchor, for an iterate drawn at random."""
        if setting.constants.convex:
            return math.inf
        return self._to_stationary_points.pace(setting, guarantee).bound

    @property
    def _to_stationary_points(self) -> Stationary:
        n_steps = self.n_epochs * self.n_inner if self.n_epochs and self.n_inner else None
        return Stationary(self.name, True, n_steps, self.n_inner, self.step_size, _MOST_STEPS)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[Any], start: Array) -> Array:
        """Algorithm 1, around anchors that are released once per epoch."""
        if isinstance(plan.settings, StationarySettings):
            return self._to_stationary_points.run(oracle, problem, plan, start, "shortest")
        *anchors, difference = plan.planned
        n_inner, step_size = plan.settings.n_inner, plan.settings.step_size
        anchor = start
        before: tuple[Array, Array] | None = None
        for item in anchors:  # line 1
            gradient = oracle.ask(item, anchor)  # line 3
            if self.barzilai_borwein and before is not None:
                step_size = barzilai_borwein_step(anchor - before[0], gradient - before[1], n_inner, plan)
            before = anchor, gradient
            _, anchor = anchored_epoch(
                oracle, problem, difference, gradient, anchor, anchor, n_inner, step_size, self.averaging
            )  # lines 4 to 10
        return anchor  # line 12


def barzilai_borwein_step(moved: Array, change: Array, n_inner: int, plan: Plan[Any]) -> float:
    """SVRG-BB's step ‖Δw‖²/(m ⟨Δw, Δv⟩) from released values, kept to what public constants allow."""
    setting = plan.planned[0].query.setting
    low = 1.0 / (n_inner * setting.smoothness)
    high = min(1.0 / (n_inner * setting.constants.strong_convexity), 1.0 / setting.smoothness)
    curvature = float(moved @ change)
    step = float(moved @ moved) / (n_inner * curvature) if curvature > 0.0 else high
    return min(max(step, low), high)
