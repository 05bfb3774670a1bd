"""DP-SGD as it is used today: Poisson samples, numerical accounting, the mean of the last iterates or the last one."""

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
    SAMPLING_TO_NOISE,
    distance_bound,
    falling,
    rate_for,
    schedule_without_convexity,
    step_size_without_convexity,
)
from dperm.solvers.expected import noise_floor, rate_risk

# What a run without noise aims at.
_NOISELESS_GAP = 1e-9
_NOISELESS_MAX_STEPS = 10_000


@dataclass(frozen=True)
class DPSGDSettings:
    """What DP-SGD decided: T, η, and how many of the last iterates are averaged; 0 for the last one alone."""

    n_steps: int
    step_size: float
    averaged: int


@dataclass(frozen=True)
class DPSGD(Solver):
    """Noisy minibatch SGD with a proximal step, whose last iterates are averaged.

    w_t = prox_{η_t r, C}(w_{t−1} − η_t(g_t + N(0, σ² I))), g_t the mean gradient of a Poisson sample.

    For a loss that is not convex the last iterate is returned, and T and η are those of rrpsgd; the bound of that
    is for an iterate drawn at random, and none is known for the last one. `DPAdam` has momentum.

    Parameters
    ----------
    n_steps : int, optional
        T. By default L times the ηT that minimises the bound on the mean's excess risk.
    sampling_rate : float, optional
        q, every row's chance to be in a step's batch. By default so that the noise multiplier is about 1 or above and
        sampling does not add much more than the noise does.
    step_size : float, optional
        η, by default 1/L, or less where noise forbids even one such step.
    decay : float
        η_t = η t^−decay: 0 for constant steps, for which the defaults are made.
    averaging : float
        The share of the iterates, counted from the end, whose mean is returned.
    nominal_distance : float
        A public guess at ‖w* − start‖ · R where nothing else bounds it more. It steers T, not privacy.
    max_steps : int
        Cap on the default T, a matter of running time.
    max_passes : float
        Cap on the default qT, in passes over the rows.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import DPSGD
    >>> PrivateLogisticRegression(epsilon=1.0, solver=DPSGD(n_steps=300)).solver.n_steps
    300
    """

    n_steps: int | None = None
    sampling_rate: float | None = None
    step_size: float | None = None
    decay: float = 0.0
    averaging: float = 0.5
    nominal_distance: float = 10.0
    max_steps: int = 20_000
    max_passes: float = 100.0

    name = "dp-sgd"
    listed = 11
    takes_start = True
    profile = Profile(
        summary="noisy minibatch SGD, the mean of the last iterates",
        source="Abadi et al. 2016, after Song, Chaudhuri and Sarwate 2013",
        table="none (what people use today)",
        utility="p/(μn²ε²) strongly convex; √p/(nε) convex; both with log factors",
        gradients="q·n·T, T = κ log(n²ε²/p) strongly convex",
        regularizers="any, non-smooth ones by a proximal step; any domain",
        adjacency="certified for both",
        needs="smooth loss, convex or not",
    )

    def refusal(self, problem: Problem) -> str | None:
        """It takes every problem that dperm can state."""
        return None

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[DPSGDSettings]:
        """Choose T, q and η."""
        if not setting.constants.convex:
            return self._plan_without_convexity(setting, guarantee)
        time = self._default_time(setting, guarantee)  # ηT
        n_steps = self.n_steps or max(1, math.ceil(time * setting.smoothness))
        rate = self.sampling_rate
        if rate is None:
            rate = 1.0 if guarantee is None else rate_for(setting, guarantee, n_steps, self.max_passes)
        step_size = self.step_size or min(1.0 / setting.smoothness, time / float(falling(n_steps, self.decay).sum()))
        n_averaged = max(1, round(self.averaging * n_steps))
        mechanism = f"dp-sgd, T = {n_steps} noisy stochastic gradient steps at sampling rate {rate:.3g}"
        planned = tuple(
            PlannedQuery(StochasticStepsQuery(setting, rate, part))
            for part in (n_steps - n_averaged, n_averaged)
            if part > 0
        )
        return Plan(mechanism, planned, DPSGDSettings(n_steps, step_size, n_averaged))

    def _plan_without_convexity(self, setting: Setting, guarantee: Guarantee | None) -> Plan[DPSGDSettings]:
        schedule = schedule_without_convexity(
            setting, guarantee, self.n_steps, self.sampling_rate, self.max_steps, self.max_passes
        )
        n_steps, rate, _ = schedule
        step_size = step_size_without_convexity(setting, schedule, self.decay, self.step_size)
        planned = PlannedQuery(StochasticStepsQuery(setting, rate, n_steps))
        mechanism = f"dp-sgd, T = {n_steps} noisy stochastic gradient steps at sampling rate {rate:.3g}"
        return Plan(mechanism, (planned,), DPSGDSettings(n_steps, step_size, 0))

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """As measured on Covertype."""
        if not setting.constants.convex:
            return math.inf  # DP-Spider and DP-Adam are for such losses
        return rate_risk(setting, guarantee, 2.2, 2.5)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[DPSGDSettings], start: Array) -> Array:
        """Steps up to where averaging begins, then those that are averaged; both within the trusted kernel."""
        step_sizes = plan.settings.step_size * falling(plan.settings.n_steps, self.decay)
        last = mean = start
        for item in plan.planned:
            now, step_sizes = step_sizes[: item.query.n_steps], step_sizes[item.query.n_steps :]
            last, mean = oracle.ask(item, last, step_size=now)
        return mean if plan.settings.averaged else last

    def _default_time(self, setting: Setting, guarantee: Guarantee | None) -> float:
        """ηT: long enough for the start to be forgotten, short enough for the noise."""
        constants, mu = setting.constants, setting.constants.strong_convexity
        if guarantee is None:
            # The gap falls by 1/(1 + ημ) per step, over the steps that are not averaged.
            rate = math.log1p(mu / setting.smoothness)
            ratio = max(constants.initial_gap / _NOISELESS_GAP, 2.0)
            steps = 2.0 * math.log(ratio) / rate if rate > 0.0 else math.inf
            return min(steps, _NOISELESS_MAX_STEPS) / setting.smoothness
        distance = distance_bound(setting, self.nominal_distance)
        if mu > 0.0:
            distance = min(distance, math.sqrt(2.0 * constants.initial_gap / mu))
        variance = (1.0 + SAMPLING_TO_NOISE) * noise_floor(setting, guarantee)  # V/T
        share = self.averaging
        times = np.geomspace(1e-6, 1.0, 600) * self.max_steps / setting.smoothness
        forgotten = -np.expm1(-mu * (1.0 - share) * times)
        # The mean of the last aT steps: (1 − forgotten) D²/(2aηT) + V/T · (forgotten/(aμ) + ηT).
        spread = forgotten / (share * mu) if mu > 0.0 else (1.0 - share) / share * times
        bounds = (1.0 - forgotten) * distance**2 / (2.0 * share * times) + variance * (spread + times)
        return float(times[np.argmin(bounds)])
