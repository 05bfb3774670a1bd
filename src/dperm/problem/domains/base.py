"""What a domain is: a closed convex set C of coefficients, with the geometry the paper's section 5 needs."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Domain(ABC):
    """A closed convex set; sizes depend on the number p of coefficients and never on data."""

    name: ClassVar[str]

    @abstractmethod
    def project(self, w: Array) -> Array:
        """The point of C nearest to w in l2."""

    @abstractmethod
    def minkowski_norm(self, w: Array) -> float:
        """Min {r ≥ 0 : w ∈ rC} (paper, Definition 5.1); infinite if no multiple of C holds w."""

    @abstractmethod
    def dual_norm(self, v: Array) -> float:
        """Max over w in C of |⟨w, v⟩|."""

    @abstractmethod
    def norm_bound(self, dimension: int) -> float:
        """Max over w in C of ‖w‖₂."""

    def l1_bound(self, dimension: int) -> float:
        """A bound on ‖w‖₁ over C; where nothing better is known, √p times the l2 bound."""
        return math.sqrt(dimension) * self.norm_bound(dimension)

    @abstractmethod
    def diameter(self, dimension: int) -> float:
        """Max over w, w' in C of ‖w − w'‖₂."""

    @abstractmethod
    def gaussian_width(self, dimension: int) -> float:
        """E max over w in C of ⟨w, g⟩, g standard normal (paper, Definition 5.2)."""

    def check_dimension(self, dimension: int) -> None:
        """Raise if C is not a set of vectors of that length."""

    @classmethod
    def example(cls) -> Self:
        """Build an instance with ordinary parameters, for the contract tests."""
        return cls()
