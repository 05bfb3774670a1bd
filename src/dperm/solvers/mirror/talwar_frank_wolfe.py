"""The private Frank–Wolfe method of Talwar, Thakurta and Zhang 2015: one vertex per step, chosen by noisy max."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.curve import gaussian_mu
from dperm.mechanisms import VertexQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.domains.polytope import EntropicDomain
from dperm.solvers.base import Array, Oracle, Profile, Solver
from dperm.solvers.refusals import needs_convexity, needs_no_regularizer

Mask = NDArray[np.bool_]

_SMALLEST_DELTA = 1e-25

# What a run without noise aims at, and how long it may take.
_NOISELESS_GAP = 1e-8
_NOISELESS_MAX_STEPS = 10_000


@dataclass(frozen=True)
class FrankWolfeSettings:
    """What Frank–Wolfe decided."""

    n_steps: int


@dataclass(frozen=True)
class TalwarFrankWolfe(Solver):
    """Noisy Frank–Wolfe over the vertices of a polytope.

    w_{t+1} = (1 − η_t) w_t + η_t v_t, η_t = 2/(t + 2), where v_t is the vertex with the smallest slope ⟨v, ∇F(w_t)⟩, up
    to noise. An answer is one of finitely many vertices, so p enters the noise by its logarithm only, and on the l1
    ball after T steps at most T coefficients are not zero.

    Parameters
    ----------
    n_steps : int, optional
        T. By default the T that minimises the bound with explicit constants and a curvature as it is found in practice
        rather than in the worst case (docs/proofs/noisy_max.md).
    max_steps : int
        Cap on the default T, a matter of running time.
    paper_constant : float
        c in the published scale of the Laplace noise, L₁‖C‖₁ sqrt(c T ln(1/δ))/(nε), used with noise="paper" only.

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.solvers import TalwarFrankWolfe
    >>> from dperm.problem import L1Ball, Logistic
    >>> problem = Problem(Logistic(), domain=L1Ball(5.0), row_norm=100.0, entry_bound=1.0)
    >>> options = FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver=TalwarFrankWolfe())
    >>> options.plan(10_000, 100_000).privacy.n_steps
    23
    """

    n_steps: int | None = None
    max_steps: int = 5_000
    paper_constant: float = 8.0

    name = "talwar-frank-wolfe"
    listed = 16
    profile = Profile(
        summary="Frank–Wolfe, the next vertex chosen by noisy max",
        source="Talwar, Thakurta and Zhang 2015, Algorithm 2, with Gumbel noise",
        table="Table 3, Talwar et al. 2015",
        utility="Γ^{1/3} (L₁‖C‖₁ log p)^{2/3}/(nε)^{2/3} on the l1 ball and the simplex",
        gradients="n·T, T^{3/2} = Γ nε/(L₁‖C‖₁ log p)",
        regularizers="none; the l1 ball, the simplex or a polytope that lists its vertices",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Convex losses, no regularizer, domains that list their vertices."""
        reason = needs_convexity(problem) or needs_no_regularizer(problem)
        if reason is None and not isinstance(problem.domain, EntropicDomain):
            reason = f"it needs a domain that lists its vertices, which {problem.domain.name} does not."
        return reason

    def refusal_at(self, setting: Setting, guarantee: Guarantee) -> str | None:
        """A very small δ is more than the noise of a choice can keep."""
        return needs_a_larger_delta(guarantee)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[FrankWolfeSettings]:
        """Choose T."""
        if guarantee is not None:
            self.check_at(setting, guarantee)
        return self.plan_with(VertexQuery(setting), self.n_steps or self._default_steps(setting, guarantee))

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[FrankWolfeSettings], start: Array) -> Array:
        """Algorithm 2, counted from t = 0 so that the first step forgets the start."""
        return frank_wolfe_walk(oracle, plan.planned[0], start)[0]

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """The bound with a curvature as it is found in practice."""
        mu = gaussian_mu(guarantee)
        return float(frank_wolfe_bound(setting, mu, self.n_steps or frank_wolfe_steps(setting, mu, self.max_steps)))

    def plan_with(self, query: VertexQuery, n_steps: int) -> Plan[FrankWolfeSettings]:
        """T choices of a vertex."""
        mechanism = f"{self.name}, T = {n_steps} noisy choices of a vertex, all of them accounted for"
        return Plan(mechanism, (PlannedQuery(query, count=n_steps),), FrankWolfeSettings(n_steps))

    def _default_steps(self, setting: Setting, guarantee: Guarantee | None) -> int:
        constants = setting.constants
        if guarantee is None:
            return int(min(max(1.0, 2.0 * constants.curvature / _NOISELESS_GAP), _NOISELESS_MAX_STEPS))
        return frank_wolfe_steps(setting, gaussian_mu(guarantee), self.max_steps)


def needs_a_larger_delta(guarantee: Guarantee) -> str | None:
    """Why the noise of a choice cannot keep this δ, or None."""
    if guarantee.delta >= _SMALLEST_DELTA:
        return None
    return (
        f"it needs delta ≥ {_SMALLEST_DELTA:g}, got {guarantee.delta:g}: its noise is drawn from 106 random bits, "
        "which cannot hide rarer events."
    )


def frank_wolfe_walk(oracle: Oracle, item: PlannedQuery, start: Array) -> tuple[Array, Mask]:
    """All steps of a planned vertex query: the last iterate, and which coefficients a chosen vertex has."""
    w, chosen = start, np.zeros(start.size, dtype=bool)
    for t in range(item.count):
        vertex = oracle.ask(item, w)  # lines 3 and 4
        step = 2.0 / (t + 2.0)
        w = (1.0 - step) * w + step * vertex  # line 5
        chosen |= vertex != 0.0
    return w, chosen


def frank_wolfe_bound(setting: Setting, mu: float, n_steps: Any) -> Any:
    """E F(w_T) − F* ≤ 2Γ/T + g ln V, where T answers are μ²/2-zCDP for g = Δ √T/μ."""
    constants = setting.constants
    noise = VertexQuery(setting).sensitivity * math.log(constants.n_vertices) / mu
    # Γ is that of rows which all line up with one vertex, and F has no more to fall than F(start) − F*.
    nominal = min(constants.curvature, math.sqrt(constants.curvature * constants.initial_gap) / 3.0)
    return 2.0 * nominal / n_steps + noise * np.sqrt(n_steps)


def frank_wolfe_steps(setting: Setting, mu: float, max_steps: int) -> int:
    """The T at which that bound is least."""
    steps = np.unique(np.geomspace(1, max_steps, 1000).astype(int))
    return int(steps[np.argmin(frank_wolfe_bound(setting, mu, steps))])
