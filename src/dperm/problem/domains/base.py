"""What a domain is: a closed convex set C of coefficients, what sensitivities and proximal steps need of it."""

import math
from abc import abstractmethod
from typing import ClassVar, Self

from dperm.problem.geometry.base import Array as Array
from dperm.problem.geometry.base import Geometry


class Domain(Geometry):
    """A closed convex set; sizes depend on the number p of coefficients and never on data."""

    name: ClassVar[str]

    @abstractmethod
    def project(self, w: Array) -> Array:
        """The point of C nearest to w in l2."""

    @abstractmethod
    def norm_bound(self, dimension: int) -> float:
        """Max over w in C of ‖w‖₂."""

    def l1_bound(self, dimension: int) -> float:
        """A bound on ‖w‖₁ over C; where nothing better is known, √p times the l2 bound."""
        return math.sqrt(dimension) * self.norm_bound(dimension)

    @abstractmethod
    def diameter(self, dimension: int) -> float:
        """Max over w, w' in C of ‖w − w'‖₂."""

    def check_dimension(self, dimension: int) -> None:
        """Raise if C is not a set of vectors of that length."""

    @classmethod
    def example(cls) -> Self:
        """Build an instance with ordinary parameters, for the contract tests."""
        return cls()
