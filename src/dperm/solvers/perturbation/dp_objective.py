"""Objective perturbation with exact accounting, clipped gradients, a ridge by rule, shrinkage."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dperm.accounting.calibration import calibrate
from dperm.accounting.guarantee import Adjacency, Guarantee
from dperm.errors import InvalidParameter
from dperm.mechanisms.plan import Plan
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile
from dperm.solvers.expected import noise_risk, ridge_bias, risk_at_zero, typical_length
from dperm.solvers.perturbation.objective import JACOBIAN_SHARE, ObjectiveSettings, ObjectiveSolver
from dperm.solvers.perturbation.tolerance import check_lengths
from dperm.validation import finite

# Measured on four data sets (docs/choosing_a_solver.md): clipping logistic slopes at the sigmoid of t moved the risk of
# the minimiser by about e^−(5 + 4t) or less. Slopes are clipped where that is a tenth of the noise's own part.
# Longer minimisers have larger margins, and the rate falls with their root.
_CLIPPING_OFFSET, _CLIPPING_RATE, _CLIPPING_MARGIN, _CLIPPED_SHARE = 5.0, 4.0, 8.0, 0.1

# Two minimisations: the budget of the second, in μ², and what their ridges are, over one at which the determinant costs
# nothing. One alone does best with less. Under replace_one each takes more. All four are best within a few per cent on
# the spectrum of Covertype, and flat around it.
_LAST_BUDGET, _FIRST_STAGE, _ONLY_STAGE, _FREE_FOR_TWO_ROWS = 0.75, 1.6, 0.6, 5.0 / 3.0

# The grid that two stages are accounted for on does not see smaller δ.
_SMALLEST_COMPOSED = 1e-15

# What clipping was found to add to the noise's part, and what a first stage was found to leave of the bias of a ridge.
_FOUND_CLIPPING, _LEFT_BY_A_STAGE = 0.05, 0.25


class _Stage(NamedTuple):
    """A minimisation: its ridge, and its share of the budget in μ²."""

    ridge: float
    budget: float


@dataclass(frozen=True)
class DPObjectiveSettings(ObjectiveSettings):
    """What DP-Objective decided further; None for a run without noise."""

    n_stages: int | None = None
    slope_share: float | None = None
    noise_length: float | None = None


@dataclass(frozen=True)
class DPObjective(ObjectiveSolver):
    """argmin over C of F_c^r(w) + (ridge/2)‖w‖² + ⟨b, w⟩/n, then shrunk towards 0 by the known length of the noise.

    F_c is F with every row's slope clipped at a share of its bound, which divides the noise by as much.

    Parameters
    ----------
    ridge : float, optional
        Strength of the ridge that is added to the problem's own μ. By default Λ√(Λ/(μ + Λ)) with Λ = √(E‖b‖²)/(nD),
        which balances noise and bias for a minimiser of norm D, and at least so much that the change of variables
        costs little.
    nominal_distance : float
        A public guess at ‖w*‖ · R for few rows; D grows from it as √(nμ/(300√p)) for a guarantee of μ-Gaussian DP, up
        to what the domain or the regularizer make likely. It steers the ridge, not privacy.
    slope_share : float, optional
        The share of their bound that slopes are clipped at. By default 1, except for the logistic loss: there so that
        the bias is expected to be a tenth of the noise's part in the risk.
    n_stages : {1, 2}, optional
        Whether a second minimisation follows with its ridge around the first one's result, which squares what is left
        of the ridge's bias. By default 2 for the logistic loss where the change of variables asks for more ridge than
        the balance does: without a regularizer and with many rows.

    Examples
    --------
    >>> from dperm import DPObjective, PrivateLogisticRegression
    >>> PrivateLogisticRegression(epsilon=1.0, solver=DPObjective()).plan(200_000, 54).privacy.noise_multiplier < 7
    True
    """

    nominal_distance: float = 8.0
    slope_share: float | None = None
    n_stages: int | None = None

    name = "dp-objective"
    listed = 17
    gaussian = True
    profile = Profile(
        summary="objective perturbation with exact accounting, clipped gradients, a ridge by rule, and shrinkage",
        source="Kifer, Smith and Thakurta 2012; exact bounds after Redberg et al. 2023",
        table="none: it came later",
        utility="p/(μn²ε²) strongly convex; √p/(nε) convex",
        gradients="until the minimiser is solved for",
        regularizers="any, non-smooth ones too; any domain",
        adjacency="certified for both",
        needs="convex smooth loss of one margin",
    )

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        if self.slope_share is not None and not 0.0 < finite("slope_share", self.slope_share) <= 1.0:
            raise InvalidParameter(f"slope_share must lie in (0, 1], got {self.slope_share!r}.")
        if self.n_stages not in (None, 1, 2):
            raise InvalidParameter(f"n_stages must be 1 or 2, got {self.n_stages!r}.")

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[DPObjectiveSettings]:
        """One minimisation or two. Without noise no ridge is added and no slope is clipped."""
        if guarantee is None:
            exact = self.plan_with(setting, None, self.ridge or 0.0)
            return Plan(exact.mechanism, exact.planned, DPObjectiveSettings(**vars(exact.settings)))
        constants, noise = setting.constants, self._noise_length(setting, guarantee)
        share, stages = self._choose(setting, guarantee, noise)
        plans = [self.plan_with(setting, guarantee, stage.ridge, share) for stage in stages]
        planned = tuple(
            replace(plan.planned[0], relative_noise=1.0 / math.sqrt(stage.budget))
            for plan, stage in zip(plans, stages, strict=True)
        )
        # Curvatures average to at most L/p, so by Jensen E‖noise of w‖² is at least this.
        curvature = constants.strong_convexity + stages[-1].ridge + setting.smoothness / constants.dimension
        length = share * noise / math.sqrt(stages[-1].budget) / curvature
        settings = DPObjectiveSettings(
            **vars(plans[-1].settings), n_stages=len(stages), slope_share=share, noise_length=length
        )
        steps = "the minimiser" if len(stages) == 1 else "the minimiser, twice, the second time around the first,"
        clipped = "" if share == 1.0 else f", gradients clipped at {share:.0%} of their bound"
        mechanism = (
            f"dp-objective, {steps} with a random linear term, a further ridge of {stages[-1].ridge:.3g}{clipped}"
        )
        plan = Plan(mechanism, planned, settings)
        if self.ridge is not None:
            check_lengths(calibrate(plan, guarantee))
        return plan

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[DPObjectiveSettings], start: Array) -> Array:
        """Minimise, around what was released before; then shrink as James and Stein do, which needs no rows."""
        w = start
        for item in plan.planned:
            w = self._with_zeros(problem, plan.settings.zero_threshold, problem.domain.project(oracle.ask(item, w)))
        noise, length = plan.settings.noise_length or 0.0, float(np.linalg.norm(w))
        if start.any() or noise == 0.0:
            return w  # 0 is not in C, or there is no noise
        return w * max(0.0, 1.0 - (noise / length) ** 2) if length > 0.0 else w

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """Noise of the last stage, a little more for what was clipped, and the bias of the ridge that the stages leave.

        Shrinkage makes N·P/(N + P) of noise N that stands against what w = 0 costs, P.
        """
        noise = self._noise_length(setting, guarantee)
        share, stages = self._choose(setting, guarantee, noise)
        square = (share * noise) ** 2 / stages[-1].budget
        total = setting.constants.strong_convexity + stages[-1].ridge
        from_noise = (1.0 + _FOUND_CLIPPING * (share < 1.0)) * noise_risk(setting, square, total)
        bias = ridge_bias(setting, stages[-1].ridge, typical_length(setting, guarantee, self.nominal_distance))
        bias *= _LEFT_BY_A_STAGE ** (len(stages) - 1)
        at_zero = risk_at_zero(setting, guarantee)
        return bias + (from_noise * at_zero / (from_noise + at_zero) if at_zero > 0.0 else 0.0)

    def _choose(self, setting: Setting, guarantee: Guarantee, noise: float) -> tuple[float, list[_Stage]]:
        """The share that slopes are clipped at, and the minimisations: two where the determinant needs more ridge."""
        joint = setting.constants.sigmoidal and self._is_gaussian(guarantee)
        least = self.jacobian_ridge(setting, JACOBIAN_SHARE * guarantee.epsilon)
        if joint:  # from here on the determinant costs nothing (theorem 4)
            least = 4.0 * setting.constants.smoothness / (setting.n * guarantee.epsilon)
            least *= _FREE_FOR_TWO_ROWS if setting.adjacency is Adjacency.REPLACE_ONE else 1.0
        two = (
            joint and guarantee.delta >= _SMALLEST_COMPOSED and self._balanced_total(setting, guarantee, noise) < least
        )
        n_stages = self.n_stages or (2 if two else 1)
        if self.slope_share is not None:
            share = self.slope_share
        else:  # in two stages the determinant counts where slopes end, so that clipping them gains nothing
            share = self._default_share(setting, guarantee, noise) if joint and n_stages == 1 else 1.0
        totals = [_ONLY_STAGE * least] if joint else [least]
        if n_stages == 2:
            totals = [_FIRST_STAGE * least, least]
        balanced = self._balanced_total(setting, guarantee, share * noise)
        ridges = [self._ridge_for(setting, max(total, balanced)) for total in totals]
        if self.ridge is not None:
            ridges = [self.ridge] * n_stages
        budgets = [1.0] if n_stages == 1 else [1.0 - _LAST_BUDGET, _LAST_BUDGET]
        return share, [_Stage(*both) for both in zip(ridges, budgets, strict=True)]

    def _balanced_total(self, setting: Setting, guarantee: Guarantee, noise: float) -> float:
        """μ + ridge that balances noise of this length with the bias on a minimiser of norm D."""
        mu, distance = setting.constants.strong_convexity, typical_length(setting, guarantee, self.nominal_distance)
        balanced = noise / distance if distance > 0.0 else 0.0
        return mu + balanced * math.sqrt(balanced / (mu + balanced)) if balanced > 0.0 else mu

    def _default_share(self, setting: Setting, guarantee: Guarantee, noise: float) -> float:
        length = typical_length(setting, guarantee, self.nominal_distance)
        margin = length * math.sqrt(setting.constants.smoothness / 0.25)
        if margin == 0.0:
            return 1.0  # C is a point
        from_noise = 0.25 * noise**2 / self._balanced_total(setting, guarantee, noise)
        if from_noise == 0.0:
            return 1.0  # less than a float can hold
        rate = _CLIPPING_RATE * min(1.0, math.sqrt(_CLIPPING_MARGIN / margin))
        steepness = (math.log(1.0 / (_CLIPPED_SHARE * from_noise)) - _CLIPPING_OFFSET) / rate
        return 1.0 / (1.0 + math.exp(-max(0.0, steepness)))
