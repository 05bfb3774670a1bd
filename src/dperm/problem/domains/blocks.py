"""Domains for parts of the coefficients, such as single layers of a network."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from dperm.errors import InvalidParameterError
from dperm.problem.domains.base import Array, Domain
from dperm.problem.domains.box import Box
from dperm.problem.domains.l2_ball import L2Ball
from dperm.validation import disjoint_blocks


@dataclass(frozen=True)
class BlockDomain(Domain):
    """C = {w : w_b ∈ C_b for every block b} of consecutive coefficients; those outside of all blocks are free.

    Parameters
    ----------
    blocks : sequence of (start, stop, Domain)
        `FunctionLoss.domain` makes them from names.

    Examples
    --------
    >>> import numpy as np
    >>> BlockDomain(((0, 2, L2Ball(1.0)),)).project(np.array([3.0, 4.0, 9.0])).tolist()
    [0.6000000000000001, 0.8, 9.0]
    """

    blocks: tuple[tuple[int, int, Domain], ...]

    name = "block"

    def __post_init__(self) -> None:
        """Check that blocks do not overlap and hold domains."""
        object.__setattr__(self, "blocks", disjoint_blocks(self.blocks))
        for start, stop, part in self.blocks:
            if not isinstance(part, Domain):
                raise InvalidParameterError(f"a block needs a dperm Domain, got {part!r}.")
            part.check_dimension(stop - start)

    def project(self, w: Array) -> Array:
        """Every block on its own."""
        projected = w.copy()
        for start, stop, part in self.blocks:
            projected[start:stop] = part.project(w[start:stop])
        return projected

    def minkowski_norm(self, w: Array) -> float:
        """The largest of the blocks'."""
        return max(part.minkowski_norm(w[start:stop]) for start, stop, part in self.blocks)

    def dual_norm(self, v: Array) -> float:
        """The sum of the blocks'; infinite in a direction that no block bounds."""
        free = v.copy()
        for start, stop, _ in self.blocks:
            free[start:stop] = 0.0
        return math.inf if free.any() else sum(part.dual_norm(v[start:stop]) for start, stop, part in self.blocks)

    def norm_bound(self, dimension: int) -> float:
        """Of all blocks together."""
        return math.sqrt(self._together(dimension, lambda part, size: part.norm_bound(size) ** 2))

    def l1_bound(self, dimension: int) -> float:
        """The sum of the blocks'."""
        return self._together(dimension, lambda part, size: part.l1_bound(size))

    def diameter(self, dimension: int) -> float:
        """Of all blocks together."""
        return math.sqrt(self._together(dimension, lambda part, size: part.diameter(size) ** 2))

    def gaussian_width(self, dimension: int) -> float:
        """The sum of the blocks'."""
        return self._together(dimension, lambda part, size: part.gaussian_width(size))

    def check_dimension(self, dimension: int) -> None:
        """The last block must exist."""
        needed = max(stop for _, stop, _ in self.blocks)
        if needed > dimension:
            raise InvalidParameterError(f"the block domain needs {needed} coefficients, the problem has {dimension}.")

    def _together(self, dimension: int, measure: Callable[[Domain, int], float]) -> float:
        if sum(stop - start for start, stop, _ in self.blocks) < dimension:
            return math.inf
        return sum(measure(part, stop - start) for start, stop, part in self.blocks)

    @classmethod
    def example(cls) -> Self:
        """Two blocks, and coefficients outside of them."""
        return cls(((0, 2, L2Ball(0.5)), (3, 5, Box(-0.2, 0.4))))
