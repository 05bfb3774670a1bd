"""Objective perturbation with exact accounting, clipped gradients, a ridge by rule, shrinkage."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dperm.accounting.calibration import calibrate
from dperm.errors import InvalidParameterError
from dperm.mechanisms import AdaptedObjectiveQuery, ObjectivePerturbationQuery
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile
from dperm.solvers.expected import mean_curvature, noise_risk, ridge_bias, risk_at_zero, typical_length
from dperm.solvers.perturbation.objective import JACOBIAN_SHARE, ObjectiveSettings, ObjectiveSolver
from dperm.solvers.perturbation.tolerance import check_lengths

# Measured on four data sets (docs/choosing_a_solver.md): clipping logistic slopes at the sigmoid of t moved the risk of
# the minimiser by about e^−(5 + 4t) or less. Slopes are clipped where that is a tenth of the noise's own part.
# Longer minimisers have larger margins, and the rate falls with their root; so it rises for one that is known to be
# short.
_CLIPPING_OFFSET, _CLIPPING_RATE, _CLIPPING_MARGIN, _CLIPPED_SHARE = 5.0, 4.0, 8.0, 0.1

# Two minimisations: the budget of the second, in μ², and what their ridges are, over one at which the determinant costs
# nothing. One alone does best with less. Under replace_one each takes more. All four are best within a few per cent on
# the spectrum of Covertype, and flat around it.
_LAST_BUDGET, _FIRST_STAGE, _ONLY_STAGE, _FREE_FOR_TWO_ROWS = 0.75, 1.6, 0.6, 5.0 / 3.0

# A first look at how short the minimiser is takes so much of the budget, in μ². It is taken where the determinant costs
# the second stage less than this share of ε without the help of a sigmoid, and where slopes are not clipped to nearly
# the half that they have at 0 anyway.
_LOOK, _LOOK_DETERMINANT, _LOOK_FROM = 0.05, 0.02, 0.6

# The grid that two stages are accounted for on does not see smaller δ: the one of two minimisers, and the one of all
# events, on which those of units are composed.
_SMALLEST_COMPOSED, _SMALLEST_OF_UNITS = 1e-15, 1e-11

# What clipping was found to add to the noise's part, and what a first stage was found to leave of the bias of a ridge.
_FOUND_CLIPPING, _LEFT_BY_A_STAGE = 0.05, 0.25


class _Stage(NamedTuple):
    """A minimisation: its ridge, and its share of the budget in μ²."""

    ridge: float
    budget: float


@dataclass(frozen=True)
class DPObjectiveSettings(ObjectiveSettings):
    """What DP-Objective decided further; None for a run without noise.

    `noise_length` is what the noise of the last stage makes of w, with slopes clipped at `slope_share`. After a first
    look the share follows from `clipping_room`, and from how long w is beyond the look's own `look_noise`.
    """

    n_stages: int | None = None
    slope_share: float | None = None
    noise_length: float | None = None
    clipping_room: float | None = None
    look_noise: float | None = None


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
        the bias is expected to be a tenth of the noise's part in the risk. Where the regularizer is strong enough, a
        first minimisation with a twentieth of the budget tells how short w is, and short ones are clipped further.
    n_stages : {1, 2}, optional
        Whether a second minimisation follows with its ridge around the first one's result, which squares what is left
        of the ridge's bias. By default 2 for the logistic loss where the change of variables asks for more ridge than
        the balance does: without a regularizer and with many rows.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import DPObjective
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
        if self.n_stages not in (None, 1, 2):
            raise InvalidParameterError(f"n_stages must be 1 or 2, got {self.n_stages!r}.")

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[DPObjectiveSettings]:
        """One minimisation or two. Without noise no ridge is added and no slope is clipped."""
        if guarantee is None:
            exact = self.plan_with(setting, None, self.ridge or 0.0)
            return Plan(exact.mechanism, exact.planned, DPObjectiveSettings(**vars(exact.settings)))
        noise = self._noise_length(setting, guarantee)
        share, stages = self._choose(setting, guarantee, noise)
        if self._looks_first(setting, guarantee, share, stages):
            return self._plan_with_a_look(setting, guarantee, noise, share, stages[0].ridge)
        plans = [self.plan_with(setting, guarantee, stage.ridge, share) for stage in stages]
        planned = tuple(
            replace(plan.planned[0], relative_noise=1.0 / math.sqrt(stage.budget))
            for plan, stage in zip(plans, stages, strict=True)
        )
        length = (
            share
            * noise
            / math.sqrt(stages[-1].budget)
            / mean_curvature(setting, setting.constants.strong_convexity + stages[-1].ridge)
        )
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
        w, settings, noise = start, plan.settings, plan.settings.noise_length or 0.0
        for item in plan.planned:
            if isinstance(item.query, AdaptedObjectiveQuery):
                share = _share_after_a_look(item.query.setting, settings, w)
                noise *= share / (settings.slope_share or 1.0)
                released = oracle.ask(item, start, np.array([share, settings.ridge]))
            else:
                released = oracle.ask(item, w)
            w = self._with_zeros(problem, settings.zero_threshold, problem.domain.project(released))
        return self._shrunk(w, start, noise)

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """Predicted excess risk: noise of the last stage, clipping bias, ridge bias.

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

    def _looks_first(self, setting: Setting, guarantee: Guarantee, share: float, stages: list[_Stage]) -> bool:
        """Whether a first look at the length of w is worth its cost, and the determinant cheap without a sigmoid."""
        total = setting.constants.strong_convexity + stages[0].ridge
        return (
            self.slope_share is None
            and self.n_stages is None
            and self.ridge is None
            and len(stages) == 1
            and share > _LOOK_FROM
            and setting.constants.sigmoidal
            and self._is_gaussian(guarantee)
            and guarantee.delta >= _smallest_composed(setting)
            and total >= self.jacobian_ridge(setting, _LOOK_DETERMINANT * guarantee.epsilon)
        )

    def _plan_with_a_look(
        self, setting: Setting, guarantee: Guarantee, noise: float, share: float, ridge: float
    ) -> Plan[DPObjectiveSettings]:
        """A minimisation that tells how short w is, and one whose slopes are clipped accordingly."""
        look = self.plan_with(setting, guarantee, ridge, share)
        found = look.planned[0].query
        assert isinstance(found, ObjectivePerturbationQuery)
        adapted = AdaptedObjectiveQuery(setting, ridge, found.tolerance, found.remainder, "Gaussian")
        planned = (
            replace(look.planned[0], relative_noise=1.0 / math.sqrt(_LOOK)),
            PlannedQuery(adapted, relative_noise=1.0 / math.sqrt(1.0 - _LOOK)),
        )
        length = share * noise / mean_curvature(setting, setting.constants.strong_convexity + ridge)
        settings = DPObjectiveSettings(
            **vars(look.settings), n_stages=1, slope_share=share, noise_length=length / math.sqrt(1.0 - _LOOK),
            clipping_room=self._clipping_room(setting, guarantee, noise), look_noise=length / math.sqrt(_LOOK),
        )  # fmt: skip
        mechanism = (
            f"dp-objective, the minimiser, after a first one that tells how short it is, with a random linear term, a "
            f"further ridge of {ridge:.3g}, gradients clipped at {share:.0%} of their bound or less"
        )
        return Plan(mechanism, planned, settings)

    def _choose(self, setting: Setting, guarantee: Guarantee, noise: float) -> tuple[float, list[_Stage]]:
        """The share that slopes are clipped at, and the minimisations: two where the determinant needs more ridge."""
        joint = setting.constants.sigmoidal and self._is_gaussian(guarantee)
        least = self.jacobian_ridge(setting, JACOBIAN_SHARE * guarantee.epsilon)
        if joint:  # from here on the determinant costs nothing (theorem 4)
            least = 4.0 * setting.constants.smoothness / (setting.n * guarantee.epsilon)
            least *= _FREE_FOR_TWO_ROWS if setting.adjacency is Adjacency.REPLACE_ONE else 1.0
        two = (
            joint
            and guarantee.delta >= _smallest_composed(setting)
            and self._balanced_total(setting, guarantee, noise) < least
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
        margin = typical_length(setting, guarantee, self.nominal_distance) * _margin_per_length(setting)
        if margin == 0.0:
            return 1.0  # C is a point
        return _share_for(self._clipping_room(setting, guarantee, noise), max(margin, _CLIPPING_MARGIN))

    def _clipping_room(self, setting: Setting, guarantee: Guarantee, noise: float) -> float:
        """How many powers of e the bias may lie below e^−5 before it is less than a tenth of the noise's part."""
        from_noise = 0.25 * noise**2 / self._balanced_total(setting, guarantee, noise)
        if from_noise == 0.0:
            return math.inf  # less than a float can hold
        return math.log(1.0 / (_CLIPPED_SHARE * from_noise)) - _CLIPPING_OFFSET


def _smallest_composed(setting: Setting) -> float:
    return _SMALLEST_COMPOSED if setting.rows_together == 1 else _SMALLEST_OF_UNITS


def _share_after_a_look(setting: Setting, settings: DPObjectiveSettings, w: Array) -> float:
    """The share that slopes are clipped at for a minimiser as long as this one is without its own noise."""
    noise, most, room = settings.look_noise, settings.slope_share, settings.clipping_room
    if noise is None or most is None or room is None:
        return 1.0  # there was no look
    length = math.sqrt(max(0.0, float(w @ w) - noise**2))
    return min(most, _share_for(room, length * _margin_per_length(setting)))


def _share_for(room: float, margin: float) -> float:
    """The sigmoid of the t at which clipping leaves that room, for a minimiser whose margins are up to this."""
    rate = _CLIPPING_RATE * math.sqrt(_CLIPPING_MARGIN / margin) if margin > 0.0 else math.inf
    steepness = max(0.0, room) / rate if room < math.inf else math.inf
    return 1.0 / (1.0 + math.exp(-steepness))


def _margin_per_length(setting: Setting) -> float:
    """The largest margin of a minimiser of length 1: the row norm, for the logistic loss."""
    return math.sqrt(setting.constants.smoothness / 0.25)
