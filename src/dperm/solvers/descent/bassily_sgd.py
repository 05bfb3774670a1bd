"""Noisy SGD of Bassily, Smith and Thakurta 2014, Tables 1 and 2 of the paper, with a proximal step for r and C."""

import math
from dataclasses import dataclass

import numpy as np

from dperm.mechanisms import StochasticStepsQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile, Solver
from dperm.solvers.descent.stochastic import (
    distance_bound,
    expected_sigma,
    falling,
    rate_for,
    step_variance,
)
from dperm.solvers.expected import rate_risk
from dperm.solvers.refusals import needs_convexity

# Full gradients of a run without noise, and the most that weak strong convexity makes of them.
_NOISELESS_STEPS, _NOISELESS_MAX_STEPS = 10_000, 200_000


@dataclass(frozen=True)
class BassilySettings:
    """What noisy SGD decided: T, η_1, and the power of t that η_t falls by."""

    n_steps: int
    step_size: float
    decay: float


@dataclass(frozen=True)
class BassilySGD(Solver):
    """Noisy SGD with falling steps, whose last iterate is returned.

    w_t = prox_{η_t r, C}(w_{t−1} − η_t(g_t + N(0, σ² I))), g_t the mean gradient of a Poisson sample, with
    η_t = 1/(μt) for strongly convex problems and η_t = D/√(t(G² + V)) for others, where V bounds the variance of
    g_t + noise. On sums, as the authors write them, these are 1/(μnt) and D/√(t(n²G² + pσ²)).

    Parameters
    ----------
    n_steps : int, optional
        T. By default the T with the smallest bound within `max_passes`; with noise="paper" it is n², as published.
    sampling_rate : float, optional
        q. By default so that the noise multiplier is about 1 or above; with noise="paper" it is 1/n, one row per step
        on average. (The authors draw exactly one.)
    nominal_distance : float
        A public guess at ‖w* − start‖ · R where no domain bounds it. It steers η and T, not privacy.
    max_steps : int
        Cap on the default T, a matter of running time. n² beyond it is cut, and the published noise is then that of
        the smaller T: fewer steps, less noise on each, and a derivation whose condition may fail.
    max_passes : float
        Cap on the default qT, in passes over the rows.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import BassilySGD
    >>> PrivateLogisticRegression(epsilon=1.0, solver=BassilySGD(n_steps=1000)).solver.n_steps
    1000
    """

    n_steps: int | None = None
    sampling_rate: float | None = None
    nominal_distance: float = 10.0
    max_steps: int = 10_000_000
    max_passes: float = 100.0

    name = "bassily-sgd"
    listed = 10
    takes_start = True
    profile = Profile(
        summary="noisy SGD with falling steps, the last iterate",
        source="Bassily, Smith and Thakurta 2014, Algorithm 1; last iterate after Shamir and Zhang 2013",
        table="Table 1 and 2, Bassily et al. 2014",
        utility="p log²(n)/(μn²ε²) strongly convex; √p log^1.5(n)/(nε) convex",
        gradients="n² as published",
        regularizers="any, non-smooth ones by a proximal step; any domain",
        adjacency="published for replace_one; certified for both",
        needs="convex loss",
    )

    def refusal(self, problem: Problem) -> str | None:
        """The last iterate of falling steps needs convexity."""
        return needs_convexity(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[BassilySettings]:
        """Choose T, q and the step sizes."""
        if guarantee is None:
            return self.plan_with(
                setting, self.n_steps or self._noiseless_steps(setting), self.sampling_rate or 1.0, 0.0
            )
        n_steps = self.n_steps or self._default_steps(setting, guarantee)
        rate = self.sampling_rate or rate_for(setting, guarantee, n_steps, self.max_passes)
        return self.plan_with(setting, n_steps, rate, expected_sigma(setting, guarantee, rate, n_steps))

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """As measured on Covertype, in far fewer than the published n² steps."""
        return rate_risk(setting, guarantee, 5.0, 5.0)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[BassilySettings], start: Array) -> Array:
        """Algorithm 1; its loop runs within the trusted kernel."""
        step_sizes = plan.settings.step_size * falling(plan.settings.n_steps, plan.settings.decay)
        last: Array = oracle.ask(plan.planned[0], start, step_size=step_sizes)[0]
        return last

    def plan_with(self, setting: Setting, n_steps: int, rate: float, sigma: float) -> Plan[BassilySettings]:
        """T steps at sampling rate q, with step sizes for this noise."""
        step_size, decay = self._schedule(setting, n_steps, rate, sigma)
        mechanism = f"bassily-sgd, T = {n_steps} noisy stochastic gradient steps at sampling rate {rate:.3g}"
        planned = PlannedQuery(StochasticStepsQuery(setting, rate, n_steps))
        return Plan(mechanism, (planned,), BassilySettings(n_steps, step_size, decay))

    def _schedule(self, setting: Setting, n_steps: int, rate: float, sigma: float) -> tuple[float, float]:
        """η_1 and the power of t that η_t falls by."""
        second_moment = setting.constants.lipschitz**2 + step_variance(setting, rate, sigma)
        distance, mu = distance_bound(setting, self.nominal_distance), setting.constants.strong_convexity
        # With M = √second_moment the bounds are M²/(μT) and DM/√T, up to a logarithm: take what promises more.
        if mu * distance * math.sqrt(n_steps) >= math.sqrt(second_moment):
            return 1.0 / mu, 1.0
        return distance / math.sqrt(second_moment), 0.5

    def _noiseless_steps(self, setting: Setting) -> int:
        """As many as make 1/(μt) the better schedule, four times over."""
        pull = setting.constants.strong_convexity * distance_bound(setting, self.nominal_distance)
        enough = 4.0 * (setting.constants.lipschitz / pull) ** 2 if pull > 0.0 else 0.0
        return math.ceil(min(max(_NOISELESS_STEPS, enough), _NOISELESS_MAX_STEPS))

    def _default_steps(self, setting: Setting, guarantee: Guarantee) -> int:
        """The T at which V/T and what the first steps leave behind are smallest together, within the time."""
        constants = setting.constants
        # Steps of 1/(μt) are too long until t = κ, which costs G²κ²/(2μT²). Those of D/√(tM²) are short by G²/T.
        condition = setting.smoothness / constants.strong_convexity if constants.strong_convexity > 0.0 else math.inf

        def bound(n_steps: int) -> float:
            rate = self.sampling_rate or rate_for(setting, guarantee, n_steps, self.max_passes)
            variance = step_variance(setting, rate, expected_sigma(setting, guarantee, rate, n_steps))
            left = constants.lipschitz**2 * min(1.0, condition**2 / (2.0 * n_steps))
            return (variance + left) / n_steps

        most = max(1.0, min(self.max_steps, self.max_passes * setting.n))
        steps = np.unique(np.geomspace(1.0, most, 200).astype(int))
        bounds = np.array([bound(int(n_steps)) for n_steps in steps])
        return int(steps[np.flatnonzero(bounds <= 1.25 * bounds.min())[0]])
