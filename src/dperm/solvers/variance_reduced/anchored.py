"""What the variance-reduced methods share: epochs, each around an anchor whose noisy gradient is released once.

The inner steps ask only how the gradient changes from the anchor, and that answer's noise vanishes with the distance.
The defaults come from n, p, ε, δ and the problem's constants; docs/choosing_epochs.md derives them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dperm.accounting.central_limit import central_limit_multiplier, central_limit_rate
from dperm.accounting.curve import gaussian_mu
from dperm.errors import InvalidParameterError
from dperm.mechanisms import DifferenceQuery, GradientQuery
from dperm.mechanisms.plan import PlannedQuery, check_steps
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Solver

# Rows in a batch: enough that sampling is not what limits an epoch.
_SMALLEST_BATCH, _LARGEST_BATCH = 500.0, 2000.0
_BATCH_PER_CONDITION = 5.0

_REDUCTION_PER_EPOCH = 20.0

# How much more of the budget every anchor gets than the one before it.
ANCHOR_GROWTH = 6.0

# A run without noise: how many epochs, and how many steps in all of them, as many as DP-GD takes.
_NOISELESS_EPOCHS = 20
_NOISELESS_MAX_STEPS = 100_000

# Beyond these ends rates and shares of the budget would be lost in rounding.
_SMALLEST_RATE = 1e-12
_LARGEST_BUDGET_RATIO = 1e12


@dataclass(frozen=True)
class EpochSolver(Solver):
    """Settings common to the methods that go by epochs; see a concrete one for what they do.

    Parameters
    ----------
    n_epochs : int, optional
        T, the number of anchors.
    n_inner : int, optional
        m, the number of steps in an epoch (in the first half epoch for DP-SVRG++, whose epochs double).
    sampling_rate : float, optional
        q: every row is in a step's batch with this probability. By default so that batches are large enough for the
        problem's condition and their noise multiplier is about 1 or above; at least 1e-12.
    step_size : float, optional
        η.
    """

    n_epochs: int | None = None
    n_inner: int | None = None
    sampling_rate: float | None = None
    step_size: float | None = None

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        if self.sampling_rate is not None and self.sampling_rate < _SMALLEST_RATE:
            raise InvalidParameterError(f"sampling_rate must be at least 1e-12, got {self.sampling_rate!r}.")


@dataclass(frozen=True)
class AnchoredSolver(EpochSolver):
    """Settings common to the methods with anchors, further to those of `EpochSolver`.

    Parameters
    ----------
    anchor_share : float, optional
        Share of the budget for anchors, within [1e-6, 1 − 1e-6]; the differences get the rest.
    anchor_growth : float
        How much more of the budget every anchor gets than the one before it, within [1e-3, 1e3]: the last decides the
        final error. The first and the last may differ 1e12-fold.
    averaging : float
        The share of an epoch's iterates, counted from its end, whose mean is the next anchor.
    """

    anchor_share: float | None = None
    anchor_growth: float = ANCHOR_GROWTH
    averaging: float = 0.5

    def _pace(
        self, setting: Setting, guarantee: Guarantee | None, condition_fitted_in: Callable[[float], float]
    ) -> "Pace":
        return pace_for(setting, guarantee, self.n_epochs, self.step_size, self.anchor_growth, condition_fitted_in)

    def _anchored_queries(
        self,
        setting: Setting,
        guarantee: Guarantee | None,
        inner: Sequence[int],
        condition: float,
        smallest_rate: float,
    ) -> tuple[PlannedQuery, ...]:
        """One anchor for every epoch, then the differences of all epochs.

        Parameters
        ----------
        setting : Setting
            Public facts.
        guarantee : Guarantee or None
            None for a run without noise.
        inner : sequence of int
            Steps of every epoch.
        condition : float
            How many steps of size 1/L the slowest direction needs that is fitted.
        smallest_rate : float
            Sampling rate below which batches would be too small for the method.
        """
        steps = sum(inner)
        if guarantee is None:
            rate = self.sampling_rate or smallest_rate
            return (PlannedQuery(GradientQuery(setting)),) * len(inner) + (
                PlannedQuery(DifferenceQuery(setting, rate), steps),
            )
        mu = gaussian_mu(guarantee)
        share = self.anchor_share or anchor_share(setting, mu, steps, condition)
        budget = (1.0 - share) * mu**2
        # By the central limit theorem the noise of the mean does not depend on the rate, until the multiplier comes
        # below about 1; smaller rates would only add noise.
        lowest = central_limit_rate(1.0, budget / steps, setting.adjacency)
        rate = self.sampling_rate or min(1.0, max(smallest_rate, lowest))
        shares = _growing_shares(self.anchor_growth, len(inner))
        anchors = tuple(
            PlannedQuery(GradientQuery(setting), 1, 1.0 / math.sqrt(share * mu**2 * part)) for part in shares
        )
        # Only the proportion to the anchors' noise rests on this theorem; the noise is found by the accountant.
        multiplier = central_limit_multiplier(rate, budget / steps, setting.adjacency)
        return (*anchors, PlannedQuery(DifferenceQuery(setting, rate), steps, multiplier))


def _growing_shares(growth: float, n_epochs: int) -> list[float]:
    """Shares of the anchors' budget, every one so much larger than the one before it."""
    if abs((n_epochs - 1) * math.log(growth)) > math.log(_LARGEST_BUDGET_RATIO) + 1e-9:
        raise InvalidParameterError(
            f"with anchor_growth = {growth:g} the budgets of {n_epochs} anchors would differ more than 1e12-fold; "
            "use fewer epochs or an anchor_growth nearer to 1."
        )
    parts = [growth ** (epoch - n_epochs) for epoch in range(n_epochs)]
    total = sum(parts)
    return [part / total for part in parts]


