"""Noisy mirror descent, Talwar, Thakurta and Zhang 2014."""

from dataclasses import dataclass

import numpy as np

from dperm.accounting.curve import gaussian_mu
from dperm.errors import UnsupportedProblemError
from dperm.mechanisms import GradientQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.geometry.mirror import MirrorDomain
from dperm.solvers.base import Array, Oracle, Profile, Solver, StepSettings
from dperm.solvers.refusals import needs_a_mirror_map

_NOISELESS_STEPS = 20_000


@dataclass(frozen=True)
class TalwarMirror(Solver):
    """Noisy mirror descent over a bounded domain; the mean iterate is returned.

    u_{t+1} = argmin over u in C of ⟨η(∇F(u_t) + N(0, σ² I)), u⟩ + B_w(u, u_t).

    Parameters
    ----------
    n_steps : int, optional
        T. By default the T that minimises the bound B/(ηT) + ησ²V, or the published one with G_* in it where that is
        smaller (docs/proofs/mirror_descent.md).
    step_size : float, optional
        η, by default the one that minimises the bound.
    max_steps : int
        Cap on the default T, a matter of running time.

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.problem import L1Ball, Logistic
    >>> from dperm.solvers import TalwarMirror
    >>> problem = Problem(Logistic(), domain=L1Ball(5.0))
    >>> options = FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver=TalwarMirror(n_steps=50))
    >>> options.plan(10_000, 1000).privacy.n_steps
    50
    """

    n_steps: int | None = None
    step_size: float | None = None
    max_steps: int = 5_000

    name = "talwar-mirror"
    listed = 14
    profile = Profile(
        summary="noisy mirror descent on a bounded domain",
        source="Talwar, Thakurta and Zhang 2014, Algorithm 1",
        table="Table 3, Talwar et al. 2014; gradient perturbation",
        utility="√(G_C² + ‖C‖²) log(n)/(nε)",
        gradients="n·T, T = n²ε²/((G_C² + ‖C‖²) log²(n))",
        regularizers="none; the l1, l2 or group ball, the simplex, a box",
        adjacency="published for replace_one; certified for both",
        needs="convex loss",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Convex losses, no regularizer, domains with a mirror map."""
        return needs_a_mirror_map(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[StepSettings]:
        """Choose T and η from the bound."""
        variance = 0.0
        if guarantee is not None:
            # Of one coordinate of the mean gradient if it were the only release.
            variance = (setting.sum_sensitivity / (setting.n * gaussian_mu(guarantee))) ** 2
        steps = np.unique(np.geomspace(1, self.max_steps, 400).astype(int))
        if guarantee is None:
            steps = np.array([_NOISELESS_STEPS])
        if self.n_steps is not None:
            steps = np.array([self.n_steps])
        step_sizes, bounds = mirror_bounds(setting, steps, variance)
        # The bound is the same for all T beyond some: the fewest steps, and not what rounding makes of a draw.
        best = int(np.flatnonzero(~(bounds > bounds.min() * (1.0 + 1e-9)))[0])
        return self.plan_with(setting, int(steps[best]), self.step_size or float(step_sizes[best]))

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """A quarter of the bound, as for the accelerated form."""
        variance = (setting.sum_sensitivity / (setting.n * gaussian_mu(guarantee))) ** 2
        steps = np.array([self.plan(setting, guarantee).settings.n_steps])
        return 0.25 * float(mirror_bounds(setting, steps, variance)[1][0])

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[StepSettings], start: Array) -> Array:
        """Mirror descent from the centre of the mirror map."""
        domain, item = problem.domain, plan.planned[0]
        if not isinstance(domain, MirrorDomain):
            raise UnsupportedProblemError("talwar-mirror needs a domain with a mirror map.")
        n_steps, step_size = plan.settings.n_steps, plan.settings.step_size
        u = domain.centre(start.size)
        total = np.zeros(u.size)
        for _ in range(n_steps):
            u = domain.mirror_step(u, step_size * domain.pull_back(oracle.ask(item, domain.coefficients(u))))
            total += u
        return domain.coefficients(total / n_steps)

    def plan_with(self, setting: Setting, n_steps: int, step_size: float) -> Plan[StepSettings]:
        """T full gradients and this step size."""
        planned = PlannedQuery(GradientQuery(setting), count=n_steps)
        mechanism = f"talwar-mirror, T = {n_steps} noisy full-gradient steps, all of them accounted for"
        return Plan(mechanism, (planned,), StepSettings(n_steps, step_size))


def mirror_bounds(setting: Setting, steps: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """The best η for every T, and the bound that it gives; T answers have T times the variance of one."""
    constants = setting.constants
    noise = steps * variance * constants.mirror_noise  # σ²V
    smoothness = setting.smoothness * (0.5 * constants.diameter) ** 2 or 1.0  # in the norm of C
    # B/(ηT) + ησ²V with η ≤ 1/(2L): half of the divergence takes up the curvature, half of it the noise.
    step_sizes = np.minimum(np.sqrt(constants.divergence_bound / (steps * np.maximum(noise, 1e-300))), 0.5 / smoothness)
    return step_sizes, constants.divergence_bound / (step_sizes * steps) + step_sizes * noise
