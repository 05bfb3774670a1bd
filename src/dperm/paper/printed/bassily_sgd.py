"""Noisy SGD with the noise of Bassily, Smith and Thakurta 2014, in their n² steps."""

import math

from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.registry import published
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.descent.bassily_sgd import BassilySGD


@published(BassilySGD)
def algorithm_1(solver: BassilySGD, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """n² steps of one row each on average, and the published noise."""
    n_steps = solver.n_steps or min(setting.n**2, solver.max_steps)
    rate = solver.sampling_rate or 1.0 / setting.n
    sigma = bassily_sigma(setting, guarantee, rate, n_steps)
    plan = solver.plan_with(setting, n_steps, rate, sigma)
    return CalibratedPlan(plan, sigma / plan.planned[0].query.sensitivity)


def bassily_sigma(setting: Setting, guarantee: Guarantee, rate: float, n_steps: int) -> float:
    """Noise on a step's mean gradient after Bassily, Smith and Thakurta 2014, for T steps at rate q.

    They have σ² = 32 G² n² ln(n/δ) ln(1/δ)/ε² on n times one row's gradient, T = n² and q = 1/n. Their derivation gives
    32 G² T ln(qT/δ) ln(1/δ)/(nε)² on the mean.
    """
    delta, epsilon = guarantee.delta, guarantee.epsilon
    log_terms = math.log(max(rate * n_steps, 1.0) / delta) * math.log(1.0 / delta)
    return setting.constants.lipschitz * math.sqrt(32.0 * n_steps * log_terms) / (setting.n * epsilon)
