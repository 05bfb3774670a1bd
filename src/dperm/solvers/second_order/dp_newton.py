"""Noisy Newton steps for convex losses of one margin."""

from dataclasses import dataclass

from dperm.solvers.base import Profile
from dperm.solvers.second_order.newton_step import SecondOrderSolver


@dataclass(frozen=True)
class DPNewton(SecondOrderSolver):
    """K noisy gradients, the last with most of the budget, each followed by a step to the least of a quadratic model.

    The model's Hessian is released a few times, and cleaned of its noise by what is public about it; its gradient is
    pooled from all that were released so far. Every step is limited in length, and shrunk by as much as its noise
    explains (empirical Bayes). All of that is post-processing.

    Parameters
    ----------
    n_steps : int
        K, the number of noisy gradients.
    n_hessians : int
        How many of the steps, spread evenly from the first on, ask for a new Hessian.
    hessian_share : float
        Share of the budget for Hessians, within [1e-6, 1 − 1e-6].
    gradient_growth : float
        How much more of the budget every gradient gets than the one before it, within [1e-3, 1e3]: the last decides.
    nominal_distance : float
        No step is longer, in units of G/(4L), which is 1/R for logistic loss; half of it is the guess at ‖w*‖ of
        `expected_risk`. It has no weight for privacy.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import DPNewton
    >>> PrivateLogisticRegression(epsilon=1.0, solver=DPNewton()).plan(200_000, 54).passes
    9.0
    """

    name = "dp-newton"
    listed = 18
    profile = Profile(
        summary="a few noisy Newton steps on released Hessians",
        source="Newton's method with symmetric Gaussian noise on Hessians and empirical-Bayes shrinkage",
        table="none",
        utility="p/(μn²ε²) strongly convex, where the Hessian stands out from its noise √p/(nε)",
        gradients="n·K, and a Hessian three times",
        regularizers="ridge or none; the whole space or an l2 ball",
        adjacency="certified for both",
        needs="convex smooth loss of one margin",
    )
