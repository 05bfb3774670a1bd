"""DP-Spider: full gradients now and then, and between them privately released changes of the gradient."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from dperm.accounting.curve import gaussian_mu
from dperm.accounting.guarantee import Guarantee
from dperm.errors import InvalidParameter
from dperm.mechanisms import DifferenceQuery, GradientQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile, Solver
from dperm.solvers.descent.stochastic import distance_bound
from dperm.validation import count, one_of, positive

# Step sizes among which the default is found, times L. At 1 there is no room for the noise of a difference.
_STEPS = (1.0, 0.75, 0.5, 0.25, 0.1)

# A run without noise: the most steps, and an anchor every so many of them.
_NOISELESS_STEPS, _NOISELESS_PERIOD = 10_000, 10


@dataclass(frozen=True)
class SpiderSettings:
    """What DP-Spider decided."""

    n_steps: int
    period: int
    step_size: float


@dataclass(frozen=True)
class DPSpider(Solver):
    """Noisy descent along v_t, which follows the gradient by its released changes from one iterate to the next.

    w_{t+1} = prox_{ηr, C}(w_t − ηv_t). Every `period` steps v_t is a noisy full gradient; otherwise
    v_t = v_{t−1} + [∇F(w_t) − ∇F(w_{t−1}) + noise], whose noise is proportional to ‖w_t − w_{t−1}‖ and so costs little.

    Parameters
    ----------
    n_steps : int, optional
        T. This, the period and the step size minimise the bound with explicit constants (docs/proofs/spider.md).
    period : int, optional
        Steps from one full gradient to the next; 1 is DP-GD.
    step_size : float, optional
        η, at most 1/L, and below it if the period is above 1.
    release : {"shortest", "uniform"}
        The iterate whose step ‖w_{t+1} − w_t‖ was the shortest, or one drawn uniformly from w_0 … w_{T−1}, for which
        the bound is proved.
    nominal_distance : float
        A public guess at ‖w* − start‖ · R where no domain bounds it. Only the predicted risk rests on it.
    max_steps : int
        Cap on the default T, a matter of running time.

    Examples
    --------
    >>> from dperm import DPSpider, Guarantee, Problem, Sigmoid, FitOptions
    >>> fit = FitOptions(Problem(Sigmoid()), guarantee=Guarantee(1.0, 1e-6), solver=DPSpider()).plan(30_000, 100)
    >>> fit.settings.period > 1
    True
    """

    n_steps: int | None = None
    period: int | None = None
    step_size: float | None = None
    release: str = "shortest"
    nominal_distance: float = 10.0
    max_steps: int = 1_000

    name = "dp-spider"
    listed = 21
    profile = Profile(
        summary="descent along gradients kept up to date by their noisy changes",
        source="after SpiderBoost (Wang et al. 2019) and DIFF2 (Murata and Suzuki 2023)",
        table="none; section 6 has its rival, DP-GD",
        utility="(√p/(nε))^{4/3} for the squared gradient norm, non-convex",
        gradients="n·(2T − T/period)",
        regularizers="any, non-smooth ones by a proximal step; any domain; the bound is for none of either",
        adjacency="certified for both",
        needs="smooth loss, convex or not",
    )

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        for name in ("n_steps", "period"):
            if getattr(self, name) is not None:
                count(name, getattr(self, name))
        if self.step_size is not None:
            positive("step_size", self.step_size)
        one_of("release", self.release, ("shortest", "uniform"))
        positive("nominal_distance", self.nominal_distance)
        count("max_steps", self.max_steps)

    @classmethod
    def example(cls) -> Self:
        """Few steps, for the sake of time."""
        return cls(max_steps=100)

    def refusal(self, problem: Problem) -> str | None:
        """Every problem that dperm can state is smooth."""
        return None

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[SpiderSettings]:
        """Choose T, the period, η and the shares."""
        if guarantee is None:
            rate = math.log1p(setting.constants.strong_convexity / setting.smoothness)
            enough = math.ceil(min(math.log(1e9) / rate, _NOISELESS_STEPS)) if rate > 0.0 else _NOISELESS_STEPS
            n_steps, period = self.n_steps or enough, self.period or _NOISELESS_PERIOD
            return self._plan(setting, Pace(n_steps, period, self.step_size or 1.0 / setting.smoothness, 1.0, 1.0, 0.0))
        return self._plan(setting, self._pace(setting, gaussian_mu(guarantee)))

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[SpiderSettings], start: Array) -> Array:
        """Ask for a gradient or for its change, step, and keep what is to be returned."""
        anchor, *difference = plan.planned
        n_steps, period, step_size = plan.settings.n_steps, plan.settings.period, plan.settings.step_size
        if self.release == "uniform":
            n_steps = int(oracle.public_coin.integers(n_steps))  # w_m, m uniform from {0 … T − 1}
        w = before = best = start
        v, shortest = np.zeros(start.size), math.inf
        for t in range(n_steps):
            v = oracle.ask(anchor, w) if t % period == 0 else v + oracle.ask(difference[0], w, before)
            before, w = w, problem.prox(w - step_size * v, step_size)
            length = float(np.linalg.norm(w - before))
            if length < shortest:
                best, shortest = before, length
        return w if self.release == "uniform" else best

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """D √(bound), as if F were convex around what is found, and never above the gap at the start.

        D is the domain's diameter or the nominal distance. For convex losses others do far better.
        """
        if setting.constants.convex:
            return math.inf
        bound = self._pace(setting, gaussian_mu(guarantee)).bound
        distance = distance_bound(setting, self.nominal_distance)
        return min(setting.constants.initial_gap, distance * math.sqrt(bound))

    def _plan(self, setting: Setting, pace: "Pace") -> Plan[SpiderSettings]:
        n_anchors = math.ceil(pace.n_steps / pace.period)
        planned = [PlannedQuery(GradientQuery(setting), n_anchors, 1.0 / pace.anchor_mu)]
        if pace.n_steps > n_anchors:
            differences = DifferenceQuery(setting, 1.0)
            planned.append(PlannedQuery(differences, pace.n_steps - n_anchors, 1.0 / pace.difference_mu))
        mechanism = (
            f"{self.name}, T = {pace.n_steps} steps, {n_anchors} noisy full gradients and "
            f"{pace.n_steps - n_anchors} noisy gradient differences, all of them accounted for"
        )
        return Plan(mechanism, tuple(planned), SpiderSettings(pace.n_steps, pace.period, pace.step_size))

    def _pace(self, setting: Setting, mu: float) -> "Pace":
        """The pace with the least bound among those that keep to what was given."""
        all_steps = (
            [self.n_steps] if self.n_steps else np.unique(np.geomspace(1, self.max_steps, 60).astype(int)).tolist()
        )
        candidates = []
        for n_steps in all_steps:
            fixed = min(self.period, n_steps) if self.period else None
            periods = [fixed] if fixed else np.unique(np.geomspace(1, n_steps, 20).astype(int)).tolist()
            for period in periods:
                for size in [self.step_size * setting.smoothness] if self.step_size else _STEPS:
                    pace = pace_of(setting, mu, n_steps, period, size / setting.smoothness)
                    candidates += [pace] if pace is not None else []
        if not candidates:
            raise InvalidParameter(
                "the budget does not suffice for gradient differences of so many steps; use fewer steps, a shorter "
                "period or a smaller step_size."
            )
        return min(candidates, key=lambda pace: pace.bound)


@dataclass(frozen=True)
class Pace:
    """How many steps, how far apart full gradients are, and what each answer may cost.

    Attributes
    ----------
    n_steps, period, step_size
        As for `DPSpider`.
    anchor_mu, difference_mu : float
        μ of one full gradient and of one difference.
    bound : float
        On the mean squared gradient norm of the iterates.
    """

    n_steps: int
    period: int
    step_size: float
    anchor_mu: float
    difference_mu: float
    bound: float


def pace_of(setting: Setting, mu: float, n_steps: int, period: int, step_size: float) -> Pace | None:
    """The shares that make the bound of docs/proofs/spider.md hold, or None if the budget does not suffice.

    Parameters
    ----------
    setting : Setting
        Public facts.
    mu : float
        The budget.
    n_steps, period, step_size
        As for `DPSpider`.
    """
    constants, n_anchors = setting.constants, math.ceil(n_steps / period)
    step = step_size * setting.smoothness
    if step > 1.0 + 1e-12 or (step > 1.0 - 1e-12 and n_steps > n_anchors):
        return None
    # Differences have so little noise that the descent of the steps outweighs what they add over a period.
    longest = constants.lipschitz / constants.smoothness  # so far the sensitivity is proportional to the distance
    relative = DifferenceQuery(setting, 1.0).sensitivity_at_distance(longest) / longest
    needed = (period - 1) * constants.dimension * (relative * step_size) ** 2 / max(1.0 - step, 1e-12)
    left = mu**2 - (n_steps - n_anchors) * needed
    if left <= 0.0:
        return None
    anchor_mu = math.sqrt(left / n_anchors)
    noise = constants.dimension * (GradientQuery(setting).sensitivity / anchor_mu) ** 2
    bound = 2.0 * constants.initial_gap / (step_size * n_steps) + noise
    return Pace(n_steps, period, step_size, anchor_mu, math.sqrt(needed) or mu, bound)
