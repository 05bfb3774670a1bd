"""DP-Adam: noisy minibatch gradients with momentum and a step size for every coefficient, convex or not."""

import math
from dataclasses import dataclass

import numpy as np

from dperm.accounting.central_limit import central_limit_rate
from dperm.accounting.curve import gaussian_mu
from dperm.errors import InvalidParameterError
from dperm.mechanisms import GradientQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile, Solver
from dperm.solvers.descent.prox_with_steps import prox_with_steps
from dperm.solvers.descent.stochastic import expected_sigma
from dperm.solvers.expected import noise_floor
from dperm.validation import positive

# Default T: from the start to the end, noise alone moves the sums on a row's way by about this much, all layers
# together, if every number in them is ±1.
_WANDERED = 10.0
_FEWEST_STEPS = 20
# Where the passes allow fewer, this many steps are taken all the same, with fewer rows each.
_STEPS_AT_LEAST = 300
# Default sampling rate: so many rows that the noise multiplier is about the first. If that takes too many passes, fewer
# rows, down to the second; beyond, fewer steps, because fewer rows would only add noise.
_MULTIPLIER, _LEAST_MULTIPLIER = 4.0, 1.0
# Steps of a run without noise, and the share of the rows in each.
_NOISELESS_STEPS, _NOISELESS_RATE = 2_000, 0.1


@dataclass(frozen=True)
class DPAdamSettings:
    """What DP-Adam decided: T, and the deviation of the noise on a coefficient's gradient that is to be expected."""

    n_steps: int
    noise: float


