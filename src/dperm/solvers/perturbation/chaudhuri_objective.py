"""Objective perturbation of Chaudhuri, Monteleoni and Sarwate 2011, with pure ε."""

from dataclasses import dataclass

from dperm.solvers.base import Profile
from dperm.solvers.perturbation.objective import OneMinimisation


@dataclass(frozen=True)
class ChaudhuriObjective(OneMinimisation):
    """argmin F^r(w) + (ridge/2)‖w‖² + ⟨b, w⟩/n with a density of b ∝ exp(−‖b‖/scale).

    Parameters
    ----------
    ridge : float, optional
        Strength of the ridge that is added to the problem's own; with noise="paper" as published.
    nominal_distance : float
        A public guess at ‖w*‖ · R where the domain does not bound it. It steers the ridge, not privacy.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import ChaudhuriObjective
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=0.0, solver=ChaudhuriObjective())
    >>> model.plan(200_000, 54).privacy.certified_delta
    0.0
    """

    name = "chaudhuri-objective"
    listed = 8
    gaussian = False
    profile = Profile(
        summary="the minimiser of the objective with a random linear term, pure ε",
        source="Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 2",
        table="Table 1, Chaudhuri et al.; objective perturbation",
        utility="p/(μn²ε²), with p² log²(p) in place of p for pure ε",
        gradients="until the minimiser is solved for",
        regularizers="published for twice differentiable ones; here any, and any domain",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss of one margin",
    )
