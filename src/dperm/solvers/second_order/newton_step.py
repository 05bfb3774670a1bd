"""What the second-order methods share: released Hessians, cleaned of what is known about their noise, and Newton steps.

All that happens to an answer here is post-processing. The noise of every answer is public, and so is used.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from dperm.accounting.curve import gaussian_mu
from dperm.errors import InvalidParameterError
from dperm.mechanisms import HessianQuery, LocalGradientQuery
from dperm.mechanisms.hessian import LARGEST_HESSIAN
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.domains import Domain, L2Ball, WholeSpace
from dperm.problem.losses import Squared
from dperm.problem.regularizers import L2, NoRegularizer
from dperm.solvers.base import Array, Oracle, Solver
from dperm.solvers.expected import noise_risk, ridge_bias, typical_length
from dperm.solvers.refusals import needs_convexity, needs_one_margin

# Eigenvalues are kept above this share of the largest one, also without noise.
_FLATTEST = 1e-10

# Of later Hessians: how much more of the budget each gets than the one before it.
_HESSIAN_GROWTH = 3.0


@dataclass(frozen=True)
class SecondOrderSettings:
    """What a second-order method decided; `noisy` is False for a run without noise."""

    n_steps: int
    longest_step: float
    noisy: bool = field(default=True, repr=False)


@dataclass(frozen=True)
class SecondOrderSolver(Solver):
    """Settings common to the second-order methods; see a concrete one for what they do.

    Parameters
    ----------
    n_steps : int
        K, the number of noisy gradients.
    n_hessians : int
        How many of the steps, spread evenly from the first on, ask for a new Hessian.
    hessian_share : float
        Share of the budget for Hessians, within [1e-6, 1 − 1e-6].
    gradient_growth : float
        How much more of the budget every gradient gets than the one before it, within [1e-3, 1e3]: the last decides.
    nominal_distance : float
        No step is longer, in units of G/(4L), which is 1/R for logistic loss; half of it is the guess at ‖w*‖ of
        `expected_risk`. It has no weight for privacy.
    """

    n_steps: int = 6
    n_hessians: int = 3
    hessian_share: float = 0.1
    gradient_growth: float = 4.0
    nominal_distance: float = 10.0

    # Of a run without noise, which asks for a Hessian at every step.
    noiseless_steps: ClassVar[int] = 100

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        if self.n_hessians > self.n_steps:
            raise InvalidParameterError(f"n_hessians must be at most n_steps = {self.n_steps}, got {self.n_hessians}.")
        if abs((self.n_steps - 1) * math.log(self.gradient_growth)) > math.log(1e12) + 1e-9:
            raise InvalidParameterError(
                f"with gradient_growth = {self.gradient_growth:g} the budgets of {self.n_steps} gradients would differ "
                "more than 1e12-fold; use fewer steps or a gradient_growth nearer to 1."
            )

    def refusal(self, problem: Problem) -> str | None:
        """A convex loss of one margin, and what the quadratic model can be minimised with in closed form."""
        reason = needs_one_margin(problem) or needs_convexity(problem)
        if reason is None and not isinstance(problem.regularizer, NoRegularizer | L2):
            reason = f"it takes the ridge L2 or no regularizer, not {problem.regularizer.name}."
        if reason is None and not isinstance(problem.domain, WholeSpace | L2Ball):
            reason = f"it takes the whole space or an l2 ball, not {problem.domain.name}."
        return reason

    def refusal_at(self, setting: Setting, guarantee: Guarantee) -> str | None:
        """A Hessian must be small enough to hold."""
        size = setting.constants.dimension
        if size <= LARGEST_HESSIAN:
            return None
        return f"it needs a Hessian, which has {size}² entries here and is not released beyond {LARGEST_HESSIAN}²."

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[SecondOrderSettings]:
        """Divide μ² of Gaussian DP exactly: answers with multipliers ν_j cost Σ 1/ν_j²."""
        longest = self._longest_step(setting)
        if guarantee is None:
            steps = self.noiseless_steps
            planned = (PlannedQuery(HessianQuery(setting), steps), PlannedQuery(LocalGradientQuery(setting), steps))
            return Plan(f"{self.name} without noise", planned, SecondOrderSettings(steps, longest, noisy=False))
        self.check_at(setting, guarantee)
        mu = gaussian_mu(guarantee)
        hessians = tuple(
            PlannedQuery(HessianQuery(setting), 1, 1.0 / (mu * math.sqrt(self.hessian_share * part)))
            for part in _growing(_HESSIAN_GROWTH, self.n_hessians)
        )
        gradients = tuple(
            PlannedQuery(LocalGradientQuery(setting), 1, 1.0 / (mu * math.sqrt((1.0 - self.hessian_share) * part)))
            for part in _growing(self.gradient_growth, self.n_steps)
        )
        mechanism = (
            f"{self.name}, {self.n_hessians} noisy Hessian(s) and {self.n_steps} noisy gradients, all accounted for"
        )
        return Plan(mechanism, (*hessians, *gradients), SecondOrderSettings(self.n_steps, longest))

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[SecondOrderSettings], start: Array) -> Array:
        """Newton steps on released quadratic models."""
        ridge, longest = problem.regularizer.strong_convexity, plan.settings.longest_step
        n_steps, noisy = plan.settings.n_steps, plan.settings.noisy
        if noisy:
            hessians, gradients = plan.planned[: self.n_hessians], plan.planned[self.n_hessians :]
        else:
            hessians, gradients = plan.planned[:1] * n_steps, plan.planned[1:] * n_steps
        fresh = {step * n_steps // len(hessians): item for step, item in enumerate(hessians)}
        # How fast Hessians change: by a share R‖d‖ over a way d, as at most in logistic regression.
        bend = 0.0 if isinstance(problem.loss, Squared) else self.nominal_distance / longest
        w, asked = start, []
        for step, item in enumerate(gradients):
            if step in fresh:
                matrix = oracle.ask(fresh[step], w)
                blur = fresh[step].relative_noise * fresh[step].query.sensitivity if noisy else 0.0
                curvature = Curvature.of(matrix, blur)
            gradient, sigma = oracle.ask(item, w), 0.0
            if noisy:
                asked.append(Slope(w, gradient, _gradient_noise(item, w)))
                gradient, sigma = pooled(asked, w, matrix, blur, bend)
            ahead = curvature.minimiser(w, gradient, ridge, sigma, problem.domain)
            length = float(np.linalg.norm(ahead - w))
            # On the ball too: it is convex, so a shorter step stays within.
            w = problem.domain.project(w + min(1.0, longest / max(length, 1e-300)) * (ahead - w))
        return w

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """Noise of the last gradient, and what the steps before it leave, on a flat spectrum of half the largest trace.

        With curvature h + λ in all p directions a gradient of noise σ costs N = pσ²/(2(h + λ)), more where curvature is
        uneven, down to what the Hessian's own noise leaves visible. Shrinkage by the right
        prior makes that N·P/(N + P), P = what w = 0 costs: (h + λ)D²/2 for ‖w*‖ = D, or the bound on the initial gap if
        that is less. The Hessian's noise has spectral radius s√2; a step leaves about s/(s + h + λ) of an error.
        """
        constants, p = setting.constants, setting.constants.dimension
        distance = min(constants.diameter / 2.0, self._longest_step(setting) / 2.0)
        planned = self.plan(setting, guarantee).planned
        last, hessian = planned[-1], planned[self.n_hessians - 1]
        curvature = constants.smoothness / (2.0 * p) + constants.strong_convexity
        sigma = last.relative_noise * LocalGradientQuery(setting).sensitivity_at_norm(distance)
        spread = _noise_radius(hessian.relative_noise * hessian.query.sensitivity, p)
        visible = constants.strong_convexity + spread
        noise = max(p * sigma**2 / (2.0 * curvature), noise_risk(setting, p * sigma**2, visible))
        start = min(0.5 * curvature * distance**2, constants.initial_gap)
        left = start * (spread / (spread + curvature)) ** (2 * (self.n_steps - 1))
        # K steps see of directions that are flatter than this noise what a ridge of a K-th of it leaves.
        hidden = spread / self.n_steps
        unseen = ridge_bias(setting, hidden, typical_length(setting, guarantee))
        shrunk_noise = noise * start / (noise + start) if noise + start > 0.0 else 0.0
        return min(shrunk_noise + left + unseen, start + noise)

    def _longest_step(self, setting: Setting) -> float:
        # In units of G/(4L), which is 1/R for logistic loss. Over a way G/L a slope can change from 0 to its largest,
        # so a Hessian says little about what lies further away.
        constants = setting.constants
        return self.nominal_distance * constants.lipschitz / (4.0 * constants.smoothness)


@dataclass(frozen=True, eq=False)
class Slope:
    """A released gradient: where, what, and its noise."""

    w: Array
    gradient: Array
    sigma: float


def pooled(asked: Sequence[Slope], w: Array, matrix: Array, blur: float, bend: float) -> tuple[Array, float]:
    """The gradient at w from all that were released, moved there by the released Hessian, and its noise.

    A gradient that comes a way d has, in every coordinate, its own variance, that of the Hessian's noise times d, which
    is ½ blur²‖d‖², and a share bend·‖d‖ of the way's effect, for a Hessian that changes. Each counts by the inverse.
    """
    moved, precision = [], []
    for slope in asked:
        way = w - slope.w
        effect, length = matrix @ way, float(np.linalg.norm(way))
        changed = min(1.0, bend * length) * float(np.linalg.norm(effect))
        moved.append(slope.gradient + effect)
        precision.append(1.0 / (slope.sigma**2 + 0.5 * (blur * length) ** 2 + changed**2 / w.size))
    return np.average(moved, axis=0, weights=precision), 1.0 / math.sqrt(sum(precision))


@dataclass(frozen=True, eq=False)
class Curvature:
    """A released Hessian by its eigenvalues, all above 0, and eigenvectors."""

    values: Array
    basis: Array

    @classmethod
    def of(cls, matrix: Array, sigma: float) -> "Curvature":
        """Clean a released matrix of its noise, which is N(0, σ²) on symmetric matrices.

        Eigenvalues are drawn towards their mean, which is known well: by as much of their spread as the noise explains.
        One that lies d above it, beyond the edge of the noise, 2s = σ√(2p), stays at least √(d² − 4s²) above: taken for
        less, its direction would be overshot. Then all are kept above s, half that edge, in proportion to what was kept
        of the spread, and above twice the noise of their mean, 2σ/√p.
        """
        values, basis = np.linalg.eigh(matrix)
        p, mean = values.size, max(float(values.mean()), 0.0)
        spread, from_noise = float(((values - mean) ** 2).sum()), 0.5 * sigma**2 * (p - 1) * (p + 2)
        kept = max(0.0, 1.0 - from_noise / spread) if spread > 0.0 else 0.0
        above = np.maximum(values - mean, 0.0)
        outlying = np.sqrt(np.maximum(above**2 - 4.0 * _noise_radius(sigma, p) ** 2, 0.0))
        values = mean + np.maximum(kept * (values - mean), np.where(outlying > 0.0, outlying, -np.inf))
        smallest = max(kept * _noise_radius(sigma, p), 2.0 * sigma / math.sqrt(p), _FLATTEST * float(values.max()))
        return cls(np.maximum(values, max(smallest, 1e-100)), basis)

    def minimiser(self, w: Array, gradient: Array, ridge: float, sigma: float, domain: Domain) -> Array:
        """Where the model ⟨g, u⟩ + ½‖u − w‖²_H + (ridge/2)‖u‖² is least over C, shrunk by what noise explains.

        Parameters
        ----------
        w, gradient : arrays
            The point, and the gradient of F that was released there.
        ridge : float
            λ of the problem.
        sigma : float
            Noise of the gradient.
        domain : Domain
            The whole space or an l2 ball.
        """
        bent = self.values + ridge
        found = (self.values * (self.basis.T @ w) - self.basis.T @ gradient) / bent
        if sigma > 0.0:
            found = shrunk(found, (sigma / bent) ** 2)
        if isinstance(domain, L2Ball):
            found = _within(found, bent, domain.radius)
        return np.asarray(self.basis @ found)


def shrunk(found: Array, variance: Array) -> Array:
    """Posterior means of numbers that were seen with noise of known variance, for a common normal prior around 0.

    The prior's variance is the one under which what was seen is most likely (empirical Bayes).
    """
    largest = float((found**2).max())
    if largest == 0.0:
        return found
    prior = largest * np.geomspace(1e-8, 10.0, 400)[:, None]
    unlikely = (np.log(prior + variance) + found**2 / (prior + variance)).sum(axis=1)
    best = prior[int(unlikely.argmin()), 0]
    return np.asarray(found * (best / (best + variance)))


def _within(found: Array, bent: Array, radius: float) -> Array:
    """The minimiser over the ball of a quadratic with curvatures `bent` and free minimiser `found`."""
    if float(np.linalg.norm(found)) <= radius:
        return found
    # argmin ½Σ bent (u − found)² over the ball is bent · found/(bent + ν) for the ν ≥ 0 that brings it to the sphere.
    pull = bent * found

    def excess(log_multiplier: float) -> float:
        return float(np.linalg.norm(pull / (bent + math.exp(log_multiplier)))) / radius - 1.0

    top = math.log(float(np.linalg.norm(pull)) / radius) + 1e-9  # there even a flat quadratic would be inside
    bottom = top
    while excess(bottom) < 0.0 and bottom > -690.0:
        bottom -= 2.0
    return np.asarray(pull / (bent + math.exp(brentq(excess, bottom, top) if bottom > -690.0 else bottom)))


def _gradient_noise(item: PlannedQuery, w: Array) -> float:
    """σ of a planned gradient at w: plans of Gaussians alone are calibrated to a common multiplier of 1."""
    query = item.query
    if not isinstance(query, LocalGradientQuery):
        raise InvalidParameterError("the plan is not one of a second-order method.")
    return item.relative_noise * query.sensitivity_at(w)


def _noise_radius(sigma: float, p: int) -> float:
    """Half the spectral radius of noise N(0, σ²) on symmetric p × p matrices, by Wigner's semicircle."""
    return sigma * math.sqrt(p / 2.0)


def _growing(growth: float, n: int) -> list[float]:
    """Shares that add up to 1, every one so much larger than the one before it."""
    parts = [growth**k for k in range(n)]
    return [part / sum(parts) for part in parts]
