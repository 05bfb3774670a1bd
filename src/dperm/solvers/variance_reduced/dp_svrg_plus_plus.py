"""DP-SVRG++, Algorithm 2 of the paper, for problems that need not be strongly convex: anchored and as printed."""

import math
from dataclasses import dataclass

from dperm.accounting.curve import gaussian_mu
from dperm.accounting.guarantee import Guarantee
from dperm.mechanisms.plan import CalibratedPlan, Plan, check_steps
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile
from dperm.solvers.expected import nominal_length, rate_risk
from dperm.solvers.published.paper import paper_sigma
from dperm.solvers.published.printed import TwoFormSolver, pay_as_printed
from dperm.solvers.refusals import needs_convexity
from dperm.solvers.variance_reduced.anchored import anchored_epoch, sampling_rate_for
from dperm.validation import count, positive

_INNER = 8
_NOISELESS_STEPS = 8_000

# Theorem 4.4's step size, 1/(13 L).
_PAPER_STEP = 1.0 / 13.0


@dataclass(frozen=True)
class DPSVRGPlusPlus(TwoFormSolver):
    """Variance-reduced proximal steps around anchors, in epochs that double.

    Epoch s has 2ˢm steps and goes on from the last iterate; its anchor is a mean of the epoch before.

    Parameters
    ----------
    n_epochs : int, optional
        T. By default so that all (2ᵀ⁺¹ − 2)m steps are about those that balance D²/(2ηK) against the noise ηKpv/2.
    n_inner : int, optional
        m, by default 8, or fewer where few steps are wanted.
    sampling_rate : float, optional
        q, every row's chance to be in a step's batch.
    step_size : float, optional
        η, by default 1/L, or less where noise forbids even two such steps.
    anchor_share : float, optional
        Share of the budget for anchors, within [1e-6, 1 − 1e-6]; the differences get the rest.
    anchor_growth : float
        How much more of the budget every anchor gets than the one before it, within [1e-3, 1e3]; the first and the last
        may differ 1e12-fold.
    averaging : float
        The share of an epoch's iterates, counted from its end, whose mean is the next anchor.
    form : {"anchored", "printed"}, optional
        As for DPSVRG: "printed" makes no use of `anchor_share`, `anchor_growth` and `averaging`.
    paper_constant : float
        c in σ² = c G² 2ᵀ m ln(2/δ)/(nε)², used with noise="paper" only.
    nominal_distance : float
        A public guess at ‖w* − start‖ · R where no domain bounds it. It steers T, not privacy.
    max_steps : int
        Cap on the default number of steps, a matter of running time.

    Examples
    --------
    >>> from dperm import DPSVRGPlusPlus, PrivateLogisticRegression
    >>> PrivateLogisticRegression(epsilon=1.0, penalty=None, solver=DPSVRGPlusPlus(n_epochs=3)).solver.n_epochs
    3
    """

    anchor_growth: float = 3.0
    nominal_distance: float = 10.0
    max_steps: int = 10_000

    name = "dp-svrg++"
    profile = Profile(
        summary="variance-reduced steps around anchors, in epochs that double",
        source="Wang, Ye and Xu 2017, Algorithm 2, mended",
        table="Table 2, this paper",
        utility="√p/(nε)",
        gradients="n T + b·nε/√p, T = log(nε/√p), batches of b rows",
        regularizers="any, non-smooth ones by a proximal step; any domain",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss",
    )

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        positive("nominal_distance", self.nominal_distance)
        count("max_steps", self.max_steps)

    def refusal(self, problem: Problem) -> str | None:
        """Algorithm 2 needs convexity."""
        return needs_convexity(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan:
        """Choose T, m, q, η and the shares."""
        steps = self._default_steps(setting, guarantee)
        # Where noise forbids even the two steps of a single epoch with m = 1, they become shorter.
        step_size = self.step_size or min(1.0, 0.5 * steps) / setting.smoothness
        n_inner = self.n_inner or max(1, min(_INNER, int(steps / 6.0)))
        n_epochs = self.n_epochs or max(1, round(math.log2(steps / (2.0 * n_inner) + 1.0)))
        check_steps(n_inner * 2 ** min(n_epochs, 64))  # the last epoch alone; 2⁶⁴ steps are too many as well
        inner = tuple(n_inner * 2**epoch for epoch in range(1, n_epochs + 1))
        # A direction that is fitted at all is fitted in the last epoch, half of all steps.
        condition = sum(inner) / 4.0
        planned, text = self._epochs(setting, guarantee, inner, condition, sampling_rate_for(setting, 1.0))
        mechanism = f"dp-svrg++, T = {n_epochs} epochs of {inner[0]} … {inner[-1]} steps, {text}"
        settings: dict[str, float | int | str] = {
            "n_epochs": n_epochs,
            "n_inner": n_inner,
            "step_size": step_size,
            "form": self.form or "anchored",
        }
        return Plan(mechanism, planned, settings)

    def paper(self, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
        """Equation (6), σ = G sqrt(c 2ᵀ m ln(2/δ))/(nε), on the printed step with batches of one row on average."""
        ratio = 1.0 / paper_sigma(setting, guarantee, setting.constants.dimension)
        plan = self._plan_as_in_the_paper(
            setting,
            guarantee,
            n_epochs=max(1, math.ceil(math.log2(max(ratio, 1.0)))),  # Theorem 4.4
            n_inner=None,
            step_size=_PAPER_STEP / setting.smoothness,
        )
        steps = 2.0 ** int(plan.settings["n_epochs"]) * int(plan.settings["n_inner"])
        sigma = paper_sigma(setting, guarantee, self.paper_constant * steps, failures=2.0)
        return pay_as_printed(plan, sigma, guarantee.epsilon)

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """As measured on Covertype without a regularizer."""
        return rate_risk(setting, guarantee, 3.0, 1.5)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan, start: Array) -> Array:
        """Algorithm 2, around anchors that are released once an epoch."""
        if plan.settings["form"] == "printed":
            return self._run_printed(oracle, plan, start)
        *anchors, difference = plan.planned
        step_size = float(plan.settings["step_size"])
        w = anchor = start  # line 1
        for epoch, item in enumerate(anchors, start=1):  # line 2
            gradient = oracle.ask(item, anchor)  # line 3
            n_steps = 2**epoch * int(plan.settings["n_inner"])  # line 4
            w, anchor = anchored_epoch(
                oracle, problem, difference, gradient, anchor, w, n_steps, step_size, self.averaging
            )  # lines 5 to 11
        return anchor  # line 13

    def _run_printed(self, oracle: Oracle, plan: Plan, start: Array) -> Array:
        """Algorithm 2 as printed; its inner loop runs behind the wall (trusted/differences.py)."""
        step_size = float(plan.settings["step_size"])
        w = anchor = start  # line 1
        for item in plan.planned:  # line 2
            w, anchor, _ = oracle.ask(item, w, anchor, step_size=step_size)  # lines 3 to 11
        return anchor  # line 13

    def _default_steps(self, setting: Setting, guarantee: Guarantee | None) -> float:
        """All steps K of size η = 1/L: D²/(2ηK) + ηKpv/2 is smallest at ηK = D/√(pv)."""
        constants = setting.constants
        if guarantee is None:
            return float(_NOISELESS_STEPS)
        deviation = setting.sum_sensitivity / (setting.n * gaussian_mu(guarantee))
        distance = nominal_length(setting, self.nominal_distance)
        steps = setting.smoothness * distance / (deviation * math.sqrt(constants.dimension))
        # Beyond the second an anchor's noise alone could do as much harm as the initial gap.
        quiet = setting.smoothness * constants.initial_gap / (deviation**2 * constants.dimension)
        return min(steps, quiet, float(self.max_steps))
