"""DP-Spider: full gradients now and then, and between them privately released changes of the gradient."""

import math
from dataclasses import dataclass

from dperm.mechanisms.plan import Plan
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile, Solver
from dperm.solvers.descent.stochastic import distance_bound
from dperm.solvers.variance_reduced.stationary import Stationary, StationarySettings
from dperm.validation import one_of


@dataclass(frozen=True)
class DPSpider(Solver):
    """Noisy descent along v_t, which follows the gradient by its released changes from one iterate to the next.

    w_{t+1} = prox_{ηr, C}(w_t − ηv_t). Every `period` steps v_t is a noisy full gradient; otherwise
    v_t = v_{t−1} + [∇F(w_t) − ∇F(w_{t−1}) + noise], whose noise is proportional to ‖w_t − w_{t−1}‖ and so costs little.

    Parameters
    ----------
    n_steps : int, optional
        T. This, the period and the step size minimise the bound with explicit constants (docs/proofs/spider.md).
    period : int, optional
        Steps from one full gradient to the next; 1 is DP-GD.
    step_size : float, optional
        η, at most 1/L, and below it if the period is above 1.
    release : {"shortest", "uniform"}
        The iterate whose step ‖w_{t+1} − w_t‖ was the shortest, or one drawn uniformly from w_0 … w_{T−1}, for which
        the bound is proved.
    nominal_distance : float
        A public guess at ‖w* − start‖ · R where no domain bounds it. Only the predicted risk rests on it.
    max_steps : int
        Cap on the default T, a matter of running time.

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.problem import Sigmoid
    >>> from dperm.solvers import DPSpider
    >>> fit = FitOptions(Problem(Sigmoid()), guarantee=Guarantee(1.0, 1e-6), solver=DPSpider()).plan(30_000, 100)
    >>> fit.settings.period > 1
    True
    """

    n_steps: int | None = None
    period: int | None = None
    step_size: float | None = None
    release: str = "shortest"
    nominal_distance: float = 10.0
    max_steps: int = 1_000

    name = "dp-spider"
    listed = 21
    takes_start = True
    profile = Profile(
        summary="descent along gradients kept up to date by their noisy changes",
        source="after SpiderBoost (Wang et al. 2019) and DIFF2 (Murata and Suzuki 2023)",
        table="none; section 6 has its rival, DP-GD",
        utility="(√p/(nε))^{4/3} for the squared gradient norm, non-convex",
        gradients="n·(2T − T/period)",
        regularizers="any, non-smooth ones by a proximal step; any domain; the bound is for none of either",
        adjacency="certified for both",
        needs="smooth loss, convex or not",
    )

    def __post_init__(self) -> None:
        """Check the settings that were given."""
        super().__post_init__()
        one_of("release", self.release, ("shortest", "uniform"))

    def refusal(self, problem: Problem) -> str | None:
        """Every problem that dperm can state is smooth."""
        return None

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[StationarySettings]:
        """Choose T, the period, η and the shares."""
        return self._method.plan(setting, guarantee)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[StationarySettings], start: Array) -> Array:
        """Ask for a gradient or for its change from the iterate before, and step."""
        return self._method.run(oracle, problem, plan, start, self.release)

    def gradient_bound(self, setting: Setting, guarantee: Guarantee) -> float:
        """That of docs/proofs/spider.md, for release="uniform"."""
        return self._method.pace(setting, guarantee).bound

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """D √(bound), as if F were convex around what is found, and never above the gap at the start.

        D is the domain's diameter or the nominal distance. For convex losses others do far better.
        """
        if setting.constants.convex:
            return math.inf
        distance = distance_bound(setting, self.nominal_distance)
        return min(setting.constants.initial_gap, distance * math.sqrt(self.gradient_bound(setting, guarantee)))

    @property
    def _method(self) -> Stationary:
        return Stationary(self.name, False, self.n_steps, self.period, self.step_size, self.max_steps)
