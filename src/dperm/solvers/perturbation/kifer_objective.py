"""Objective perturbation of Kifer, Smith and Thakurta 2012: non-smooth regularizers and convex domains."""

from dataclasses import dataclass

from dperm.solvers.base import Profile
from dperm.solvers.perturbation.objective import OneMinimisation


@dataclass(frozen=True)
class KiferObjective(OneMinimisation):
    """argmin over C of F^r(w) + (ridge/2)‖w‖² + ⟨b, w⟩/n, b Gaussian, or of density ∝ exp(−‖b‖/scale) for δ = 0.

    Parameters
    ----------
    ridge : float, optional
        Strength of the ridge that is added to the problem's own. By default so much that the total is at least
        √(E‖b‖²)/(nD), which balances noise and bias for a minimiser of norm D, and that the change of variables costs
        at most a third of ε; with noise="paper" 2β/(nε).
    nominal_distance : float
        A public guess at ‖w*‖ · R where the domain does not bound it. It steers the ridge, not privacy.

    Examples
    --------
    >>> from dperm import PrivateLogisticRegression
    >>> from dperm.solvers import KiferObjective
    >>> PrivateLogisticRegression(epsilon=1.0, solver=KiferObjective()).plan(200_000, 54).privacy.noise_multiplier < 7
    True
    """

    name = "kifer-objective"
    listed = 9
    gaussian = True
    profile = Profile(
        summary="the minimiser of the objective with a random linear term",
        source="Kifer, Smith and Thakurta 2012, Algorithm 1; accounted exactly for losses of one margin",
        table="Tables 1 and 2, Kifer et al.",
        utility="p/(μn²ε²) + β‖w*‖²/(nε) strongly convex; √p/(nε) convex",
        gradients="until the minimiser is solved for",
        regularizers="any, non-smooth ones too; any domain",
        adjacency="published for add_remove; certified for both",
        needs="convex smooth loss of one margin",
    )
