"""DP-AccMD, Algorithm 3 of the paper, corrected: one noisy gradient serves both of its steps."""

import math
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
from dperm.solvers.base import Array, Oracle, Profile, Solver
from dperm.solvers.refusals import needs_a_mirror_map
from dperm.validation import one_of

# What a run without noise aims at, and how long it may take.
_NOISELESS_GAP = 1e-8
_NOISELESS_MAX_STEPS = 10_000


@dataclass(frozen=True)
class AccMDSettings:
    """What DP-AccMD decided; `smoothness` is L in the norm of C."""

    n_steps: int
    smoothness: float
    y_step: str


@dataclass(frozen=True)
class DPAccMD(Solver):
    """Noisy accelerated mirror descent in the geometry of a bounded domain.

    Parameters
    ----------
    n_steps : int, optional
        T. By default the T that minimises the bound of Theorem 5.4 with explicit constants (docs/proofs/accmd.md).
    y_step : {"average", "argmin"}, optional
        How y_{k+1} is found: as the average of y_k and z_{k+1}, for which noise is proved to do less harm, or by the
        paper's second argmin, on the same noisy gradient. The default is "average", and "argmin" with noise="paper".
    max_steps : int
        Cap on the default T, a matter of running time.
    paper_constant : float
        c in σ² = c G² T ln(1/δ)/(nε)², used with noise="paper" only.

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.problem import L1Ball, Logistic
    >>> from dperm.solvers import DPAccMD
    >>> problem = Problem(Logistic(), domain=L1Ball(5.0))
    >>> FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver=DPAccMD()).plan(10_000, 100_000).privacy.n_steps
    188
    """

    n_steps: int | None = None
    y_step: str | None = None
    max_steps: int = 5_000
    paper_constant: float = 1.0

    name = "dp-accmd"
    listed = 5
    profile = Profile(
        summary="noisy accelerated mirror descent on a bounded domain",
        source="Wang, Ye and Xu 2017, Algorithm 3, with the noisy gradient in both steps",
        table="Table 3, this paper",
        utility="√(B_w(w*, x_0) V)/(nε), V ≤ G_C² + ‖C‖²; √log(p)/(nε) on the l1 ball and the simplex",
        gradients="n·T, T² = L‖C‖² √(B_w/V) nε",
        regularizers="none; the l1, l2 or group ball, the simplex, a box",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss",
    )

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        if self.y_step is not None:
            one_of("y_step", self.y_step, ("average", "argmin"))

    def refusal(self, problem: Problem) -> str | None:
        """Convex losses, no regularizer, domains with a mirror map."""
        return needs_a_mirror_map(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[AccMDSettings]:
        """Choose T; the step sizes follow from the smoothness in the norm of C."""
        # ‖v‖₂ ≤ (diameter/2) ‖v‖_C for differences of points of C. If C is a single point every step stays there.
        smoothness = setting.smoothness * (0.5 * setting.constants.diameter) ** 2 or 1.0
        n_steps = self.n_steps or self._default_steps(setting, guarantee, smoothness)
        planned = PlannedQuery(GradientQuery(setting), count=n_steps)
        mechanism = f"dp-accmd, T = {n_steps} noisy full-gradient steps, all of them accounted for"
        return Plan(mechanism, (planned,), AccMDSettings(n_steps, smoothness, self.y_step or "average"))

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[AccMDSettings], start: Array) -> Array:
        """Algorithm 3 from the centre of the mirror map, of which B_w is smallest, rather than from `start`."""
        domain, item = problem.domain, plan.planned[0]
        if not isinstance(domain, MirrorDomain):
            raise UnsupportedProblemError("dp-accmd needs a domain with a mirror map.")
        smoothness = plan.settings.smoothness
        y = z = domain.centre(start.size)  # y_0, z_0 = x_0
        for k in range(plan.settings.n_steps):
            alpha = (k + 2) / (4.0 * smoothness)
            r = 1.0 / (2.0 * alpha * smoothness)
            x = r * z + (1.0 - r) * y
            # The paper's y-step takes the exact gradient and so leaks it (errata 2): both steps share the noisy one.
            gradient = domain.pull_back(oracle.ask(item, domain.coefficients(x)))
            z = domain.mirror_step(z, alpha * gradient)
            y = r * z + (1.0 - r) * y  # the v of the proof, which needs no y_{k+1} that is better
            if plan.settings.y_step == "argmin":
                # Twice the smoothness: the half to spare takes up the noise (docs/proofs/accmd.md).
                y = domain.descent_step(x, gradient, 2.0 * smoothness, y)
        return domain.coefficients(y)

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """A quarter of the bound of Theorem 5.4, as it was found in practice."""
        chosen = self.plan(setting, guarantee).settings
        return 0.25 * float(self._bounds(setting, guarantee, chosen.smoothness, np.array([chosen.n_steps]))[0])

    def _default_steps(self, setting: Setting, guarantee: Guarantee | None, smoothness: float) -> int:
        if guarantee is None:
            enough = math.sqrt(8.0 * smoothness * setting.constants.divergence_bound / _NOISELESS_GAP)
            return int(min(max(1.0, enough), _NOISELESS_MAX_STEPS))
        steps = np.arange(1, self.max_steps + 1)
        return int(steps[np.argmin(self._bounds(setting, guarantee, smoothness, steps))])

    def _bounds(self, setting: Setting, guarantee: Guarantee, smoothness: float, steps: np.ndarray) -> np.ndarray:
        """The bound of Theorem 5.4 with explicit constants, for every T."""
        constants = setting.constants
        # Variance of one coordinate of the mean gradient if it were the only release.
        variance = (setting.sum_sensitivity / (setting.n * gaussian_mu(guarantee))) ** 2
        # What one unit of noise costs a step: V, or E‖b‖_*² ≤ G_C² + (diameter/2)² where the argmin sees it too.
        dual_square = constants.gaussian_width**2 + (0.5 * constants.diameter) ** 2
        cost = dual_square if self.y_step == "argmin" else constants.mirror_noise
        bias = 8.0 * smoothness * constants.divergence_bound / (steps + 1.0) ** 2
        spread = steps * (2.0 * steps**2 + 9.0 * steps + 13.0) / (6.0 * (steps + 1.0) ** 2)  # Σ α_k²/α_T², α_k ∝ k + 1
        return np.asarray(bias + spread * steps * variance * cost / (2.0 * smoothness))
