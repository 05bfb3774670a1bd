"""Domains that have few vertices, one of which can be chosen privately."""

from abc import abstractmethod

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.problem.domains.base import Array
from dperm.problem.geometry.mirror import EntropicMap


class EntropicDomain(EntropicMap):
    """A polytope with few vertices: points are weights on them."""

    @abstractmethod
    def n_vertices(self, dimension: int) -> int:
        """Number of vertices that weights are put on."""

    @abstractmethod
    def coefficients(self, point: Array) -> Array:
        """The point of C that weights on the vertices stand for."""

    @abstractmethod
    def pull_back(self, gradient: Array) -> Array:
        """The slope towards every vertex."""

    def check_dimension(self, dimension: int) -> None:
        """Raise if a vertex lies outside the declared norm bound, looking at a few of them.

        The sensitivity of choosing a vertex rests on that bound. This catches slips and is not a proof.
        """
        count = self.n_vertices(dimension)
        for index in {0, min(1, count - 1), count // 3, count // 2, max(count - 2, 0), count - 1}:
            vertex = self.coefficients(np.eye(1, count, index)[0])
            if not float(np.linalg.norm(vertex)) <= self.norm_bound(dimension) * (1.0 + 1e-9):
                raise InvalidParameterError(f"a vertex of {self.name} is longer than its declared norm bound.")
