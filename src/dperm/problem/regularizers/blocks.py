"""Regularizers on parts of the coefficients, such as single layers of a network."""

from dataclasses import dataclass
from typing import Self

from dperm.errors import InvalidParameterError
from dperm.problem.regularizers.base import Array, Regularizer, require_dimension
from dperm.problem.regularizers.l1 import L1
from dperm.problem.regularizers.l2 import L2
from dperm.validation import disjoint_blocks


@dataclass(frozen=True)
class BlockRegularizer(Regularizer):
    """r(w) = Σ_b r_b(w_b) over blocks of consecutive coefficients; those outside of all blocks have none.

    Parameters
    ----------
    blocks : sequence of (start, stop, Regularizer)
        `FunctionLoss.regularizer` makes them from names.

    Examples
    --------
    >>> import numpy as np
    >>> BlockRegularizer(((0, 2, L1(1.0)), (3, 4, L2(2.0)))).value(np.array([1.0, -1.0, 9.0, 1.0]))
    3.0
    """

    blocks: tuple[tuple[int, int, Regularizer], ...]

    name = "block"
    projects_exactly_onto = frozenset({"whole_space"})

    def __post_init__(self) -> None:
        """Check that blocks do not overlap and hold regularizers."""
        object.__setattr__(self, "blocks", disjoint_blocks(self.blocks))
        for start, stop, part in self.blocks:
            if not isinstance(part, Regularizer):
                raise InvalidParameterError(f"a block needs a dperm Regularizer, got {part!r}.")
            part.check_dimension(stop - start)

    def value(self, w: Array) -> float:
        """The sum over the blocks."""
        return sum(part.value(w[start:stop]) for start, stop, part in self.blocks)

    def prox(self, v: Array, step: float) -> Array:
        """Every block on its own."""
        w = v.copy()
        for start, stop, part in self.blocks:
            w[start:stop] = part.prox(v[start:stop], step)
        return w

    def check_dimension(self, dimension: int) -> None:
        """The last block must exist."""
        require_dimension(max(stop for _, stop, _ in self.blocks), dimension, "the block regularizer")

    @classmethod
    def example(cls) -> Self:
        """Two blocks, and coefficients outside of them."""
        return cls(((0, 2, L1(0.1)), (3, 5, L2(0.3))))
