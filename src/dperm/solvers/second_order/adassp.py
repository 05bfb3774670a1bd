"""AdaSSP: linear regression from released second moments, with noisy residual corrections."""

from dataclasses import dataclass
from typing import ClassVar

from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.losses import Squared
from dperm.solvers.base import Profile
from dperm.solvers.second_order.newton_step import SecondOrderSolver


@dataclass(frozen=True)
class AdaSSP(SecondOrderSolver):
    """Least squares from a released XᵀX, then corrections by noisy gradients: w ← w − (Ĥ + λI)⁻¹(g̃ + λw).

    The first gradient, at w = 0, is −Xᵀy/n. The later ones are asked nearer to the answer, where the noise of XᵀX
    matters less, with a larger part of the budget; all are pooled by their noise. Eigenvalues of XᵀX are kept above its
    noise, and what is found is shrunk by empirical Bayes; both are
    post-processing. noise="paper" is AdaSSP as published.

    Parameters
    ----------
    n_steps : int
        K, the number of noisy gradients.
    n_hessians : int
        How many of the steps, spread evenly from the first on, ask for XᵀX.
    hessian_share : float
        Share of the budget for XᵀX, within [1e-6, 1 − 1e-6].
    gradient_growth : float
        How much more of the budget every gradient gets than the one before it, within [1e-3, 1e3]: the last decides.
    nominal_distance : float
        No step is longer, in units of G/(4L). It has no weight for privacy.

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.problem import L2Ball, Squared
    >>> from dperm.solvers import AdaSSP
    >>> problem = Problem(Squared(), domain=L2Ball(3.0))
    >>> options = FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver=AdaSSP())
    >>> options.plan(20_000, 8).passes
    4.0
    """

    n_steps: int = 3
    n_hessians: int = 1
    hessian_share: float = 0.2
    gradient_growth: float = 3.0
    nominal_distance: float = 20.0

    noiseless_steps: ClassVar[int] = 3

    name = "adassp"
    listed = 19
    profile = Profile(
        summary="least squares from noisy second moments, with noisy residual corrections",
        source="Wang 2018, Algorithm 2 (AdaSSP); with exact accounting, symmetric noise and corrections",
        table="none",
        utility="p/(n²ε²) tr((XᵀX/n)⁻¹)/p, or √p/(nε) where that is less",
        gradients="n·K, and XᵀX once",
        regularizers="ridge or none; an l2 ball",
        adjacency="published for add_remove; certified for both",
        needs="squared loss",
    )

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """Less than for steps whose Hessian changes on the way: 0.7 to 0.9 of theirs was measured at ε up to 1."""
        return 0.6 * super().expected_risk(setting, guarantee)

    def refusal(self, problem: Problem) -> str | None:
        """Squared loss only: its Hessian is the same everywhere."""
        if not isinstance(problem.loss, Squared):
            return f"it is for squared loss, not for {problem.loss.name}."
        return super().refusal(problem)
