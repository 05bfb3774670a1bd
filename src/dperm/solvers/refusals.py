"""Why a method cannot take a problem: the sentences that several of them share."""

from dperm.problem import Problem
from dperm.problem.geometry.mirror import MirrorDomain
from dperm.problem.regularizers import NoRegularizer


def needs_convexity(problem: Problem) -> str | None:
    """Why a method for convex problems cannot take this one, or None."""
    return None if problem.loss.convex else f"it needs a convex loss, which {problem.loss.name} is not."


def needs_strong_convexity(problem: Problem) -> str | None:
    """Why a method for strongly convex problems cannot take this one, or None."""
    reason = needs_convexity(problem)
    if reason is None and problem.regularizer.strong_convexity == 0.0:
        reason = "it needs a strongly convex regularizer, such as L2 or an elastic net."
    return reason


def needs_one_margin(problem: Problem) -> str | None:
    """Why a method that moves along one row's direction cannot take this one, or None."""
    if problem.loss.n_outputs == 1:
        return None
    return f"it needs a loss of one margin, and {problem.loss.name} has {problem.loss.n_outputs or 'none'}."


def needs_no_regularizer(problem: Problem) -> str | None:
    """Why a method that minimises F alone over C cannot take this one, or None."""
    if isinstance(problem.regularizer, NoRegularizer):
        return None
    return f"it minimises over a domain without a regularizer, and got {problem.regularizer.name}."


def needs_a_mirror_map(problem: Problem) -> str | None:
    """Why a mirror method, for convex losses alone on a bounded domain, cannot take this one, or None."""
    reason = needs_convexity(problem) or needs_no_regularizer(problem)
    if reason is None and not isinstance(problem.domain, MirrorDomain):
        reason = f"it needs a bounded domain with a mirror map, which {problem.domain.name} is not."
    return reason
