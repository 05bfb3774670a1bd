"""What DP-Spider and DP-SVRG share on losses that need not be convex: full gradients, and differences between them.

Both descend along v_t, a noisy full gradient every `period` steps. In between DP-Spider adds the change of the gradient
from one iterate to the next, and DP-SVRG the change from the last full gradient. The bounds on the squared gradient
norm are proved in docs/proofs/spider.md.
"""

import math
from dataclasses import dataclass

import numpy as np

from dperm.accounting.curve import gaussian_mu
from dperm.errors import InvalidParameterError
from dperm.mechanisms import DifferenceQuery, GradientQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle

# Step sizes among which the default is found, times L. At 1 there is no room for the noise of a difference.
_STEPS = (1.0, 0.75, 0.5, 0.25, 0.1)

# A run without noise: the most steps, and the number of steps between anchors.
_NOISELESS_STEPS, _NOISELESS_PERIOD = 10_000, 10


@dataclass(frozen=True)
class StationarySettings:
    """What was decided: T, the steps from one full gradient to the next, η."""

    n_steps: int
    period: int
    step_size: float


@dataclass(frozen=True)
class Pace:
    """How many steps, how far apart full gradients are, and what each answer may cost.

    Attributes
    ----------
    n_steps, period, step_size
        As in `StationarySettings`.
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


@dataclass(frozen=True)
class Stationary:
    """What was asked for, and which of the two methods it is.

    Parameters
    ----------
    name : str
        The method.
    from_anchor : bool
        Whether differences are taken from the last full gradient, as in DP-SVRG, or from the iterate before.
    n_steps, period : int or None
        T, and the steps from one full gradient to the next; None for the least bound.
    step_size : float or None
        η, the same.
    max_steps : int
        Cap on the default T.
    """

    name: str
    from_anchor: bool
    n_steps: int | None
    period: int | None
    step_size: float | None
    max_steps: int

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[StationarySettings]:
        """Choose T, the period, η and the shares."""
        if guarantee is None:
            rate = math.log1p(setting.constants.strong_convexity / setting.smoothness)
            enough = math.ceil(min(math.log(1e9) / rate, _NOISELESS_STEPS)) if rate > 0.0 else _NOISELESS_STEPS
            n_steps, period = self.n_steps or enough, self.period or _NOISELESS_PERIOD
            return self._plan(setting, Pace(n_steps, period, self.step_size or 1.0 / setting.smoothness, 1.0, 1.0, 0.0))
        return self._plan(setting, self.pace(setting, guarantee))

    def _plan(self, setting: Setting, pace: Pace) -> Plan[StationarySettings]:
        n_anchors = math.ceil(pace.n_steps / pace.period)
        planned = [PlannedQuery(GradientQuery(setting), n_anchors, 1.0 / pace.anchor_mu)]
        if pace.n_steps > n_anchors:
            differences = DifferenceQuery(setting, 1.0)
            planned.append(PlannedQuery(differences, pace.n_steps - n_anchors, 1.0 / pace.difference_mu))
        mechanism = (
            f"{self.name}, T = {pace.n_steps} steps, {n_anchors} noisy full gradients and "
            f"{pace.n_steps - n_anchors} noisy gradient differences, all of them accounted for"
        )
        return Plan(mechanism, tuple(planned), StationarySettings(pace.n_steps, pace.period, pace.step_size))

    def pace(self, setting: Setting, guarantee: Guarantee) -> Pace:
        """The pace with the least bound among those that keep to what was given."""
        mu = gaussian_mu(guarantee)
        all_steps = (
            [self.n_steps] if self.n_steps else np.unique(np.geomspace(1, self.max_steps, 60).astype(int)).tolist()
        )
        candidates = []
        for n_steps in all_steps:
            fixed = min(self.period, n_steps) if self.period else None
            periods = [fixed] if fixed else np.unique(np.geomspace(1, n_steps, 20).astype(int)).tolist()
            for period in periods:
                for size in [self.step_size * setting.smoothness] if self.step_size else _STEPS:
                    pace = pace_of(setting, mu, n_steps, period, size / setting.smoothness, self.from_anchor)
                    candidates += [pace] if pace is not None else []
        if not candidates:
            raise InvalidParameterError(
                "the budget is too small for gradient differences over this many steps; use fewer steps, a shorter "
                "period or a smaller step_size."
            )
        return min(candidates, key=lambda pace: pace.bound)

    def run(
        self, oracle: Oracle, problem: Problem, plan: Plan[StationarySettings], start: Array, release: str
    ) -> Array:  # fmt: skip
        """Ask for a gradient or for its change, step, and keep what is to be returned."""
        anchor_query, *difference = plan.planned
        n_steps, period, step_size = plan.settings.n_steps, plan.settings.period, plan.settings.step_size
        if release == "uniform":
            n_steps = int(oracle.public_coin.integers(n_steps))  # w_m, m uniform from {0 … T − 1}
        w = before = best = start
        v = known = np.zeros(start.size)  # `known` is the noisy gradient at `before`, from which changes are taken
        shortest = math.inf
        for t in range(n_steps):
            v = oracle.ask(anchor_query, w) if t % period == 0 else known + oracle.ask(difference[0], w, before)
            if t % period == 0 or not self.from_anchor:
                before, known = w, v
            here, w = w, problem.prox(w - step_size * v, step_size)
            length = float(np.linalg.norm(w - here))
            if length < shortest:
                best, shortest = here, length
        return w if release == "uniform" else best


def pace_of(
    setting: Setting, mu: float, n_steps: int, period: int, step_size: float, from_anchor: bool = False
) -> Pace | None:  # fmt: skip
    """The shares that make the bound of docs/proofs/spider.md hold, or None if the budget does not suffice.

    Parameters
    ----------
    setting : Setting
        Public facts.
    mu : float
        The budget.
    n_steps, period, step_size, from_anchor
        As in `Stationary`.
    """
    constants, n_anchors = setting.constants, math.ceil(n_steps / period)
    step = step_size * setting.smoothness
    if step > 1.0 + 1e-12 or (step > 1.0 - 1e-12 and n_steps > n_anchors):
        return None
    # Differences have so little noise that the descent of the steps outweighs what they add over a period. A step is
    # counted for the noise of every later one of its period; from an anchor, k steps away, k times for that.
    counted = period * (period - 1) / 2.0 if from_anchor else float(period - 1)
    longest = constants.lipschitz / constants.smoothness  # so far the sensitivity is proportional to the distance
    relative = DifferenceQuery(setting, 1.0).sensitivity_at_distance(longest) / longest
    needed = counted * constants.dimension * (relative * step_size) ** 2 / max(1.0 - step, 1e-12)
    left = mu**2 - (n_steps - n_anchors) * needed
    if left <= 0.0:
        return None
    anchor_mu = math.sqrt(left / n_anchors)
    noise = constants.dimension * (GradientQuery(setting).sensitivity / anchor_mu) ** 2
    bound = 2.0 * constants.initial_gap / (step_size * n_steps) + noise
    return Pace(n_steps, period, step_size, anchor_mu, math.sqrt(needed) or mu, bound)
