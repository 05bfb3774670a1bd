"""DP-SVRG++ as printed: Algorithm 2 with noise on the sum of both parts of every step, and that of equation (6)."""

import math
from dataclasses import dataclass, replace

from dperm.mechanisms.plan import CalibratedPlan, Plan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.paper import paper_sigma
from dperm.paper.printed.printed import PrintedSolver, calibrate_as_printed, printed_text
from dperm.paper.printed.registry import published, published_as
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle
from dperm.solvers.variance_reduced.anchored import sampling_rate_for
from dperm.solvers.variance_reduced.dp_svrg import SVRGSettings
from dperm.solvers.variance_reduced.dp_svrg_plus_plus import (
    DPSVRGPlusPlus,
    default_steps,
    doubling_epochs,
    doubling_settings,
)

# Theorem 4.4's step size, 1/(13 L).
_PAPER_STEP = 1.0 / 13.0


@dataclass(frozen=True)
class PrintedSVRGPlusPlus(PrintedSolver):
    """Algorithm 2 with the step as the paper has it, in epochs that double.

    Every step has noise on the sum of a sampled difference and the anchor's gradient, and is accounted for at its full
    sensitivity; all iterates of an epoch are averaged. It is there to compare with: `DPSVRGPlusPlus` does better.

    Parameters
    ----------
    n_epochs : int, optional
        T, by default as for DPSVRGPlusPlus; with noise="paper" that of Theorem 4.4.
    n_inner : int, optional
        m, by default as for DPSVRGPlusPlus.
    sampling_rate : float, optional
        q, by default so that there is much noise; with noise="paper" 1/n, one row per step on average.
    step_size : float, optional
        η, by default as for DPSVRGPlusPlus; with noise="paper" 1/(13L).
    paper_constant : float
        c in σ² = c G² 2ᵀ m ln(2/δ)/(nε)², used with noise="paper" only.
    nominal_distance, max_steps
        As for DPSVRGPlusPlus.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.paper import PrintedSVRGPlusPlus
    >>> PrivateLogisticRegression(epsilon=1.0, penalty=None, solver=PrintedSVRGPlusPlus(n_epochs=3)).solver.n_epochs
    3
    """

    nominal_distance: float = 10.0
    max_steps: int = 10_000

    name = "dp-svrg++ as printed"
    profile = replace(
        DPSVRGPlusPlus.profile,
        summary="variance-reduced steps with noise on every one of them, in epochs that double",
        source="Wang, Ye and Xu 2017, Algorithm 2, as printed",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Algorithm 2 needs convexity."""
        return DPSVRGPlusPlus().refusal(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[SVRGSettings]:
        """Choose T, m and η as DP-SVRG++ does, and q."""
        steps = default_steps(setting, guarantee, self.nominal_distance, self.max_steps)
        settings = doubling_settings(setting, steps, self.n_epochs, self.n_inner, self.step_size)
        inner = doubling_epochs(settings)
        planned = self._queries(setting, guarantee, inner, sampling_rate_for(setting, 1.0))
        text = printed_text(planned[0].query.sampling_rate)
        mechanism = f"{self.name}, T = {settings.n_epochs} epochs of {inner[0]} … {inner[-1]} steps, {text}"
        return Plan(mechanism, planned, settings)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[SVRGSettings], start: Array) -> Array:
        """Algorithm 2; its inner loop runs within the trusted boundary."""
        w = anchor = start  # line 1
        for item in plan.planned:  # line 2
            w, anchor, _ = oracle.ask(item, w, anchor, step_size=plan.settings.step_size)  # lines 3 to 11
        return anchor  # line 13


@published_as(DPSVRGPlusPlus)
def as_printed(solver: DPSVRGPlusPlus) -> PrintedSVRGPlusPlus:
    """The printed step with what the solver was given."""
    return PrintedSVRGPlusPlus(
        n_epochs=solver.n_epochs,
        n_inner=solver.n_inner,
        sampling_rate=solver.sampling_rate,
        step_size=solver.step_size,
        nominal_distance=solver.nominal_distance,
        max_steps=solver.max_steps,
    )


@published(PrintedSVRGPlusPlus)
def equation_6(solver: PrintedSVRGPlusPlus, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """σ = G sqrt(c 2ᵀ m ln(2/δ))/(nε) on every step, with batches of one row on average."""
    ratio = 1.0 / paper_sigma(setting, guarantee, setting.constants.dimension)
    plan = replace(
        solver,
        n_epochs=solver.n_epochs or max(1, math.ceil(math.log2(max(ratio, 1.0)))),  # Theorem 4.4
        sampling_rate=solver.sampling_rate or 1.0 / setting.n,
        step_size=solver.step_size or _PAPER_STEP / setting.smoothness,
    ).plan(setting, guarantee)
    steps = 2.0**plan.settings.n_epochs * plan.settings.n_inner
    sigma = paper_sigma(setting, guarantee, solver.paper_constant * steps, failures=2.0)
    return calibrate_as_printed(plan, sigma, guarantee.epsilon)
