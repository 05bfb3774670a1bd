"""DP-SVRG++, Algorithm 2 of the paper, anchored, for problems that need not be strongly convex."""

import math
from dataclasses import dataclass

from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms.plan import Plan, check_steps
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile
from dperm.solvers.expected import nominal_length, rate_risk
from dperm.solvers.refusals import needs_convexity
from dperm.solvers.variance_reduced.anchored import AnchoredSolver, anchored_epoch, anchored_text, sampling_rate_for
from dperm.solvers.variance_reduced.dp_svrg import SVRGSettings

_INNER = 8
_NOISELESS_STEPS = 8_000


@dataclass(frozen=True)
class DPSVRGPlusPlus(AnchoredSolver):
    """Variance-reduced proximal steps around anchors, in epochs that double.

    Epoch s has 2ˢm steps and goes on from the last iterate; its anchor is a mean of the epoch before. The steps
    as the paper prints them are `PrintedSVRGPlusPlus`, which noise="paper" takes.

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
    nominal_distance : float
        A public guess at ‖w* − start‖ · R where no domain bounds it. It steers T, not privacy.
    max_steps : int
        Cap on the default number of steps, a matter of running time.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import DPSVRGPlusPlus
    >>> PrivateLogisticRegression(epsilon=1.0, penalty=None, solver=DPSVRGPlusPlus(n_epochs=3)).solver.n_epochs
    3
    """

    anchor_growth: float = 3.0
    nominal_distance: float = 10.0
    max_steps: int = 10_000

    name = "dp-svrg++"
    listed = 3
    takes_start = True
    profile = Profile(
        summary="variance-reduced steps around anchors, in epochs that double",
        source="Wang, Ye and Xu 2017, Algorithm 2, corrected",
        table="Table 2, this paper",
        utility="√p/(nε)",
        gradients="n T + b·nε/√p, T = log(nε/√p), batches of b rows",
        regularizers="any, non-smooth ones by a proximal step; any domain",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Algorithm 2 needs convexity."""
        return needs_convexity(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[SVRGSettings]:
        """Choose T, m, q, η and the shares."""
        steps = default_steps(setting, guarantee, self.nominal_distance, self.max_steps)
        settings = doubling_settings(setting, steps, self.n_epochs, self.n_inner, self.step_size)
        inner = doubling_epochs(settings)
        # A direction that is fitted at all is fitted in the last epoch, half of all steps.
        condition = sum(inner) / 4.0
        planned = self._anchored_queries(setting, guarantee, inner, condition, sampling_rate_for(setting, 1.0))
        text = anchored_text(planned[-1].query.sampling_rate)
        mechanism = f"dp-svrg++, T = {settings.n_epochs} epochs of {inner[0]} … {inner[-1]} steps, {text}"
        return Plan(mechanism, planned, settings)

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """As measured on Covertype without a regularizer."""
        return rate_risk(setting, guarantee, 3.0, 1.5)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[SVRGSettings], start: Array) -> Array:
        """Algorithm 2, around anchors that are released once per epoch."""
        *anchors, difference = plan.planned
        step_size = plan.settings.step_size
        w = anchor = start  # line 1
        for epoch, item in enumerate(anchors, start=1):  # line 2
            gradient = oracle.ask(item, anchor)  # line 3
            n_steps = 2**epoch * plan.settings.n_inner  # line 4
            w, anchor = anchored_epoch(
                oracle, problem, difference, gradient, anchor, w, n_steps, step_size, self.averaging
            )  # lines 5 to 11
        return anchor  # line 13


def default_steps(setting: Setting, guarantee: Guarantee | None, nominal_distance: float, max_steps: int) -> float:
    """All steps K of size η = 1/L: D²/(2ηK) + ηKpv/2 is smallest at ηK = D/√(pv)."""
    constants = setting.constants
    if guarantee is None:
        return float(_NOISELESS_STEPS)
    deviation = setting.sum_sensitivity / (setting.n * gaussian_mu(guarantee))
    distance = nominal_length(setting, nominal_distance)
    steps = setting.smoothness * distance / (deviation * math.sqrt(constants.dimension))
    # Beyond the second an anchor's noise alone could do as much harm as the initial gap.
    quiet = setting.smoothness * constants.initial_gap / (deviation**2 * constants.dimension)
    return min(steps, quiet, float(max_steps))


def doubling_settings(
    setting: Setting, steps: float, n_epochs: int | None, n_inner: int | None, step_size: float | None
) -> SVRGSettings:
    """T, m and η for about this many steps in all; what was given stays as it is."""
    # Where noise forbids even the two steps of a single epoch with m = 1, they become shorter.
    step_size = step_size or min(1.0, 0.5 * steps) / setting.smoothness
    n_inner = n_inner or max(1, min(_INNER, int(steps / 6.0)))
    n_epochs = n_epochs or max(1, round(math.log2(steps / (2.0 * n_inner) + 1.0)))
    return SVRGSettings(n_epochs, n_inner, step_size)


def doubling_epochs(settings: SVRGSettings) -> tuple[int, ...]:
    """Steps of every epoch: m_s = 2ˢ m."""
    check_steps(settings.n_inner * 2 ** min(settings.n_epochs, 64))  # the last alone; 2⁶⁴ steps are too many as well
    return tuple(settings.n_inner * 2**epoch for epoch in range(1, settings.n_epochs + 1))
