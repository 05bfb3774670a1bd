"""DP-AGD: accelerated proximal gradient descent on noisy full gradients, the mean of whose iterates is released."""

import functools
import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dtbtrs

from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms import GradientQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile, Solver, StepSettings
from dperm.solvers.expected import nominal_length
from dperm.solvers.refusals import needs_convexity

# What a run without noise aims at, and how long it may take.
_NOISELESS_GAP = 1e-5
_NOISELESS_MAX_STEPS = 5_000
# Steps of all curvatures that a system has at most: it takes 130 bytes for each.
_STEPS_AT_ONCE = 2**17


@dataclass(frozen=True)
class DPAGD(Solver):
    """Noisy accelerated gradient descent for convex losses; every step is accounted for.

    From x_0 = z_0 = start, for t = 1 … T:

        y_t = (1 − θ_t) x_{t−1} + θ_t z_{t−1}
        z_t = prox_{(η/θ_t) r, C}(z_{t−1} − (η/θ_t)(∇F(y_t) + N(0, σ_t² I)))
        x_t = (1 − θ_t) x_{t−1} + θ_t z_t

    and the answer is the mean of x_1 … x_T with weights t²(T + 1 − t). Momentum makes noise oscillate, and the mean
    takes that out. Later steps get more of the budget. The bound and the reasons are in docs/proofs/accelerated.md.

    Parameters
    ----------
    n_steps : int, optional
        T. By default the T that minimises the bound of docs/proofs/accelerated.md.
    step_size : float, optional
        η, by default 1/L; the bound holds up to there.
    nominal_distance : float
        A public guess at ‖w* − start‖ · R, used where strong convexity or a domain gives no smaller bound. It steers T,
        not privacy.
    max_steps : int
        Cap on the default T, a matter of running time.

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.problem import L2, Logistic
    >>> from dperm.solvers import DPAGD
    >>> problem = Problem(Logistic(), L2(1e-4))
    >>> FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver=DPAGD()).plan(200_000, 54).privacy.n_steps
    633
    """

    n_steps: int | None = None
    step_size: float | None = None
    nominal_distance: float = 40.0
    max_steps: int = 2_000

    name = "dp-agd"
    listed = 6
    takes_start = True
    profile = Profile(
        summary="noisy accelerated gradient descent, averaged",
        source="Nesterov 1983, Lan 2012, with Gaussian noise whose budget grows along the path",
        table="none",
        utility="√p ‖w* − start‖/(nε) convex; p log(n)/(μn²ε²) strongly convex",
        gradients="n·T, T² = L‖w* − start‖ nε/√p; T = √κ log(n²ε²/p) strongly convex",
        regularizers="any, non-smooth ones by a proximal step; any domain",
        adjacency="certified for both",
        needs="convex smooth loss",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Momentum needs convexity."""
        return needs_convexity(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[StepSettings]:
        """Choose T; momentum and the shares of the budget follow from it."""
        n_steps, step_size = self._steps(setting, guarantee)
        path = accelerated_path(n_steps, step_size, setting.constants.strong_convexity)
        # With a share s of the budget a release has 1/√s times the noise that it would have alone.
        planned = tuple(PlannedQuery(GradientQuery(setting), 1, 1.0 / math.sqrt(share)) for share in path.shares)
        mechanism = f"dp-agd, T = {n_steps} noisy full-gradient steps, all of them accounted for"
        return Plan(mechanism, planned, StepSettings(n_steps, step_size))

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[StepSettings], start: Array) -> Array:
        """Ask at a mean of points of C, which lies in C, move and average."""
        step_size = plan.settings.step_size
        path = accelerated_path(len(plan.planned), step_size, problem.regularizer.strong_convexity)
        x = z = mean = start
        for item, theta, weight in zip(plan.planned, path.theta, path.weights, strict=True):
            step = step_size / theta
            z = problem.prox(z - step * oracle.ask(item, x + theta * (z - x)), step)
            x = x + theta * (z - x)
            mean = mean + weight * (x - start)
        return mean

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """What the steps do on the worst quadratic: far less than the bound, which ignores averaging."""
        n_steps, step_size = self._steps(setting, guarantee)
        constants = setting.constants
        curvatures = setting.smoothness * np.geomspace(1.0 / (3.0 * n_steps) ** 2, 1.0, 40)
        bias, noise = risk_on_quadratics(n_steps, step_size, constants.strong_convexity, curvatures)
        variance = constants.dimension * _release_variance(setting, guarantee)
        return float(self._distance(setting) ** 2 * bias.max() + variance * noise.max())

    def _steps(self, setting: Setting, guarantee: Guarantee | None) -> tuple[int, float]:
        """T and η."""
        step_size = self.step_size or 1.0 / setting.smoothness
        return self.n_steps or self._default_steps(setting, guarantee, step_size), step_size

    def _default_steps(self, setting: Setting, guarantee: Guarantee | None, step_size: float) -> int:
        """Where the bound on E[F^r(answer) − min F^r] is smallest, or without noise small enough."""
        constants = setting.constants
        tried = _tried(_NOISELESS_MAX_STEPS if guarantee is None else self.max_steps)
        far = 0.5 * self._distance(setting) ** 2
        variance = 0.0 if guarantee is None else constants.dimension * _release_variance(setting, guarantee)

        def bound(n_steps: int) -> float:
            bias, noise = _path_bound(n_steps, step_size, constants.strong_convexity)
            return far * bias + (variance * noise if variance else 0.0)

        def is_enough(place: int) -> bool:
            if guarantee is None:
                return bound(tried[place]) <= _NOISELESS_GAP
            # Bias falls with T and noise grows: the bound falls, then rises. A nan is never smaller.
            return not bound(tried[place + 1]) < bound(tried[place])

        return tried[bisect_left(range(len(tried) - 1), True, key=is_enough)]

    def _distance(self, setting: Setting) -> float:
        """What is taken for ‖w* − start‖: the least that the domain, strong convexity and the guess allow."""
        constants = setting.constants
        distances = [nominal_length(setting, self.nominal_distance)]
        if constants.strong_convexity > 0.0:
            # (μ/2)‖w* − start‖² ≤ F^r(start) − F^r(w*).
            distances.append(math.sqrt(2.0 * constants.initial_gap / constants.strong_convexity))
        return min(distances)


def _release_variance(setting: Setting, guarantee: Guarantee) -> float:
    """Variance of one coordinate of the mean gradient if it were the only release."""
    return (setting.domain_sensitivity / (setting.n * gaussian_mu(guarantee))) ** 2


@functools.lru_cache(maxsize=16)
def _tried(largest: int) -> list[int]:
    """Numbers of steps to choose from: near the best one the bound is flat."""
    return [int(t) for t in np.unique(np.geomspace(1, largest, 120).astype(int))]


@dataclass(frozen=True)
class Path:
    """Momentum, weights and shares of T accelerated steps, and what they make of distance and noise.

    Attributes
    ----------
    theta : array
        θ_1 … θ_T.
    weights : array
        c_1 … c_T, the weights of the mean.
    bias : float
        Σ c_t/A_t: the bound on the bias is half of it times ‖w* − start‖².
    noise : array
        ω_1 … ω_T: noise of variance σ_t² in every coordinate of step t adds at most ω_t p σ_t².
    shares : array
        s_1 … s_T: half of the budget in proportion to √ω_t, which makes the bound smallest, half to c_t, which is best
        in directions so curved that T steps are many.
    """

    theta: Array
    weights: Array
    bias: float
    noise: Array
    shares: Array


@functools.lru_cache(maxsize=1024)
def _path_bound(n_steps: int, step_size: float, strong_convexity: float) -> tuple[float, float]:
    """What the bound of a path makes of distance, and of one release's noise that is divided by its shares."""
    path = accelerated_path(n_steps, step_size, strong_convexity)
    return path.bias, float((path.noise / path.shares).sum())


# A path has arrays of so many steps.
@functools.lru_cache(maxsize=2)
def accelerated_path(n_steps: int, step_size: float, strong_convexity: float) -> Path:
    """Lay out T steps.

    Parameters
    ----------
    n_steps : int
        T.
    step_size : float
        η.
    strong_convexity : float
        μ.
    """
    steps = np.arange(1.0, n_steps + 1.0)
    weights = steps**2 * (n_steps + 1.0 - steps)
    weights /= weights.sum()
    # Of one list of momenta the first T are those of T steps: few lists serve every T that is tried.
    theta, inverse = (part[:n_steps] for part in _momenta(1 << (n_steps - 1).bit_length(), step_size, strong_convexity))
    # Σ_{k≥t} c_k A_t/A_k, which is c_t + (1 − θ_{t+1}) times the following one: a system of two diagonals.
    later, _ = dtbtrs(np.stack([theta - 1.0, np.ones(n_steps)]), weights[:, None], uplo="U", diag="U")
    noise = later[:, 0] * theta**2 / (inverse + strong_convexity)
    roots = np.sqrt(noise)
    return Path(theta, weights, float(weights @ inverse), noise, 0.5 * (roots / roots.sum() + weights))


@functools.lru_cache(maxsize=64)
def _momenta(n_steps: int, step_size: float, strong_convexity: float) -> tuple[Array, Array]:
    """θ_t and 1/A_t: θ_t² = η(1 − θ_t)(1/A_{t−1} + μ), 1/A_t = (1 − θ_t)/A_{t−1}, written so that nothing overflows.

    The number of steps is a power of 2, and the first half is that of half as many.
    """
    if n_steps == 1:
        return np.ones(1), np.array([1.0 / step_size])
    theta, inverse = (half.tolist() for half in _momenta(n_steps // 2, step_size, strong_convexity))
    last = inverse[-1]
    for _ in range(n_steps // 2):
        momentum = 2.0 / (1.0 + math.sqrt(1.0 + 4.0 / (step_size * (last + strong_convexity))))
        last *= 1.0 - momentum
        theta.append(momentum)
        inverse.append(last)
    return np.array(theta), np.array(inverse)


def risk_on_quadratics(
    n_steps: int, step_size: float, strong_convexity: float, curvatures: Array
) -> tuple[Array, Array]:
    """Expected risk in directions of these curvatures of F, with r = (μ/2)‖w‖²: from a unit distance, and from noise.

    The noise is that of one release of unit variance, divided by the path's shares. Both are exact, by the steps'
    recursion taken from the end.
    """
    if curvatures.size > 1 and curvatures.size * n_steps > _STEPS_AT_ONCE:
        halves = [
            risk_on_quadratics(n_steps, step_size, strong_convexity, half)
            for half in np.split(curvatures, [curvatures.size // 2])
        ]
        return np.concatenate([bias for bias, _ in halves]), np.concatenate([noise for _, noise in halves])
    path = accelerated_path(n_steps, step_size, strong_convexity)
    total = curvatures + strong_convexity
    # From the end, with s_t and x_t for how far the answer follows z and x around step t:
    #   s_t = kept_{t+1} s_{t+1} + θ_t(x_{t+1} + c_t),   x_t = (1 − θ_t)(x_{t+1} + c_t − bent_t s_t),
    # for every curvature a triangular system, all of them one.
    theta, weights = path.theta[::-1], path.weights[::-1]
    steps = step_size / (theta + strong_convexity * step_size)
    kept = np.outer(1.0 - step_size * curvatures, theta * steps / step_size)
    diagonals = np.zeros((3, curvatures.size, n_steps, 2))
    diagonals[1, :, :, 0] = np.outer(curvatures, (1.0 - theta) * steps)
    diagonals[1, :, :-1, 1] = -theta[1:]
    diagonals[2, :, :-1, 0] = -kept[:, :-1]
    diagonals[2, :, :-1, 1] = theta[1:] - 1.0
    known = np.tile(np.stack([theta * weights, (1.0 - theta) * weights], axis=1), (curvatures.size, 1, 1))
    solved, _ = dtbtrs(diagonals.reshape(3, -1), known.reshape(-1, 1), uplo="L", diag="U")
    of_gradients = steps * solved.reshape(known.shape)[:, :, 0]
    moved, noise = of_gradients.sum(axis=1), of_gradients**2 @ (1.0 / path.shares[::-1])
    return 0.5 * total * (1.0 - total * moved) ** 2, 0.5 * total * noise
