"""Appendix B.1 of the paper: advanced composition with amplification by sampling (docs/proofs/advanced_composition.md).

The constants are explicit and the conditions are checked. It is looser than numerical accounting, and it is here to
be compared with.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dperm.accounting.calibration import Calibratable
from dperm.accounting.events import Event, Gaussian, NotPrivate, PoissonSampledGaussian
from dperm.errors import UnsupportedProblemError
from dperm.privacy.guarantee import Adjacency, Guarantee

# Lemma B.1 makes 2γε' of ε' only up to this ε', and the classical Gaussian formula is stated up to it.
LARGEST_BASE_EPSILON = 1.0


@dataclass(frozen=True)
class Steps:
    """Answers of one kind: how many, at which rate they sample, and their ε' on the rows that were drawn."""

    count: int
    sampling_rate: float
    base_epsilon: float

    @property
    def epsilon(self) -> float:
        """ε of one answer: 2γε' by Lemma B.1, and never more than ε', as sampling does not hurt."""
        return min(1.0, 2.0 * self.sampling_rate) * self.base_epsilon


def advanced_composition_epsilon(event: Event, delta: float, adjacency: Adjacency) -> float:
    """ε at this δ as Appendix B.1 computes it, rounded up.

    Half of δ is the slack of advanced composition; the other half is shared equally by all answers.

    Parameters
    ----------
    event : Event
        What ran: Gaussians and Poisson-sampled Gaussians.
    delta : float
        The δ to evaluate at.
    adjacency : Adjacency
        The neighbouring relation.

    Raises
    ------
    UnsupportedProblemError
        If ε' > 1 for some answer: then Lemma B.1 says nothing.
    """
    if isinstance(event, NotPrivate):
        return math.inf
    steps = _steps(event, delta, adjacency)
    worst = max(steps, key=lambda kind: kind.base_epsilon)
    if worst.base_epsilon > LARGEST_BASE_EPSILON:
        raise UnsupportedProblemError(
            "advanced composition (Appendix B.1) does not apply: its Lemma B.1 needs ε' ≤ 1 on the rows of a step, and "
            f"this noise gives ε' = {worst.base_epsilon:.4g} at sampling rate {worst.sampling_rate:.4g}; use larger "
            "batches with more noise, or accountant='pld'."
        )
    return _composed(steps, delta)


def advanced_composition_noise(plan: Calibratable[object], guarantee: Guarantee) -> float:
    """The noise multiplier that the recipe of Appendix B.1 asks for: the one at which its ε is the target.

    Parameters
    ----------
    plan : Plan
        What will be asked.
    guarantee : Guarantee
        What must hold.

    Raises
    ------
    UnsupportedProblemError
        If ε' > 1 at that noise. More noise would satisfy the lemma, but it would no longer be the recipe's: the error
        says from which sampling rate on the recipe holds.
    """
    delta = guarantee.delta
    unit = _steps(plan.event(1.0), delta, plan.adjacency)  # ε' is inversely proportional to the noise
    # Without its second term ε would be the target at this noise; so the answer is at least as large.
    low = _first_order(unit, delta) / guarantee.epsilon
    high = 2.0 * low
    while _composed(_with_noise(unit, high), delta) > guarantee.epsilon:
        high *= 2.0
    for _ in range(60):  # ends at neighbouring floats; the upper one keeps the promise
        middle = 0.5 * (low + high)
        if _composed(_with_noise(unit, middle), delta) > guarantee.epsilon:
            low = middle
        else:
            high = middle
    worst = max(_with_noise(unit, high), key=lambda kind: kind.base_epsilon)
    if worst.base_epsilon > LARGEST_BASE_EPSILON:
        # The target fixes 2γε', so ε' falls as 1/γ until at γ = 1/2 sampling no longer helps.
        rate = worst.sampling_rate * worst.base_epsilon
        rows = plan.n
        remedy = f"sample at a rate of about {rate:.3g} or more ({math.ceil(rate * rows)} of {rows} rows per step)"
        raise UnsupportedProblemError(
            f"advanced composition (Appendix B.1) cannot give ε = {guarantee.epsilon:g} here: its Lemma B.1 needs "
            f"ε' ≤ 1 on the rows of a step, and its noise gives ε' = {worst.base_epsilon:.4g} at sampling rate "
            f"{worst.sampling_rate:.4g}; {remedy if rate <= 0.5 else 'ask for a smaller epsilon'}, or use "
            "accountant='pld'."
        )
    return high


def _steps(event: Event, delta: float, adjacency: Adjacency) -> list[Steps]:
    parts = list(event.leaves())
    per_answer = 0.5 * delta / sum(count for _, count in parts)
    steps = []
    for leaf, count in parts:
        if not isinstance(leaf, Gaussian | PoissonSampledGaussian):
            raise UnsupportedProblemError("advanced composition covers Gaussian noise only; use accountant='pld'.")
        rate = leaf.sampling_probability
        # Sampling makes γδ' of δ'. The classical formula is proved for δ' ≤ 1/2.
        base_delta = min(0.5, per_answer / rate)
        noise = leaf.noise_multiplier / adjacency.records_moved
        # σ/Δ = sqrt(2 ln(1.25/δ'))/ε', the paper's σ² ≥ c₁ G² log(1/δ')/ε'² with its constant.
        steps.append(Steps(count, rate, math.sqrt(2.0 * math.log(1.25 / base_delta)) / noise))
    return steps


def _with_noise(unit: Sequence[Steps], noise_multiplier: float) -> list[Steps]:
    return [replace(kind, base_epsilon=kind.base_epsilon / noise_multiplier) for kind in unit]


def _composed(steps: Sequence[Steps], delta: float) -> float:
    """sqrt(2 ln(2/δ) Σ k ε_i²) + Σ k ε_i (e^ε_i − 1), rounded up."""
    # Where e^ε_i leaves the floats, ε' is far above 1 and the answer is refused.
    second = sum(kind.count * kind.epsilon * math.expm1(min(kind.epsilon, 500.0)) for kind in steps)
    return (_first_order(steps, delta) + second) * (1.0 + 1e-12)


def _first_order(steps: Sequence[Steps], delta: float) -> float:
    return math.sqrt(2.0 * math.log(2.0 / delta) * sum(kind.count * kind.epsilon**2 for kind in steps))
