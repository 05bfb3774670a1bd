"""What a loss is: f(w, z) = ℓ(⟨w, x⟩, y), with bounds on ℓ' and ℓ'' that need no data."""

from abc import ABC, abstractmethod
from dataclasses import astuple
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.problem.losses.slips import check_bounds
from dperm.validation import count, positive

Array = NDArray[np.float64]


def class_numbers(target: Array, n_classes: int) -> Array:
    """Keep whole numbers 0 … K−1, turn everything else into NaN."""
    known = (target >= 0) & (target < n_classes) & (np.floor(target) == target)
    return np.where(known, target, np.nan)


class RowLoss(ABC):
    """What a problem must know of the loss of one row, whatever its form.

    A loss without margins has `n_outputs` 0. Its slope and curvature bounds are on ‖∇f‖₂ and the smoothness of f.
    """

    name: ClassVar[str]
    convex: ClassVar[bool]
    # Whether ∂ℓ/∂margin keeps its sign for every target, as it does for logistic and hinge losses: objective
    # perturbation then needs less noise.
    monotone: ClassVar[bool] = False
    # Whether ∂ℓ/∂margin is a sigmoid: monotone, with a curvature of at most 4 · curvature bound · t(1 − t) where the
    # slope is t times its bound. So near that bound, where rows are predicted badly, the curvature is near 0.
    sigmoidal: ClassVar[bool] = False
    # Whether rows are scaled to the declared norm. A function's gradients are clipped whatever the row's size.
    scales_rows: ClassVar[bool] = True

    @property
    def slope_is_the_sigmoid(self) -> bool:
        """Whether ∂ℓ/∂margin is the logistic function of the margin itself."""
        return False

    @property
    def slope_is_the_softmax(self) -> bool:
        """Whether the gradient in the margins is p − e_k with p the softmax of the margins and k the row's class."""
        return False

    @property
    def n_outputs(self) -> int:
        """Number of margins per row."""
        return 0

    @abstractmethod
    def dimension(self, width: int) -> int:
        """Number of coefficients for rows of this many entries, the constant one included."""

    def fan_in(self, width: int) -> int:
        """How many numbers the sums on a row's way have, one sum of every layer; no bound, only for step numbers."""
        return width

    def for_width(self, width: int) -> "RowLoss":
        """The loss for rows of this many entries, where its coefficients depend on how many there are."""
        return self

    def start(self, dimension: int) -> Array:
        """Where a solver starts, unless the domain is elsewhere."""
        return np.zeros(dimension)

    @abstractmethod
    def slope_bound(self, margin_bound: float) -> float:
        """A bound on the gradient of one row."""

    @abstractmethod
    def curvature_bound(self, margin_bound: float) -> float:
        """A bound on its smoothness."""

    @property
    @abstractmethod
    def clipped_range(self) -> tuple[float, float] | None:
        """The range that targets are clipped to, or None where they are classes."""

    @property
    @abstractmethod
    def value_at_zero(self) -> float:
        """A public bound on the risk at the start, which is w = 0 where nothing else is said."""

    @abstractmethod
    def encode(self, target: Array) -> Array:
        """Bring targets into the allowed set, row by row; NaN marks a row that is ignored."""

    @abstractmethod
    def check_bounds(self, margin_bound: float) -> None:
        """Raise if the declared bounds are visibly wrong."""


