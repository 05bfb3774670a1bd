"""Objective perturbation whose clipping and ridge are chosen after seeing what was released before."""

from dataclasses import dataclass

from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import LARGEST_PULL, Array
from dperm.mechanisms.objective_perturbation import ObjectivePerturbationQuery
from dperm.mechanisms.slope_size import share_of
from dperm.validation import positive


@dataclass(frozen=True)
class AdaptedObjectiveQuery(ObjectivePerturbationQuery):
    """Objective perturbation around a released v, asked with two numbers: a share for slopes, and a ridge.

    Slopes are clipped at that share of their bound, and the noise is in proportion to it, so that an answer costs the
    same whatever the share. `ridge` is the least; a larger one costs less than is accounted for. Proof:
    docs/proofs/slope_size.md.

    Guarantees
    ----------
    Those of `ObjectivePerturbationQuery` with Gaussian noise and a loss of one margin, for every share and every ridge
    that it may be asked with, which may depend on what was released before.
    """

    n_points = 2

    def __post_init__(self) -> None:
        """Theorem 2 of objective perturbation holds for every share; what it takes from a sigmoid does not."""
        super().__post_init__()
        if self.setting.constants.n_outputs != 1:
            raise InvalidParameterError(
                "AdaptedObjectiveQuery supports single-output losses only; use ObjectivePerturbationQuery for softmax."
            )
        if self.distribution != "Gaussian" or self.slope_share != 1.0:
            raise InvalidParameterError("an adapted objective has Gaussian noise, and gets its share when it is asked.")

    @property
    def point_sizes(self) -> tuple[int, ...]:
        """The centre of the ridge; the share and the ridge."""
        return self.setting.constants.dimension, 2

    def ridge_of(self, numbers: Array) -> float:
        """The ridge that it is asked with: never below the least, nor so large that the loss is rounded away."""
        most = max(self.ridge, LARGEST_PULL * self.setting.smoothness - self.setting.constants.strong_convexity)
        return min(max(float(numbers[1]), self.ridge), most)

    def sensitivity_at(self, *points: Array) -> float:
        """How far the linear term moves with slopes clipped at the share asked with."""
        return share_of(points[1]) * self.sensitivity

    def event(self, noise_multiplier: float) -> Event:
        """What the answer costs at the least ridge, remainder included."""
        per_record = positive("noise multiplier", noise_multiplier) * self.setting.adjacency.records_moved
        return self._gaussian_event(per_record, sigmoidal=False)
