"""What the stochastic gradient methods share: how many rows a step samples, and the noise that is to be expected.

The defaults come from n, p, ε, δ and the problem's constants; docs/proofs/stochastic_gradient.md derives them.
"""

import math
from typing import NamedTuple

import numpy as np

from dperm.accounting.central_limit import central_limit_multiplier, central_limit_rate
from dperm.accounting.curve import gaussian_mu
from dperm.errors import InvalidParameterError
from dperm.mechanisms import StochasticStepsQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.base import Array
from dperm.solvers.expected import length_unit, noise_floor

# A batch's variance, G²/(qn) at most and in practice several times smaller, may be this multiple of the noise's.
SAMPLING_TO_NOISE = 3.0

# Without convexity default steps are 1/(4L): the bound is then within 1/7 of what ever smaller ones and ever more of
# them reach.
_SHORTER = 4.0

# Full gradients of a run without noise and without convexity.
_NOISELESS_STEPS = 10_000


class Schedule(NamedTuple):
    """How many steps, at which sampling rate, and about the noise of each."""

    n_steps: int
    rate: float
    sigma: float


def rate_for(setting: Setting, guarantee: Guarantee, n_steps: int, max_passes: float) -> float:
    """The sampling rate of T steps: enough rows for the noise that there is, a multiplier of about 1, and the time.

    By the central limit theorem the noise on a step's mean is √T Δ/(nμ) whatever the rate, until the multiplier comes
    below about 1; smaller rates would only add noise.
    """
    lowest = central_limit_rate(1.0, gaussian_mu(guarantee) ** 2 / n_steps, setting.adjacency)
    # (1 − q)/q · G²/n is that multiple of pTv.
    noise = SAMPLING_TO_NOISE * setting.n * n_steps * noise_floor(setting, guarantee)
    quiet = 1.0 / (1.0 + noise / setting.constants.lipschitz**2)
    return min(1.0, max(1.0 / setting.n, min(max(lowest, quiet), max_passes / n_steps)))


def expected_sigma(setting: Setting, guarantee: Guarantee, rate: float, n_steps: int) -> float:
    """About the noise that calibration will find. Step sizes rest on it, the privacy cost does not."""
    multiplier = central_limit_multiplier(rate, gaussian_mu(guarantee) ** 2 / n_steps, setting.adjacency)
    return multiplier * StochasticStepsQuery(setting, rate, n_steps).sensitivity


def step_variance(setting: Setting, rate: float, sigma: float) -> float:
    """A bound on the variance of a step's direction: (1 − q) G²/(qn) by sampling, pσ² by noise."""
    sampling = (1.0 - rate) * setting.constants.lipschitz**2 / (rate * setting.n)
    return sampling + setting.constants.dimension * sigma**2


def distance_bound(setting: Setting, nominal_distance: float) -> float:
    """A bound on ‖w* − start‖: the domain's, or where that is infinite a public guess."""
    constants = setting.constants
    if math.isfinite(constants.diameter):
        return constants.diameter
    return nominal_distance * length_unit(setting)


def schedule_without_convexity(
    setting: Setting, guarantee: Guarantee | None, n_steps: int | None, rate: float | None, max_steps: int,
    max_passes: float,
) -> Schedule:  # fmt: skip
    """T and q where they were not given: T so that the best η is 1/(4L), for a variance of (1 + sampling/noise) pTv."""
    if guarantee is None:
        return Schedule(n_steps or _NOISELESS_STEPS, rate or 1.0, 0.0)
    if n_steps is None:
        floor = (1.0 + SAMPLING_TO_NOISE) * noise_floor(setting, guarantee)
        best = _SHORTER * math.sqrt(2.0 * setting.constants.initial_gap * setting.smoothness / floor)
        n_steps = int(min(max(1.0, best), max_steps))
    rate = rate or rate_for(setting, guarantee, n_steps, max_passes)
    return Schedule(n_steps, rate, expected_sigma(setting, guarantee, rate, n_steps))


def step_size_without_convexity(setting: Setting, schedule: Schedule, decay: float, given: float | None) -> float:
    """The step size for this noise, at most 1/L, or the one that was given."""
    smoothness, n_steps = setting.smoothness, schedule.n_steps
    # [2 gap + LV Ση_t²]/Σ(2η_t − Lη_t²), but for Lη_t² below, is smallest where LV Ση_t² is 2 gap.
    variance = step_variance(setting, schedule.rate, schedule.sigma)
    spread = smoothness * variance * float((falling(n_steps, decay) ** 2).sum())
    longest = math.sqrt(2.0 * setting.constants.initial_gap / spread) if spread > 0.0 else math.inf
    step_size = given or min(1.0 / smoothness, longest)
    if step_size * smoothness >= 2.0:
        raise InvalidParameterError(f"step_size must be below 2/L = {2.0 / smoothness:g}, got {step_size:g}.")
    return step_size


def falling(n_steps: int, decay: float) -> Array:
    """η_t/η = t^−decay."""
    return np.arange(1.0, n_steps + 1.0) ** -decay
