"""DP-GD, Algorithm 4 of the paper, with a proximal step for r and C."""

import math
from dataclasses import dataclass, replace

import numpy as np

from dperm.accounting.curve import gaussian_mu
from dperm.accounting.last_iterate import last_iterate_amplification, last_iterate_amplifications
from dperm.errors import InvalidParameterError
from dperm.mechanisms import GradientQuery, LastIterateQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile, Solver
from dperm.solvers.expected import noise_floor, nominal_length, typical_length
from dperm.validation import one_of

# What a run without noise aims at.
_NOISELESS_GAP = 1e-9
_NOISELESS_MAX_STEPS = 100_000


@dataclass(frozen=True)
class DPGDSettings:
    """What DP-GD decided."""

    n_steps: int
    step_size: float
    accounting: str
    release: str


@dataclass(frozen=True)
class DPGD(Solver):
    """Noisy full-batch proximal gradient descent.

    w_t = prox_{ηr, C}(w_{t−1} − η(∇F(w_{t−1}) + N(0, σ² I))), t = 1 … T.

    Parameters
    ----------
    n_steps : int, optional
        T. By default the T that minimises the bound of Theorem 6.2 (strongly convex), of gradient descent
        on a convex function, or of Theorem 6.3 (non-convex), with explicit constants.
    step_size : float, optional
        η, by default 1/L.
    accounting : {"last-iterate", "composition"}, optional
        Whether all steps are accounted for or only the last iterate, which is all that leaves. By default
        last-iterate where its theorem applies: a convex loss, an exact proximal step, the last iterate returned.
    release : {"last", "uniform"}, optional
        The last iterate (default for convex losses, section 6.1) or one drawn uniformly from
        w_0 … w_{T−1} (default for non-convex ones, section 6.2).
    nominal_distance : float
        A public guess at ‖w* − start‖ · R where neither strong convexity nor a domain bounds it. It steers T,
        not privacy.
    max_steps : int
        Cap on the default T, a matter of running time.
    paper_constant : float
        c in σ² = c G² T ln(1/δ)/(nε)², used with noise="paper" only.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import DPGD
    >>> PrivateLogisticRegression(epsilon=1.0, solver=DPGD(n_steps=50)).solver.n_steps
    50
    """

    n_steps: int | None = None
    step_size: float | None = None
    accounting: str | None = None
    release: str | None = None
    nominal_distance: float = 10.0
    max_steps: int = 5_000
    paper_constant: float = 1.0

    name = "dp-gd"
    listed = 1
    takes_start = True
    profile = Profile(
        summary="noisy gradient descent with a proximal step",
        source="Wang, Ye and Xu 2017, Algorithm 4; last-iterate accounting after Bok, Su and Altschuler 2024",
        table="section 6, which has no table: DP-GD",
        utility="p log(n)/(n²ε²) strongly convex; √p/(nε) for the squared gradient norm, non-convex",
        gradients="n·T, T = κ log(n²ε²/p)",
        regularizers="any, non-smooth ones by a proximal step; any domain",
        adjacency="published for replace_one; certified for both",
        needs="smooth loss, convex or not",
    )

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        if self.accounting is not None:
            one_of("accounting", self.accounting, ("last-iterate", "composition"))
        if self.release is not None:
            one_of("release", self.release, ("last", "uniform"))
        if self.accounting == "last-iterate" and self.release == "uniform":
            raise InvalidParameterError("last-iterate accounting covers the last iterate only; use release='last'.")

    def refusal(self, problem: Problem) -> str | None:
        """Every problem that dperm can state is smooth."""
        return None

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[DPGDSettings]:
        """Choose T, η and the accounting."""
        convex = setting.constants.convex
        release = self.release or ("last" if convex or self.accounting == "last-iterate" else "uniform")
        provable = convex and setting.constants.exact_prox and release == "last"
        accounting = self.accounting or ("last-iterate" if provable else "composition")
        step_size = self.step_size or 1.0 / setting.smoothness
        n_steps = self.n_steps or self._default_steps(setting, guarantee, step_size, accounting)
        query: GradientQuery | LastIterateQuery
        if accounting == "last-iterate":
            query = LastIterateQuery(setting, n_steps, step_size)
            planned = PlannedQuery(query)
            text = "noisy full-gradient steps, only the last iterate is released"
        else:
            query = GradientQuery(setting)
            planned = PlannedQuery(query, count=n_steps)
            text = "noisy full-gradient steps, all of them accounted for"
        mechanism = f"dp-gd, T = {n_steps} {text}"
        return Plan(mechanism, (planned,), DPGDSettings(n_steps, step_size, accounting, release))

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[DPGDSettings], start: Array) -> Array:
        """Algorithm 4. Under last-iterate accounting its loop runs within the trusted kernel."""
        item = plan.planned[0]
        if isinstance(item.query, LastIterateQuery):
            return oracle.ask(item, start)
        n_steps, step_size = plan.settings.n_steps, plan.settings.step_size
        if plan.settings.release == "uniform":
            n_steps = int(oracle.public_coin.integers(n_steps))  # line 5: w_m, m uniform from {0 … T−1} (errata 4)
        w = start
        for _ in range(n_steps):  # line 1
            w = problem.prox(w - step_size * oracle.ask(item, w), step_size)  # line 2
        return w  # line 4

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """What T steps leave of the gap, and pησ²/4 for noise: σ² is what T steps make of the noise of one."""
        plan, constants = self.plan(setting, guarantee), setting.constants
        n_steps, step_size = plan.settings.n_steps, plan.settings.step_size
        square = noise_floor(setting, guarantee)
        distance = typical_length(setting, guarantee)
        if not constants.convex:  # as if F were convex around what is found: ‖w − w*‖ times the bound of Theorem 6.3
            return distance * math.sqrt(2.0 * constants.initial_gap / (step_size * n_steps) + n_steps * square)
        cost = float(n_steps)
        if plan.settings.accounting == "last-iterate":
            shift = step_size * setting.sum_sensitivity / setting.n
            contraction = 1.0 / (1.0 + step_size * constants.strong_convexity)
            cost = last_iterate_amplification(n_steps, contraction, constants.diameter / shift) ** 2
        noise = 0.25 * step_size * square * cost
        left = distance**2 / (2.0 * step_size * n_steps)
        if constants.strong_convexity > 0.0:
            rate = math.log1p(step_size * constants.strong_convexity)
            left = min(left, constants.initial_gap * math.exp(-rate * n_steps))
        return noise + left

    def gradient_bound(self, setting: Setting, guarantee: Guarantee) -> float:
        """Theorem 6.3: 2(F(w_0) − F*)/(ηT) + pTv for η ≤ 1/L, of w_m with m uniform from {0 … T−1}."""
        plan = replace(self, accounting="composition", release="uniform").plan(setting, guarantee)
        n_steps, step_size = plan.settings.n_steps, plan.settings.step_size
        if step_size * setting.smoothness > 1.0 + 1e-12:
            return math.inf
        noise = n_steps * noise_floor(setting, guarantee)
        return 2.0 * setting.constants.initial_gap / (step_size * n_steps) + noise

    def _default_steps(self, setting: Setting, guarantee: Guarantee | None, step_size: float, accounting: str) -> int:
        constants = setting.constants
        if guarantee is None:
            return noiseless_steps(setting, step_size)
        # Variance of one coordinate of the mean gradient if it were the only release.
        variance = (setting.domain_sensitivity / (setting.n * gaussian_mu(guarantee))) ** 2
        if not constants.convex:
            # Theorem 6.3: E‖∇F(w_m)‖² ≤ 2(F(w_0) − F*)/(ηT) + pTv, smallest at T = sqrt(2(F(w_0) − F*)/(ηpv)).
            best = math.sqrt(2.0 * constants.initial_gap / (step_size * constants.dimension * variance))
            return int(min(max(1.0, best), self.max_steps))
        steps = np.unique(np.geomspace(1, self.max_steps, 400).astype(int))
        shift = step_size * setting.domain_sensitivity / setting.n
        contraction = 1.0 / (1.0 + step_size * constants.strong_convexity)
        if accounting == "last-iterate":
            cost = last_iterate_amplifications(int(steps[-1]), contraction, constants.diameter / shift)[steps - 1] ** 2
        else:
            cost = steps.astype(np.float64)
        one_step = 0.5 * step_size * constants.dimension * variance * cost
        # Gradient descent on a convex function: D²/(2ηT) + ησ²p/2.
        distance = nominal_length(setting, self.nominal_distance)
        bound = distance**2 / (2.0 * step_size * steps) + one_step
        if constants.strong_convexity > 0:
            # Theorem 6.2 with the geometric series summed (errata 4): cᵀ gap + (ησ²p/2)(1 − cᵀ)/(1 − c).
            bias = contraction ** steps.astype(float)
            lost = step_size * constants.strong_convexity * contraction  # 1 − c
            strong = bias * constants.initial_gap + one_step * (1.0 - bias) / lost
            # Where it leaves most of the gap at its best, the strong convexity is too weak to say anything.
            if not strong.min() > 0.5 * constants.initial_gap:
                bound = strong
        # At the end of what floats can hold one step is as good.
        bound = np.nan_to_num(bound, nan=np.inf, posinf=np.inf)
        # Where the privacy cost saturates the bound only flattens out: the first T within 1 % of the best will do.
        return int(steps[np.flatnonzero(bound <= 1.01 * bound.min())[0]])


def noiseless_steps(setting: Setting, step_size: float) -> int:
    """Steps after which a run without noise has reached the optimum for practical purposes."""
    rate = math.log1p(step_size * setting.constants.strong_convexity)
    if rate == 0.0:
        return _NOISELESS_MAX_STEPS // 10
    steps = math.log(max(setting.constants.initial_gap / _NOISELESS_GAP, 2.0)) / rate
    return math.ceil(min(steps, _NOISELESS_MAX_STEPS))
