"""DP-Katyusha, the acceleration that Remark 4.2 of the paper points to, over the same two queries as DP-SVRG."""

import math
from dataclasses import dataclass

import numpy as np

from dperm.mechanisms.plan import Plan
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile
from dperm.solvers.expected import rate_risk
from dperm.solvers.refusals import needs_strong_convexity
from dperm.solvers.variance_reduced.anchored import (
    AnchoredSolver,
    anchored_text,
    equal_epochs,
    sampling_rate_for,
)

# Katyusha has 3L where this is 1.5 L: with batches of hundreds of rows most of that slack is not needed.
_SLACK = 1.5
_STEPS_PER_ROOT_CONDITION = 6.0


@dataclass(frozen=True)
class KatyushaSettings:
    """What DP-Katyusha decided; `towards_z` and `towards_anchor` are τ₁ and τ₂."""

    n_epochs: int
    n_inner: int
    step_size: float
    towards_z: float
    towards_anchor: float


@dataclass(frozen=True)
class DPKatyusha(AnchoredSolver):
    """Accelerated variance-reduced proximal steps around anchors, for strongly convex problems.

    Every epoch releases ∇F(w̃) + N(0, σ_s² I) once. An inner step takes the noisy gradient at
    x = τ₁z + τ₂w̃ + (1 − τ₁ − τ₂)y, moves z by a proximal step of size η/(1.5 τ₁), and y to x plus τ₁ times z's move.
    About √κ steps do what κ steps of DP-SVRG do, so an epoch reads fewer rows.

    Parameters
    ----------
    n_epochs : int, optional
        T. By default what takes the initial gap to that of one release, 20-fold per epoch, unless noise forbids.
    n_inner : int, optional
        m, by default 6√κ, or fewer where the differences' noise would undo them.
    sampling_rate : float, optional
        q, every row's chance to be in a step's batch.
    step_size : float, optional
        η, by default 1/L, or less where noise forbids even one such step. It scales z's step and nothing else:
        τ₁ = min(½, √(2/(1.5κ))) and m follow from the condition that is fitted, τ₂ = min(½, 1/(2qn)) from the batches.
    anchor_share : float, optional
        Share of the budget for anchors, within [1e-6, 1 − 1e-6]; the differences get the rest.
    anchor_growth : float
        How much more of the budget every anchor gets than the one before it, within [1e-3, 1e3]; the first and the last
        may differ 1e12-fold.
    averaging : float
        The share of an epoch's y, counted from its end, whose weighted mean is the next anchor.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import DPKatyusha
    >>> PrivateLogisticRegression(epsilon=1.0, penalty=0.01, solver=DPKatyusha()).plan(200_000, 54).passes < 10
    True
    """

    averaging: float = 1.0

    name = "dp-katyusha"
    listed = 4
    takes_start = True
    profile = Profile(
        summary="accelerated variance-reduced steps around privately released anchors",
        source="Wang, Ye and Xu 2017, Remark 4.2, after Allen-Zhu 2017",
        table="Table 1, this paper, accelerated (Remark 4.2)",
        utility="p log(n)/(μn²ε²)",
        gradients="(n + b√κ) T, T = log(n²ε²μ/p), batches of b rows",
        regularizers="strongly convex ones, non-smooth parts by a proximal step; any domain",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss, strongly convex F^r",
    )

    def refusal(self, problem: Problem) -> str | None:
        """The momentum rests on strong convexity."""
        return needs_strong_convexity(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[KatyushaSettings]:
        """Choose T, m, q, the momentum and the shares."""
        pace = self._pace(setting, guarantee, lambda n_steps: (n_steps / _STEPS_PER_ROOT_CONDITION) ** 2)
        n_epochs, condition = pace.n_epochs, pace.condition
        n_inner = self.n_inner or min(_STEPS_PER_ROOT_CONDITION * math.sqrt(condition), 3.0 * condition)
        inner = equal_epochs(n_epochs, n_inner)
        # Momentum carries noise along, about √κ times as far as plain steps do.
        planned = self._anchored_queries(
            setting, guarantee, inner, condition**1.5, sampling_rate_for(setting, condition)
        )  # fmt: skip
        rate = planned[-1].query.sampling_rate
        settings = KatyushaSettings(
            n_epochs=n_epochs,
            n_inner=inner[0],
            step_size=pace.step_size,
            towards_z=min(0.5, math.sqrt(2.0 / (_SLACK * condition))),  # τ₁
            towards_anchor=min(0.5, 0.5 / (rate * setting.n)),  # τ₂ = 1/(2b)
        )
        text = anchored_text(rate)
        return Plan(f"dp-katyusha, T = {n_epochs} epochs of m = {inner[0]} steps, {text}", planned, settings)

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """As measured on Covertype: a little above DP-SVRG."""
        condition = setting.smoothness / setting.constants.strong_convexity
        return rate_risk(setting, guarantee, 1.2 + 1e-3 * condition, math.inf)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[KatyushaSettings], start: Array) -> Array:
        """Allen-Zhu's Algorithm 1 with option II, around released anchor gradients."""
        *anchors, difference = plan.planned
        n_inner, towards_z, towards_anchor = (
            plan.settings.n_inner, plan.settings.towards_z, plan.settings.towards_anchor
        )  # fmt: skip
        step_size = plan.settings.step_size / (_SLACK * towards_z)  # α
        growth = 1.0 + step_size * problem.regularizer.strong_convexity
        first_averaged = n_inner - max(1, round(self.averaging * n_inner))
        anchor = y = z = start
        for item in anchors:
            gradient = oracle.ask(item, anchor)
            total, weights = np.zeros(start.size), 0.0
            for j in range(n_inner):
                x = towards_z * z + towards_anchor * anchor + (1.0 - towards_z - towards_anchor) * y
                v = oracle.ask(difference, x, anchor) + gradient
                moved = problem.prox(z - step_size * v, step_size)
                y, z = x + towards_z * (moved - z), moved
                if j >= first_averaged:
                    weight = growth ** (j - n_inner)
                    total, weights = total + weight * y, weights + weight
            anchor = total / weights
        return anchor
