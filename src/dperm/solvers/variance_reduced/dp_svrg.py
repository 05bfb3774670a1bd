"""DP-SVRG, Algorithm 1 of the paper: anchored, so that its guarantee is true, and as printed."""

import math
from dataclasses import dataclass

from dperm.accounting.guarantee import Guarantee
from dperm.errors import InvalidParameter
from dperm.mechanisms.plan import CalibratedPlan, Plan, check_steps
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile
from dperm.solvers.expected import rate_risk
from dperm.solvers.published.paper import paper_sigma
from dperm.solvers.published.printed import TwoFormSolver, pay_as_printed
from dperm.solvers.refusals import needs_strong_convexity
from dperm.solvers.variance_reduced.anchored import (
    anchored_epoch,
    equal_epochs,
    pace_for,
    sampling_rate_for,
)

# With η = 1/L, 2κ steps reduce the error in the slowest direction e²-fold.
_STEPS_PER_CONDITION = 2.0

# Theorem 4.2 with η = 1/(40L): 8ηL/(1 − 8ηL) = ¼, and m = 202κ brings the sum of both
# terms of its inequality below ½.
_PAPER_STEP, _PAPER_INNER = 1.0 / 40.0, 202.0


@dataclass(frozen=True)
class DPSVRG(TwoFormSolver):
    """Variance-reduced proximal steps around anchors, for strongly convex problems.

    Every epoch releases ṽ = ∇F(w̃) + N(0, σ_s² I) once. An inner step is
    w_t = prox_{ηr, C}(w_{t−1} − η(d_t + ṽ)), where d_t estimates ∇F(w_{t−1}) − ∇F(w̃) on a batch, with noise
    proportional to min(2G, L‖w_{t−1} − w̃‖). The next anchor is a mean of iterates.

    Parameters
    ----------
    n_epochs : int, optional
        T. By default what takes the initial gap to that of one release, 20-fold an epoch, unless noise forbids.
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
    form : {"anchored", "printed"}, optional
        "printed" is line 7 as the paper has it: noise on the sum of both parts, every step paid for at its full
        sensitivity, all iterates averaged. It makes no use of `anchor_share`, `anchor_growth` and `averaging`. The
        default is "anchored", and "printed" with noise="paper".
    paper_constant : float
        c in σ² = c G² T m ln(1/δ)/(nε)², used with noise="paper" only.
    barzilai_borwein : bool
        Step sizes ‖Δw‖²/(m ⟨Δw, Δv⟩) from the released values of two epochs (SVRG-BB), within [1/(mL), 1/(mμ)] and
        at most 1/L.

    Examples
    --------
    >>> from dperm import DPSVRG, PrivateLogisticRegression
    >>> PrivateLogisticRegression(epsilon=1.0, solver=DPSVRG(n_epochs=4)).plan(200_000, 54).passes < 20
    True
    """

    barzilai_borwein: bool = False

    name = "dp-svrg"
    profile = Profile(
        summary="variance-reduced steps around privately released anchors",
        source="Wang, Ye and Xu 2017, Algorithm 1, mended",
        table="Table 1, this paper",
        utility="p log(n)/(μn²ε²)",
        gradients="(n + bκ) T, T = log(n²ε²μ/p), batches of b rows",
        regularizers="strongly convex ones, non-smooth parts by a proximal step; any domain",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss, strongly convex F^r",
    )

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        if not isinstance(self.barzilai_borwein, bool):
            raise InvalidParameter(f"barzilai_borwein must be True or False, got {self.barzilai_borwein!r}.")

    def refusal(self, problem: Problem) -> str | None:
        """Algorithm 1 needs strong convexity."""
        return needs_strong_convexity(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan:
        """Choose T, m, q, η and the shares."""
        pace = pace_for(setting, guarantee, self, lambda n_steps: n_steps / _STEPS_PER_CONDITION)
        slowness = max(1.0, 1.0 / pace.step_size / setting.smoothness)
        inner = equal_epochs(pace.n_epochs, self.n_inner or _STEPS_PER_CONDITION * pace.condition * slowness)
        smallest_rate = sampling_rate_for(setting, pace.condition)
        planned, text = self._epochs(setting, guarantee, inner, pace.condition, smallest_rate)
        settings: dict[str, float | int | str] = {
            "n_epochs": pace.n_epochs,
            "n_inner": inner[0],
            "step_size": pace.step_size,
            "form": self.form or "anchored",
        }
        return Plan(f"dp-svrg, T = {pace.n_epochs} epochs of m = {inner[0]} steps, {text}", planned, settings)

    def paper(self, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
        """Equation (3), σ = G sqrt(c T m ln(1/δ))/(nε), on the printed step with batches of one row on average."""
        constants = setting.constants
        # Theorem 4.2's T, with the gap halved an epoch.
        variance = paper_sigma(setting, guarantee, 1.0) ** 2
        ratio = constants.initial_gap * constants.strong_convexity / (constants.dimension * variance)
        n_inner = self.n_inner or _PAPER_INNER * setting.smoothness / constants.strong_convexity
        check_steps(n_inner)
        plan = self._plan_as_in_the_paper(
            setting,
            guarantee,
            n_epochs=max(1, math.ceil(math.log2(max(ratio, 1.0)))),
            n_inner=math.ceil(n_inner),
            step_size=_PAPER_STEP / setting.smoothness,
        )
        sigma = paper_sigma(setting, guarantee, self.paper_constant * plan.n_steps)
        return pay_as_printed(plan, sigma, guarantee.epsilon)

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """As measured on Covertype: close to one release, until the noise of the differences stops it early."""
        condition = setting.smoothness / setting.constants.strong_convexity
        return rate_risk(setting, guarantee, 1.1 + 1e-3 * condition, math.inf)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan, start: Array) -> Array:
        """Algorithm 1, around anchors that are released once an epoch."""
        if plan.settings["form"] == "printed":
            return self._run_printed(oracle, plan, start)
        *anchors, difference = plan.planned
        n_inner, step_size = int(plan.settings["n_inner"]), float(plan.settings["step_size"])
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

    def _run_printed(self, oracle: Oracle, plan: Plan, start: Array) -> Array:
        """Algorithm 1 as printed; its inner loop runs behind the wall (trusted/differences.py)."""
        n_inner, step_size = int(plan.settings["n_inner"]), float(plan.settings["step_size"])
        anchor = start
        before: tuple[Array, Array] | None = None
        for item in plan.planned:  # line 1
            _, mean, direction = oracle.ask(item, anchor, anchor, step_size=step_size)  # lines 2 to 9
            if self.barzilai_borwein and before is not None:
                # The mean direction is a released estimate of the gradient near the mean iterate.
                step_size = barzilai_borwein_step(mean - before[0], direction - before[1], n_inner, plan)
            anchor, before = mean, (mean, direction)  # line 10
        return anchor  # line 12


def barzilai_borwein_step(moved: Array, change: Array, n_inner: int, plan: Plan) -> float:
    """SVRG-BB's step ‖Δw‖²/(m ⟨Δw, Δv⟩) from released values, kept to what public constants allow."""
    setting = plan.planned[0].query.setting
    low = 1.0 / (n_inner * setting.smoothness)
    high = min(1.0 / (n_inner * setting.constants.strong_convexity), 1.0 / setting.smoothness)
    curvature = float(moved @ change)
    step = float(moved @ moved) / (n_inner * curvature) if curvature > 0.0 else high
    return min(max(step, low), high)
