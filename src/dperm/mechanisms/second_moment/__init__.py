"""The sum over rows of x xᵀ, for rows of bounded norm."""

import math
from dataclasses import dataclass

from dperm.accounting.events import Event
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Mechanism, whole_change
from dperm.mechanisms.bounded_sum import BoundedSum
from dperm.mechanisms.hessian import LARGEST_HESSIAN
from dperm.mechanisms.setting import summation_slack
from dperm.privacy.guarantee import Adjacency
from dperm.validation import count, size


@dataclass(frozen=True)
class SecondMoment(Mechanism):
    """Σ x_i x_iᵀ plus symmetric Gaussian noise, where the trusted code clips every row.

    The noise has variance σ² on the diagonal and σ²/2 off it, as that of a Hessian.
    Proof: docs/proofs/preprocessing.md.

    Parameters
    ----------
    setting : TableFacts
        The public n and the adjacency.
    what : str
        What is added up, in words for the statement.
    width : int
        Columns of a row.
    row_norm : float
        Every row is scaled to at most this l2 norm.

    Guarantees
    ----------
    A row with a value that is not finite adds nothing. One row more or less moves the sum by at most row_norm² in the
    Frobenius norm, and one replaced by √2·row_norm².
    """

    what: str
    width: int
    row_norm: float

    def __post_init__(self) -> None:
        """There must be a column, not too many to hold the matrix, and a bound."""
        size("row_norm", self.row_norm)
        if count("width", self.width) > LARGEST_HESSIAN:
            raise InvalidParameterError(
                f"a second moment has {self.width}² entries here; it is not released beyond {LARGEST_HESSIAN}²."
            )

    @property
    def size(self) -> int:
        """Numbers that are released: the matrix is symmetric."""
        return self.width * (self.width + 1) // 2

    @property
    def row(self) -> BoundedSum:
        """How a row is clipped."""
        return BoundedSum(self.setting, self.what, self.width, self.row_norm)

    @property
    def sensitivity(self) -> float:
        """In the Frobenius norm, padded for rounding in the sum."""
        moved = math.sqrt(2.0) if self.setting.adjacency is Adjacency.REPLACE_ONE else 1.0
        rounding = self.setting.adjacency.records_moved * summation_slack(self.setting)
        return self.row_norm**2 * (moved + rounding) * (1.0 + 1e-15)

    def event(self, noise_multiplier: float) -> Event:
        """What the sum costs."""
        return whole_change(self, noise_multiplier)