class Loss(RowLoss):
    """A generalized linear loss ℓ(margin, target, *parameters).

    A new loss is a frozen dataclass whose fields are its numeric parameters. `value` and
    `derivative` are static and written with numpy functions, for arrays. dperm's own losses have native
    derivatives too (kernel/cpp/losses.hpp). See docs/extending.md for a loss in ten lines.

    A loss with `n_outputs` > 1 sees a vector of margins; its `derivative` takes a third argument, the
    array that receives the derivative, and its bounds are on the l2 norm and the spectral norm.
    """

    @property
    def slope_is_the_sigmoid(self) -> bool:
        """Whether ∂ℓ/∂margin is the logistic function of the margin itself, so that the gradient moves less at small w.

        No kernel enforces the form of a slope, only its size. So it is believed of a class of this package that says it
        of itself (`its_slope_is_the_sigmoid = True`), and of no subclass and nobody else's loss.
        """
        return self._says_of_itself("its_slope_is_the_sigmoid")

    @property
    def slope_is_the_softmax(self) -> bool:
        """Whether the gradient in the margins is p − e_k, p the softmax of the margins; believed as the above is."""
        return self._says_of_itself("its_slope_is_the_softmax")

    def _says_of_itself(self, claim: str) -> bool:
        kind = type(self)
        return kind.__module__.startswith(f"{__package__}.") and bool(vars(kind).get(claim, False))

    @property
    def n_outputs(self) -> int:
        """Number of margins per row: 1, or the number of classes."""
        return 1

    def dimension(self, width: int) -> int:
        """One coefficient per output and entry."""
        return self.n_outputs * width

    @property
    def parameters(self) -> tuple[float, ...]:
        """The numbers handed to `value` and `derivative` after margin and target."""
        return tuple(float(number) for number in astuple(self))  # type: ignore[call-overload]

    @staticmethod
    @abstractmethod
    def value(*args: Any, **kwargs: Any) -> Any:
        """ℓ(margin, target, *parameters), never below 0."""

    @staticmethod
    @abstractmethod
    def derivative(*args: Any, **kwargs: Any) -> Any:
        """∂ℓ/∂margin at (margin, target, *parameters)."""

    @abstractmethod
    def slope_bound(self, margin_bound: float) -> float:
        """A bound on |∂ℓ/∂margin| for |margin| ≤ margin_bound and every allowed target."""

    @abstractmethod
    def curvature_bound(self, margin_bound: float) -> float:
        """A bound on |∂²ℓ/∂margin²| for |margin| ≤ margin_bound and every allowed target."""

    @property
    @abstractmethod
    def target_range(self) -> tuple[float, float]:
        """The smallest and the largest target."""

    @property
    def clipped_range(self) -> tuple[float, float] | None:
        """The range that targets are clipped to, or None where they are classes."""
        return None

    @abstractmethod
    def encode(self, target: Array) -> Array:
        """Bring targets into the allowed set, row by row; NaN marks a row that is ignored."""

    @property
    def value_at_zero(self) -> float:
        """The largest ℓ(0, y) over allowed targets: a public bound on the risk of w = 0."""
        low, high = self.target_range
        return float(max(self.value(0.0, low, *self.parameters), self.value(0.0, high, *self.parameters)))

    @classmethod
    def example(cls) -> Self:
        """Build an instance with ordinary parameters, for the contract tests."""
        return cls()

    def clipped(self, share: float) -> "Loss":
        """A convex loss whose gradients, clipped to this share of their bound, are its own.

        For one margin that is this loss, since the kernels' clip leaves ℓ' non-decreasing.
        """
        return self

    def check_bounds(self, margin_bound: float) -> None:
        """Raise if the declared bounds are visibly wrong (`slips.py`)."""
        check_bounds(self, margin_bound)


class SignLoss(Loss):
    """A loss for two classes, target −1 or +1: whatever is above 0 counts as +1."""

    @property
    def target_range(self) -> tuple[float, float]:
        """The two classes."""
        return -1.0, 1.0

    def encode(self, target: Array) -> Array:
        """Map targets above 0 to +1, the others to −1, and keep NaN."""
        return np.where(np.isnan(target), np.nan, np.where(target > 0, 1.0, -1.0))


class ClassLoss(Loss):
    """A loss for K classes: one margin and one number 0 … K−1 for each."""

    n_classes: int

    def __post_init__(self) -> None:
        """Check the number of classes."""
        if count("n_classes", self.n_classes) < 2:
            raise InvalidParameterError("n_classes must be at least 2.")

    @property
    def n_outputs(self) -> int:
        """One margin per class."""
        return self.n_classes

    @property
    def target_range(self) -> tuple[float, float]:
        """Class numbers."""
        return 0.0, float(self.n_classes - 1)

    def encode(self, target: Array) -> Array:
        """Keep whole numbers 0 … K−1, turn everything else into NaN."""
        return class_numbers(target, self.n_classes)

    @classmethod
    def example(cls) -> Self:
        """Three classes."""
        return cls(n_classes=3)  # type: ignore[call-arg]


class ResidualLoss(Loss):
    """A loss for regression, target clipped to [−target_bound, target_bound]."""

    target_bound: float

    def __post_init__(self) -> None:
        """Check the declared bound."""
        positive("target_bound", self.target_bound)

    @property
    def target_range(self) -> tuple[float, float]:
        """The declared range."""
        return -self.target_bound, self.target_bound

    @property
    def clipped_range(self) -> tuple[float, float] | None:
        """The declared range."""
        return self.target_range

    def encode(self, target: Array) -> Array:
        """Clip targets to the declared range; NaN stays NaN."""
        return np.clip(target, *self.target_range)
