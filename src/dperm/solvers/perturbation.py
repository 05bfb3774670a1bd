"""What output and objective perturbation share: how exactly the minimiser is solved for, and what else they need."""

from dperm.privacy.guarantee import Guarantee
from dperm.privacy.setting import Setting, summation_slack
from dperm.problem import Problem
from dperm.prox import prox_is_exact

# The share of ε that hides how far a minimisation was from done.
REMAINDER_SHARE = 0.005

# The tolerance, as a share of the gradient's sensitivity: far below the noise.
_TOLERANCE_SHARE = 1e-7


def tolerance_for(setting: Setting) -> float:
    """Length of a subgradient at which a minimisation may end: far below the noise, and above what rounding can do."""
    moved = setting.adjacency.records_moved * setting.constants.lipschitz / setting.n
    # Rounding moves the mean gradient by at most half of slack · G/n.
    return moved * max(_TOLERANCE_SHARE, 4.0 * summation_slack(setting.n))


def remainder_for(guarantee: Guarantee | None) -> float:
    """What the remainder costs; any number will do for a run without noise."""
    return 1.0 if guarantee is None else REMAINDER_SHARE * guarantee.epsilon


def needs_a_stable_minimiser(problem: Problem) -> str | None:
    """Why the minimiser of this problem cannot be perturbed, or None."""
    if not problem.loss.convex:
        return f"it needs a convex loss, which {problem.loss.name} is not."
    if not prox_is_exact(problem.regularizer, problem.domain):
        return (
            f"it needs an exact proximal step, which {problem.regularizer.name} does not have on {problem.domain.name}."
        )
    return None