def sampling_rate_for(setting: Setting, condition: float) -> float:
    """The rate that gives batches large enough for the condition."""
    return min(1.0, min(max(_SMALLEST_BATCH, _BATCH_PER_CONDITION * condition), _LARGEST_BATCH) / setting.n)


def anchor_share(setting: Setting, mu: float, steps: int, condition: float) -> float:
    """Share of the budget for anchors that balances their noise against that of the differences.

    With a share u for the differences, their noise in `steps` steps grows an epoch's remaining error by x/u,
    x = κ p K (m/(nμ))² with m records moved, and the anchors' noise grows by 1/(1 − u): (1 + x/u)/(1 − u) is smallest
    at u = √(x² + x) − x.
    """
    relative = setting.adjacency.records_moved / (setting.n * mu)
    x = condition * setting.constants.dimension * steps * relative**2
    return 1.0 - min(max(math.sqrt(x**2 + x) - x, 0.05), 0.5)


@dataclass(frozen=True)
class Pace:
    """How many epochs, how far each goes, and in which steps.

    Attributes
    ----------
    n_epochs : int
        T.
    condition : float
        How many steps of size 1/L the slowest direction takes that is fitted: κ, or less where noise forbids.
    step_size : float
        η.
    """

    n_epochs: int
    condition: float
    step_size: float


def pace_for(
    setting: Setting, guarantee: Guarantee | None, n_epochs: int | None, step_size: float | None,
    anchor_growth: float, condition_fitted_in: Callable[[float], float],
) -> Pace:  # fmt: skip
    """Find the pace for a strongly convex problem; what was given stays as it is.

    Parameters
    ----------
    setting : Setting
        Public facts.
    guarantee : Guarantee or None
        None for a run without noise.
    n_epochs, step_size, anchor_growth
        As for `AnchoredSolver`.
    condition_fitted_in : callable
        The condition for which an epoch of this many steps is long enough.
    """
    constants = setting.constants
    condition = setting.smoothness / constants.strong_convexity
    if guarantee is None:
        n_epochs = n_epochs or _NOISELESS_EPOCHS
        # Worse conditioned problems are stopped early: without a limit the smallest penalties would take forever.
        condition = min(condition, condition_fitted_in(_NOISELESS_MAX_STEPS / n_epochs))
        return Pace(n_epochs, condition, step_size or 1.0 / setting.smoothness)
    mu, gap = gaussian_mu(guarantee), constants.initial_gap
    release = constants.dimension * (setting.sum_sensitivity / (setting.n * mu)) ** 2  # pv: one release's noise
    # From the initial gap to the bound pv/(2μ) of one release at the optimum, 20-fold per epoch.
    ratio = max(2.0 * constants.strong_convexity * gap / release, 1.0)
    by_default = n_epochs is None
    n_epochs = n_epochs or max(3, math.ceil(math.log(ratio) / math.log(_REDUCTION_PER_EPOCH)))
    # Beyond this condition the noise of the differences in 2κ steps of T epochs, 2Tκ²p(m/(nμ))² for m records moved,
    # is more than ¼ of what remains: the problem is stopped early, which shrinks its flat directions.
    relative = setting.adjacency.records_moved / (setting.n * mu)
    reachable = 1.0 / (relative * math.sqrt(8.0 * n_epochs * constants.dimension))
    # Within a time τ = 2κ/L an anchor's noise adds at most τpv/2; beyond this it is more than half of the initial gap.
    quiet = gap * setting.smoothness / (2.0 * release)
    condition = min(condition, max(reachable, 0.5), quiet)
    if by_default and anchor_growth > 1.0:
        # The first anchor has growth^(1 − T) of the last one's budget, and must not do more harm than good either.
        room = min(gap * setting.smoothness / (1.2 * release * condition), _LARGEST_BUDGET_RATIO)
        n_epochs = min(n_epochs, 1 + math.floor(max(0.0, math.log(room) / math.log(anchor_growth))))
    return Pace(n_epochs, condition, step_size or min(1.0, 2.0 * condition) / setting.smoothness)


def equal_epochs(n_epochs: int, n_inner: float) -> tuple[int, ...]:
    """Steps of every epoch, rounded up."""
    check_steps(n_epochs * max(1.0, n_inner))
    return (math.ceil(n_inner),) * n_epochs


def anchored_text(rate: float) -> str:
    """What an epoch asks, for the privacy statement."""
    return f"one noisy anchor per epoch, then noisy gradient differences at sampling rate {rate:.3g}"


def anchored_epoch(
    oracle: Oracle, problem: Problem, difference: PlannedQuery, anchor_gradient: Array, anchor: Array, start: Array,
    n_steps: int, step_size: float, averaging: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Lines 5 to 10 of Algorithm 1 around a released anchor gradient: the last iterate, the mean of the last ones."""
    w, total, n_averaged = start, np.zeros(start.size), max(1, round(averaging * n_steps))
    for t in range(n_steps):  # line 5
        v = oracle.ask(difference, w, anchor) + anchor_gradient  # lines 6, 7
        w = problem.prox(w - step_size * v, step_size)  # line 8
        if t >= n_steps - n_averaged:
            total += w
    return w, total / n_averaged  # line 10
