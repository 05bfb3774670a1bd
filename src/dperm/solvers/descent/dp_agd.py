"""DP-AGD: accelerated proximal gradient descent on noisy full gradients, the mean of whose iterates is released."""

import functools
import math
from dataclasses import dataclass

import numpy as np

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
        step_size = self.step_size or 1.0 / setting.smoothness
        n_steps = self.n_steps or self._default_steps(setting, guarantee, step_size)
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
        plan = self.plan(setting, guarantee)
        n_steps, step_size = plan.settings.n_steps, plan.settings.step_size
        constants = setting.constants
        curvatures = setting.smoothness * np.geomspace(1.0 / (3.0 * n_steps) ** 2, 1.0, 40)
        bias, noise = risk_on_quadratics(n_steps, step_size, constants.strong_convexity, curvatures)
        variance = constants.dimension * _release_variance(setting, guarantee)
        return float(self._distance(setting) ** 2 * bias.max() + variance * noise.max())

    def _default_steps(self, setting: Setting, guarantee: Guarantee | None, step_size: float) -> int:
        if guarantee is None:
            enough = (
                t for t in _tried(_NOISELESS_MAX_STEPS) if self._bound(setting, None, t, step_size) <= _NOISELESS_GAP
            )
            return next(enough, _NOISELESS_MAX_STEPS)
        return min(_tried(self.max_steps), key=lambda t: self._bound(setting, guarantee, t, step_size))

    def _bound(self, setting: Setting, guarantee: Guarantee | None, n_steps: int, step_size: float) -> float:
        """The bound on E[F^r(answer) − min F^r]."""
        constants = setting.constants
        path = accelerated_path(n_steps, step_size, constants.strong_convexity)
        bias = 0.5 * self._distance(setting) ** 2 * path.bias
        if guarantee is None:
            return bias
        variance = constants.dimension * _release_variance(setting, guarantee)
        return bias + variance * float((path.noise / path.shares).sum())

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


@functools.lru_cache(maxsize=256)
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
    # Σ_{t≥k} c_t A_k/A_t, from the end; with Python's numbers, which are faster one by one.
    from_the_end = weights[::-1].tolist()
    later = from_the_end[:1]
    for weight, kept in zip(from_the_end[1:], (1.0 - theta[:0:-1]).tolist(), strict=True):
        later.append(weight + kept * later[-1])
    noise = np.array(later[::-1]) * theta**2 / (inverse + strong_convexity)
    roots = np.sqrt(noise)
    return Path(theta, weights, float(weights @ inverse), noise, 0.5 * (roots / roots.sum() + weights))


@functools.lru_cache(maxsize=64)
def _momenta(n_steps: int, step_size: float, strong_convexity: float) -> tuple[Array, Array]:
    """θ_t and 1/A_t: θ_t² = η(1 − θ_t)(1/A_{t−1} + μ), 1/A_t = (1 − θ_t)/A_{t−1}, written so that nothing overflows."""
    theta, inverse = [1.0], [1.0 / step_size]
    for _ in range(1, n_steps):
        pull = step_size * (inverse[-1] + strong_convexity)
        theta.append(2.0 / (1.0 + math.sqrt(1.0 + 4.0 / pull)))
        inverse.append((1.0 - theta[-1]) * inverse[-1])
    return np.array(theta), np.array(inverse)


def risk_on_quadratics(
    n_steps: int, step_size: float, strong_convexity: float, curvatures: Array
) -> tuple[Array, Array]:
    """Expected risk in directions of these curvatures of F, with r = (μ/2)‖w‖²: from a unit distance, and from noise.

    The noise is that of one release of unit variance, divided by the path's shares. Both are exact, by the steps'
    recursion taken from the end.
    """
    path = accelerated_path(n_steps, step_size, strong_convexity)
    total = curvatures + strong_convexity
    of_x, of_z = np.zeros(curvatures.size), np.zeros(curvatures.size)  # how far the answer follows x_t and z_t
    moved, noise = np.zeros(curvatures.size), np.zeros(curvatures.size)
    for theta, weight, share in zip(path.theta[::-1], path.weights[::-1], path.shares[::-1], strict=True):
        of_x = of_x + weight
        of_z, of_x = of_z + theta * of_x, (1.0 - theta) * of_x
        shrunk = of_z / (1.0 + strong_convexity * step_size / theta)
        of_gradient = shrunk * (step_size / theta)
        of_y = -of_gradient * curvatures
        of_z, of_x = shrunk + theta * of_y, of_x + (1.0 - theta) * of_y
        moved += total * of_gradient
        noise += of_gradient**2 / share
    return 0.5 * total * (1.0 - moved) ** 2, 0.5 * total * noise
