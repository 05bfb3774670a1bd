"""The minimiser of an objective with a random linear term: objective perturbation."""

import math
from dataclasses import dataclass, field

from dperm.accounting.events import Event, ObjectivePerturbation, Pure, SoftmaxPerturbation, UnitPerturbation
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Query, check_minimiser, check_solvable
from dperm.mechanisms.setting import Setting
from dperm.validation import finite, nonnegative, one_of, positive


@dataclass(frozen=True)
class ObjectivePerturbationQuery(Query):
    """argmin over C of F^r(w) + (ridge/2)‖w − v‖² + ⟨b, w⟩/n at a released v, plus a little noise for the remainder.

    `distribution` "Gaussian" takes b ~ N(0, scale² I), "Gamma" a density ∝ exp(−‖b‖/scale), which makes it pure. The
    minimisation ends where a subgradient is at most `tolerance` long; noise of density ∝ exp(−‖e‖/remainder_scale) on
    the answer hides the rest, and costs `remainder` of ε. Proofs: docs/proofs/objective_perturbation.md, for several
    classes docs/proofs/softmax_perturbation.md, and for units of many rows docs/proofs/units.md.

    A `slope_share` below 1 clips every row's slope ℓ' to that share of its bound, or cuts the probabilities that a
    softmax gives to wrong classes. That is objective perturbation of another convex loss, which is linear where |ℓ'|
    would exceed that share: less noise, and a bias where many rows have larger slopes.

    Guarantees
    ----------
    Holds for convex losses of one margin, ∇f(w, z) = ℓ'(⟨w, x⟩, y) x, with a smooth derivative, and for the softmax
    loss; for every regularizer and domain whose proximal step is exact; and for a total strong convexity
    n(μ + ridge) > 0.
    """

    ridge: float
    tolerance: float
    remainder: float
    distribution: str = field()
    slope_share: float = 1.0

    def __post_init__(self) -> None:
        """Check what the proof needs."""
        check_minimiser("objective perturbation", self.setting)
        if self.setting.constants.n_outputs != 1 and not self.setting.constants.softmax:
            raise InvalidParameterError(
                "objective perturbation needs a loss of one margin or the softmax loss: its proofs know where a row's "
                "gradient may lie."
            )
        nonnegative("ridge", self.ridge)
        positive("remainder", self.remainder)
        if self.strong_convexity > 0.0:  # without it only a run without noise is planned
            check_solvable(self.setting, self.tolerance, self.strong_convexity)
        one_of("distribution", self.distribution, ("Gaussian", "Gamma"))
        if not 0.0 < finite("slope_share", self.slope_share) <= 1.0:
            raise InvalidParameterError(f"slope_share must lie in (0, 1], got {self.slope_share!r}.")

    @property
    def strong_convexity(self) -> float:
        """μ + ridge, of what is minimised."""
        return self.setting.constants.strong_convexity + self.ridge

    @property
    def sensitivity(self) -> float:
        """How far the linear term that belongs to a minimiser moves: by the gradients of the rows that differ."""
        return self.setting.adjacency.records_moved * self.setting.constants.lipschitz * self.slope_share

    @property
    def log_jacobian(self) -> float:
        """Σ ln(1 + β_i/(n(μ + ridge))) over the eigenvalues of the Hessian of what differs: R squared, not R.

        A row of one margin has one, β = sup ℓ''‖x‖². If there are more, they cost most where they are equal.
        """
        constants, rank = self.setting.constants, hessian_rank(self.setting)
        trace = constants.smoothness
        if constants.softmax:
            trace *= 2.0 * softmax_trace(constants.n_outputs, self.slope_share)  # L is half of R²
        curvature = trace / rank / (self.setting.n * positive("ridge", self.strong_convexity))
        return rank * math.log1p(curvature) * (1.0 + 1e-12)

    @property
    def remainder_scale(self) -> float:
        """Two answers that were solved for lie within tolerance/(μ + ridge) of their minimisers."""
        if self.strong_convexity == 0.0:
            return math.inf  # only a run without noise, which has no privacy cost, goes that far
        return positive(
            "the noise for the remainder",
            2.0 * self.tolerance / self.strong_convexity / self.remainder * (1.0 + 1e-12),
        )

    @property
    def gradients_per_row(self) -> float:
        """Not public: the minimisation ends when it is done."""
        return math.inf

    def event(self, noise_multiplier: float) -> Event:
        """What the answer costs, remainder included."""
        multiplier = positive("noise multiplier", noise_multiplier)
        if self.distribution == "Gamma":
            return Pure((1.0 / multiplier + self.log_jacobian + self.remainder) * (1.0 + 1e-12))
        per_record = multiplier * self.setting.adjacency.records_moved
        return self._gaussian_event(per_record, self.setting.constants.sigmoidal)

    def _gaussian_event(self, per_record: float, sigmoidal: bool) -> Event:
        """With noise of this many times the largest gradient, and what a sigmoidal loss has if that may be used."""
        setting, constants = self.setting, self.setting.constants
        cost, remainder, monotone = self.log_jacobian, self.remainder, constants.monotone
        if setting.rows_together != 1:
            rank, outputs = hessian_rank(setting), constants.n_outputs
            return UnitPerturbation(
                per_record, cost, rank, outputs, monotone, remainder, sigmoidal, self.slope_share
            )  # fmt: skip
        if constants.softmax:
            return SoftmaxPerturbation(per_record, cost, constants.n_outputs, remainder)
        return ObjectivePerturbation(per_record, cost, monotone, remainder, sigmoidal, self.slope_share)


def hessian_rank(setting: Setting) -> int:
    """How many eigenvalues of the Hessian of all rows that may differ together are not 0 at most.

    A row has one for each of its margins, less one for the softmax, and no more rows count than there are columns.
    """
    outputs = max(1, setting.constants.n_outputs)
    columns, rows = setting.constants.dimension // outputs, setting.rows_together
    return (columns if rows is None else min(rows, columns)) * (outputs - 1 if setting.constants.softmax else 1)


def softmax_trace(n_classes: int, cut: float) -> float:
    """The largest trace of diag(p) − p pᵀ over the p of the simplex that leave at most `cut` to K − 1 of its classes.

    1 − (1 − q)² − Σ p_k² with Σ p_k = q ≤ cut over these is largest where they are equal, and grows up to q = 1 − 1/K.
    """
    share = min(cut, 1.0 - 1.0 / n_classes)
    return share * (2.0 - share * n_classes / (n_classes - 1.0)) * (1.0 + 1e-12)
