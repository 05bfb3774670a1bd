"""Accounting events that dp-accounting does not have. Each says all that its price needs."""

from dataclasses import dataclass

from dp_accounting import dp_event


@dataclass(frozen=True)
class PureDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """A mechanism that is ε-differentially private with δ = 0, under the adjacency of its plan.

    Attributes
    ----------
    epsilon : float
        ε.
    """

    epsilon: float


@dataclass(frozen=True)
class ObjectivePerturbationDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """The minimiser of an objective with a random Gaussian linear term (docs/proofs/objective_perturbation.md).

    Attributes
    ----------
    noise_multiplier : float
        σ/G: the standard deviation of the linear term over one record's largest gradient.
    log_jacobian : float
        ln(1 + β/Λ): what the change of variables from the linear term to the minimiser can cost.
    monotone : bool
        Whether every row's slope keeps its sign.
    remainder : float
        ε of the output noise that hides how far the minimisation was from done.
    sigmoidal : bool
        Whether a row's ℓ''‖x‖² is at most 4β t(1 − t) where its gradient is t times the largest, before slopes are cut.
    slope_share : float
        The share of their bound that slopes are cut to; the noise multiplier is relative to what is left.
    """

    noise_multiplier: float
    log_jacobian: float
    monotone: bool
    remainder: float
    sigmoidal: bool = False
    slope_share: float = 1.0
