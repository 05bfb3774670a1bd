"""DP-SVRG as printed: Algorithm 1 with noise on the sum of both parts of every step, and the noise of equation (3)."""

import math
from dataclasses import dataclass, replace

from dperm.mechanisms.plan import CalibratedPlan, Plan, check_steps
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.paper import paper_sigma
from dperm.paper.printed.printed import PrintedSolver, calibrate_as_printed, printed_text
from dperm.paper.printed.registry import published, published_as
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle
from dperm.solvers.refusals import needs_strong_convexity
from dperm.solvers.variance_reduced.anchored import ANCHOR_GROWTH, equal_epochs, pace_for, sampling_rate_for
from dperm.solvers.variance_reduced.dp_svrg import DPSVRG, STEPS_PER_CONDITION, SVRGSettings, barzilai_borwein_step

# Theorem 4.2 with η = 1/(40L): 8ηL/(1 − 8ηL) = ¼, and m = 202κ brings the sum of both
# terms of its inequality below ½.
_PAPER_STEP, _PAPER_INNER = 1.0 / 40.0, 202.0


@dataclass(frozen=True)
class PrintedSVRG(PrintedSolver):
    """Algorithm 1 with line 7 as the paper has it, for strongly convex problems.

    Every step has noise on the sum of a sampled difference and the anchor's gradient, and is accounted for at its full
    sensitivity; all iterates of an epoch are averaged. It is there to compare with: `DPSVRG` does better.

    Parameters
    ----------
    n_epochs : int, optional
        T, by default as for DPSVRG; with noise="paper" that of Theorem 4.2.
    n_inner : int, optional
        m, by default as for DPSVRG; with noise="paper" that of Theorem 4.2.
    sampling_rate : float, optional
        q, by default so that there is much noise; with noise="paper" 1/n, one row per step on average.
    step_size : float, optional
        η, by default as for DPSVRG; with noise="paper" 1/(40L).
    paper_constant : float
        c in σ² = c G² T m ln(1/δ)/(nε)², used with noise="paper" only.
    barzilai_borwein : bool
        Step sizes of SVRG-BB, from the mean iterates and mean directions of successive epochs.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.paper import PrintedSVRG
    >>> PrivateLogisticRegression(epsilon=1.0, solver=PrintedSVRG(n_epochs=4)).solver.n_epochs
    4
    """

    barzilai_borwein: bool = False

    name = "dp-svrg as printed"
    profile = replace(
        DPSVRG.profile,
        summary="variance-reduced steps with noise on every one of them",
        source="Wang, Ye and Xu 2017, Algorithm 1, as printed",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Algorithm 1 needs strong convexity."""
        return needs_strong_convexity(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[SVRGSettings]:
        """Choose T, m and η as DP-SVRG does, and q."""
        pace = pace_for(
            setting, guarantee, self.n_epochs, self.step_size, ANCHOR_GROWTH, lambda steps: steps / STEPS_PER_CONDITION
        )
        slowness = max(1.0, 1.0 / pace.step_size / setting.smoothness)
        inner = equal_epochs(pace.n_epochs, self.n_inner or STEPS_PER_CONDITION * pace.condition * slowness)
        planned = self._queries(setting, guarantee, inner, sampling_rate_for(setting, pace.condition))
        text = printed_text(planned[0].query.sampling_rate)
        settings = SVRGSettings(pace.n_epochs, inner[0], pace.step_size)
        return Plan(f"{self.name}, T = {pace.n_epochs} epochs of m = {inner[0]} steps, {text}", planned, settings)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[SVRGSettings], start: Array) -> Array:
        """Algorithm 1; its inner loop runs within the trusted boundary."""
        n_inner, step_size = plan.settings.n_inner, plan.settings.step_size
        anchor = start
        before: tuple[Array, Array] | None = None
        for item in plan.planned:  # line 1
            _, mean, direction = oracle.ask(item, anchor, anchor, step_size=step_size)  # lines 2 to 9
            if self.barzilai_borwein and before is not None:
                # The mean direction is a released estimate of the gradient near the mean iterate.
                step_size = barzilai_borwein_step(mean - before[0], direction - before[1], n_inner, plan)
            anchor, before = mean, (mean, direction)  # line 10
        return anchor  # line 12


@published_as(DPSVRG)
def as_printed(solver: DPSVRG) -> PrintedSVRG:
    """The printed step with what the solver was given."""
    return PrintedSVRG(
        n_epochs=solver.n_epochs,
        n_inner=solver.n_inner,
        sampling_rate=solver.sampling_rate,
        step_size=solver.step_size,
        barzilai_borwein=solver.barzilai_borwein,
    )


@published(PrintedSVRG)
def equation_3(solver: PrintedSVRG, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """σ = G sqrt(c T m ln(1/δ))/(nε) on every step, with batches of one row on average."""
    constants = setting.constants
    # Theorem 4.2's T, with the gap halved per epoch.
    variance = paper_sigma(setting, guarantee, 1.0) ** 2
    ratio = constants.initial_gap * constants.strong_convexity / (constants.dimension * variance)
    n_inner = solver.n_inner or _PAPER_INNER * setting.smoothness / constants.strong_convexity
    check_steps(n_inner)
    plan = replace(
        solver,
        n_epochs=solver.n_epochs or max(1, math.ceil(math.log2(max(ratio, 1.0)))),
        n_inner=math.ceil(n_inner),
        sampling_rate=solver.sampling_rate or 1.0 / setting.n,
        step_size=solver.step_size or _PAPER_STEP / setting.smoothness,
    ).plan(setting, guarantee)
    sigma = paper_sigma(setting, guarantee, solver.paper_constant * plan.n_steps)
    return calibrate_as_printed(plan, sigma, guarantee.epsilon)