@dataclass(frozen=True)
class DPAdam(Solver):
    """Noisy minibatch steps with momentum, each coefficient's divided by the size of its gradient; the last iterate.

    w_t = prox(w_{t−1} − η_t m_t / max(√(v_t − σ²), ηG/s)), the proximal step in the same metric. m_t and v_t are
    running means of the noisy gradients and of their squares, from which the noise's own part σ² is taken off (Tang,
    Shpilevskiy and Lécuyer 2023), and η_t falls from η to 0. A coefficient with a clear gradient moves by up to η a
    step, one without by s/G times its gradient. All of this is post-processing: every noisy gradient is accounted for.

    Parameters
    ----------
    n_steps : int, optional
        T. By default enough that noise alone moves a row's scores by about 10, inputs of every layer taken as ±1.
    sampling_rate : float, optional
        q, every row's chance to be in a step's batch. By default so that the noise multiplier is about 4, or less where
        that takes too many passes.
    step_size : float
        η, the most that a coefficient moves in a step.
    reach : float
        s, how far all coefficients together move in a step in which every row's clipped gradient is the same; infinite
        for Adam as it is without noise.
    momentum : float
        β₁ of the running mean of gradients.
    second_momentum : float or None
        β₂ of the running mean of squares; None for none: SGD with momentum, whose step size is s/G.
    max_passes : float
        Cap on the default qT, in passes over the rows.

    Examples
    --------
    >>> from dperm import FitOptions, Guarantee, Problem
    >>> from dperm.problem import FunctionLoss
    >>> from dperm.solvers import DPAdam
    >>> loss = FunctionLoss(lambda w, x, y: (x @ w["a"] - y) ** 2, {"a": np.zeros(5)})
    >>> options = FitOptions(Problem(loss), guarantee=Guarantee(1.0, 1e-6), solver=DPAdam(n_steps=200))
    >>> options.plan(10_000, 5).calibrated.plan.n_steps
    200
    """

    n_steps: int | None = None
    sampling_rate: float | None = None
    step_size: float = 0.1
    reach: float = 16.0
    momentum: float = 0.9
    second_momentum: float | None = 0.999
    max_passes: float = 60.0

    name = "dp-adam"
    listed = 12
    takes_start = True
    profile = Profile(
        summary="noisy minibatch steps with momentum and a step size for every coefficient",
        source="Abadi et al. 2016 and Kingma and Ba 2015; the noise's bias after Tang, Shpilevskiy and Lécuyer 2023",
        table="none (what people use today for networks)",
        utility="no bound is known that is of use",
        gradients="q·n·T, at most 60n",
        regularizers="any by a proximal step, exact where they work coordinate by coordinate; any domain by projection",
        adjacency="certified for both",
        needs="differentiable loss, convex or not",
    )

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        if self.reach != math.inf:
            positive("reach", self.reach)
        if self.second_momentum is None and self.reach == math.inf:
            raise InvalidParameterError(
                "without second_momentum the step size is reach over the clip: reach must be finite."
            )

    def refusal(self, problem: Problem) -> str | None:
        """It takes every problem that dperm can state."""
        return None

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[DPAdamSettings]:
        """Choose T and q."""
        if guarantee is None:
            n_steps, rate = self.n_steps or _NOISELESS_STEPS, self.sampling_rate or _NOISELESS_RATE
            noise = 0.0
        else:
            n_steps, rate = self._steps_and_rate(setting, guarantee)
            noise = expected_sigma(setting, guarantee, rate, n_steps)
        mechanism = f"dp-adam, T = {n_steps} noisy stochastic gradients at sampling rate {rate:.3g}"
        planned = PlannedQuery(GradientQuery(setting, rate), n_steps)
        return Plan(mechanism, (planned,), DPAdamSettings(n_steps, noise))

    def _steps_and_rate(self, setting: Setting, guarantee: Guarantee) -> tuple[int, float]:
        mu = gaussian_mu(guarantee)

        def rate_for(multiplier: float, n_steps: float) -> float:
            rate = central_limit_rate(multiplier, mu**2 / n_steps, setting.adjacency)
            return min(1.0, max(rate, 1.0 / setting.n))

        # The noise of T steps, √T Δ/(nμ) each, times step sizes s/G that fall to 0, adds up to sTΔ/(√3 Gnμ) on a
        # coefficient, and to √k times that on a sum of k inputs.
        moved = setting.sum_sensitivity / setting.constants.lipschitz
        reach = self.reach if self.reach < math.inf else type(self).reach
        wandered = _WANDERED / math.sqrt(setting.constants.fan_in)
        wanted = max(_FEWEST_STEPS, math.sqrt(3.0) * wandered * setting.n * mu / (reach * moved))
        if self.sampling_rate is not None:
            most = self.max_passes / self.sampling_rate
        else:  # the lowest q falls as 1/√T, so qT grows with √T
            most = wanted * (self.max_passes / (rate_for(_LEAST_MULTIPLIER, wanted) * wanted)) ** 2
            most = max(most, min(_STEPS_AT_LEAST, self.max_passes * setting.n))
        n_steps = self.n_steps or max(1, math.ceil(min(wanted, most)))
        rate = min(rate_for(_MULTIPLIER, n_steps), max(self.max_passes / n_steps, 1.0 / setting.n))
        return n_steps, self.sampling_rate or rate

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[DPAdamSettings], start: Array) -> Array:
        """Ask for a gradient, update both means, step."""
        (item,) = plan.planned
        n_steps, noise = plan.settings.n_steps, plan.settings.noise
        slowest = self.step_size * item.query.setting.constants.lipschitz / self.reach  # ηG/s
        w, mean, squares = start, np.zeros(start.size), np.zeros(start.size)
        for t in range(n_steps):
            gradient = oracle.ask(item, w)
            mean = self.momentum * mean + (1.0 - self.momentum) * gradient
            direction = mean / (1.0 - self.momentum ** (t + 1))
            size = np.full(start.size, slowest)
            if self.second_momentum is not None:
                squares = self.second_momentum * squares + (1.0 - self.second_momentum) * gradient**2
                clear = squares / (1.0 - self.second_momentum ** (t + 1)) - noise**2
                size = np.maximum(np.sqrt(np.maximum(clear, 0.0)), max(slowest, 1e-12 * noise))
            falling = self.step_size * (1.0 - t / n_steps)
            if self.second_momentum is None:  # the same step s/G for all
                w = problem.prox(w - falling / slowest * direction, falling / slowest)
            else:
                steps = np.divide(falling, size, out=np.zeros(start.size), where=size > 0.0)
                w = prox_with_steps(problem.regularizer, problem.domain, w - steps * direction, steps)
        return w

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """Of a function about what noise makes of the gap at the start; for losses of margins others are better known.

        A ranking only: nobody knows what a function's risk will be.
        """
        if setting.constants.n_outputs:
            return math.inf
        share = math.sqrt(noise_floor(setting, guarantee)) / setting.constants.lipschitz
        return setting.constants.initial_gap * share / (0.1 + share)
