"""Random Round Private SGD of Zhang, Zheng, Mou and Wang 2017, for losses that need not be convex."""

from dataclasses import dataclass

import numpy as np

from dperm.mechanisms import StochasticStepsQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile, Solver, StepSettings
from dperm.solvers.descent.stochastic import (
    Schedule,
    expected_sigma,
    falling,
    schedule_without_convexity,
    step_size_without_convexity,
    step_variance,
)


@dataclass(frozen=True)
class RRPSGD(Solver):
    """Noisy SGD that stops after a random number of steps, and returns the iterate it has come to.

    The number of steps is drawn with probabilities in proportion to 2η_t − Lη_t², so the expected squared gradient norm
    of what is returned is the mean that the analysis bounds. All T steps are accounted for, and only those before the
    round that was drawn are run.

    Parameters
    ----------
    n_steps : int, optional
        T. By default what the bound asks for at η = 1/(4L); with noise="paper" it is n², as published.
    sampling_rate : float, optional
        q. By default so that the noise multiplier is about 1 or above; with noise="paper" it is 1/n, one row per step
        on average.
    step_size : float, optional
        η, below 2/L. By default √(2(F(w_0) − F*)/(LTV)) for a variance V of the steps, and at most 1/L.
    decay : float
        η_t = η t^−decay: 0 for constant steps, whose round is drawn uniformly.
    max_steps : int
        Cap on the default T, a matter of running time. n² beyond it is cut, as for BassilySGD.
    max_passes : float
        Cap on the default qT, in passes over the rows.

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.paper import RRPSGD
    >>> from dperm.problem import Sigmoid
    >>> fit = FitOptions(Problem(Sigmoid()), guarantee=Guarantee(1.0, 1e-6), solver=RRPSGD(n_steps=100)).plan(10_000, 5)
    >>> fit.calibrated.plan.n_steps
    100
    """

    n_steps: int | None = None
    sampling_rate: float | None = None
    step_size: float | None = None
    decay: float = 0.0
    max_steps: int = 10_000_000
    max_passes: float = 100.0

    name = "rrpsgd"
    listed = 13
    takes_start = True
    profile = Profile(
        summary="noisy SGD that stops at a random round",
        source="Zhang, Zheng, Mou and Wang 2017, after Ghadimi and Lan 2013",
        table="Zhang et al. 2017, non-convex (section 6 compares with it)",
        utility="√p log(n)/(nε) for the squared gradient norm",
        gradients="n² as published",
        regularizers="any, non-smooth ones by a proximal step; any domain; the bound is for none of either",
        adjacency="published for replace_one; certified for both",
        needs="smooth loss, convex or not",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Every problem that dperm can state is smooth."""
        return None

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[StepSettings]:
        """Choose T, q and η."""
        return self.plan_with(
            setting,
            schedule_without_convexity(
                setting, guarantee, self.n_steps, self.sampling_rate, self.max_steps, self.max_passes
            ),
        )

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[StepSettings], start: Array) -> Array:
        """Draw the round R, take the R − 1 steps before it, return w_{R−1}."""
        (item,) = plan.planned
        step_sizes = plan.settings.step_size * falling(item.query.n_steps, self.decay)
        weights = np.cumsum(step_sizes * (2.0 - item.query.setting.smoothness * step_sizes))
        n_before = int(np.searchsorted(weights, oracle.public_coin.random() * weights[-1], side="right"))
        if n_before == 0:
            return start
        last: Array = oracle.ask(item, start, step_size=step_sizes[:n_before])[0]
        return last

    def gradient_bound(self, setting: Setting, guarantee: Guarantee) -> float:
        """[2(F(w_0) − F*) + LV Ση_t²] / Σ(2η_t − Lη_t²), V the variance of a step's direction."""
        plan = self.plan(setting, guarantee)
        query = plan.planned[0].query
        sigma = expected_sigma(setting, guarantee, query.sampling_rate, query.n_steps)
        variance = step_variance(setting, query.sampling_rate, sigma)
        sizes, smoothness = plan.settings.step_size * falling(query.n_steps, self.decay), setting.smoothness
        spread = smoothness * variance * float((sizes**2).sum())
        return (2.0 * setting.constants.initial_gap + spread) / float((sizes * (2.0 - smoothness * sizes)).sum())

    def plan_with(self, setting: Setting, schedule: Schedule) -> Plan[StepSettings]:
        """T steps at sampling rate q, with the step size for this noise."""
        n_steps, rate, _ = schedule
        step_size = step_size_without_convexity(setting, schedule, self.decay, self.step_size)
        mechanism = f"rrpsgd, up to T = {n_steps} noisy stochastic gradient steps at sampling rate {rate:.3g}"
        planned = PlannedQuery(StochasticStepsQuery(setting, rate, n_steps))
        return Plan(mechanism, (planned,), StepSettings(n_steps, step_size))
