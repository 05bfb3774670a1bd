"""Gradient descent with output perturbation, Zhang, Zheng, Mou and Wang 2017."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms import DescentOutputQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import FEWEST_STEPS, HiddenPath, Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile, Solver, StepSettings
from dperm.solvers.descent.dp_gd import noiseless_steps
from dperm.solvers.expected import moved_risk, nominal_length, typical_length
from dperm.solvers.perturbation.tolerance import needs_a_stable_minimiser

# How much smaller than the noise the remaining gap should be.
_FINISHED = 0.01


@dataclass(frozen=True)
class ZhangOutput(Solver):
    """T exact proximal gradient steps, then Gaussian noise on the last iterate.

    Parameters
    ----------
    n_steps : int, optional
        T. By default, for a strongly convex problem, as many as bring the gap below a hundredth of what the noise
        costs; for a convex one, whose sensitivity grows with T, the T that minimises the bound.
    step_size : float, optional
        η, by default 1/L.
    nominal_distance : float
        A public guess at ‖w* − start‖ · R where neither strong convexity nor a domain bounds it. It steers T,
        not privacy.
    max_steps : int
        Cap on the default T, a matter of running time.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import ZhangOutput
    >>> PrivateLogisticRegression(epsilon=1.0, solver=ZhangOutput()).plan(200_000, 54).passes > 100
    True
    """

    n_steps: int | None = None
    step_size: float | None = None
    nominal_distance: float = 10.0
    max_steps: int = 20_000

    name = "zhang-output"
    listed = 12
    profile = Profile(
        summary="exact gradient descent with Gaussian noise on its last iterate",
        source="Zhang, Zheng, Mou and Wang 2017, Algorithm 1; with the tight sensitivity",
        table="Tables 1 and 2, Zhang et al.",
        utility="p/(μ²n²ε²) strongly convex; (√p/(nε))^(2/3) convex",
        gradients="n κ log(nε/κ) strongly convex; n (nε/√p)^(2/3) convex",
        regularizers="published without; here any with an exact proximal step, and any domain",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Two runs of descent on neighbouring datasets must stay close."""
        return needs_a_stable_minimiser(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[StepSettings]:
        """Choose T and η."""
        step_size = self.step_size or 1.0 / setting.smoothness
        n_steps = self.n_steps or self._default_steps(setting, guarantee, step_size)
        query = DescentOutputQuery(setting, n_steps, step_size)
        mechanism = f"zhang-output, T = {n_steps} exact full-gradient steps, noise on the last iterate only"
        return Plan(mechanism, (PlannedQuery(query),), StepSettings(n_steps, step_size))

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """What noise on the last iterate does, and without strong convexity what descent leaves, D²/(2ηT)."""
        plan = self.plan(setting, guarantee)
        sigma = plan.planned[0].query.sensitivity / gaussian_mu(guarantee)
        noise = moved_risk(setting, setting.constants.dimension * sigma**2)
        if setting.constants.strong_convexity > 0.0:
            return noise
        time = plan.settings.n_steps * plan.settings.step_size
        return noise + typical_length(setting, guarantee) ** 2 / (2.0 * time)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[StepSettings], start: Array) -> Array:
        """The descent runs within the trusted kernel; projecting what the noise moved is post-processing."""
        return problem.domain.project(oracle.ask(plan.planned[0], start))

    def _default_steps(self, setting: Setting, guarantee: Guarantee | None, step_size: float) -> int:
        constants = setting.constants
        if guarantee is None:
            return noiseless_steps(setting, step_size)
        rate = math.log1p(step_size * constants.strong_convexity)  # a step divides the gap by e^rate
        steps = np.unique(np.geomspace(1, self.max_steps, 400).astype(int))
        sigma = _sensitivities(setting, steps, step_size, rate) / gaussian_mu(guarantee)
        # Noise on a smooth and Lipschitz function costs at most this, on average.
        root = math.sqrt(constants.dimension) * sigma
        noise = np.minimum(0.5 * setting.smoothness * root**2, constants.lipschitz * root)
        if rate > 0.0:
            done = constants.initial_gap * np.exp(-rate * steps) <= _FINISHED * noise
            return int(steps[done.argmax()]) if done.any() else self.max_steps
        distance = nominal_length(setting, self.nominal_distance)
        return int(steps[np.argmin(distance**2 / (2.0 * step_size * steps) + noise)])


def _sensitivities(setting: Setting, steps: NDArray[np.int64], step_size: float, rate: float) -> Array:
    """`DescentOutputQuery.sensitivity` for many T at once, of which the rounding grows along straight lines."""
    ends = [FEWEST_STEPS, max(int(steps[-1]), FEWEST_STEPS + 1)]
    rounding = np.interp(steps, ends, [HiddenPath(setting, n_steps, step_size).rounding for n_steps in ends])
    shift = step_size * (setting.sum_sensitivity / setting.n + rounding)
    total = shift * (-np.expm1(-rate * steps) / math.expm1(rate) if rate > 0.0 else steps)
    return np.minimum(total, setting.constants.diameter or math.inf)
