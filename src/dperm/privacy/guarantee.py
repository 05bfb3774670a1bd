"""What is promised, and between which tables: (ε, δ) and the adjacency."""

import enum
from dataclasses import dataclass

from dperm.errors import InvalidParameterError
from dperm.validation import finite, one_of, positive

# Under add_remove the number of rows is private, yet the smoothness of F = (1/n) Σ f grows with it.
# The guarantee therefore speaks of tables with at most this multiple of the declared n rows.
ROWS_ALLOWED_PER_DECLARED = 1.05

# Below these the accountants' rounding, though padded, would no longer be small relative to the promise.
SMALLEST_EPSILON, SMALLEST_DELTA = 1e-5, 1e-60
# Beyond this ε promises nothing at all.
LARGEST_EPSILON = 1e6


class Adjacency(enum.StrEnum):
    """Which two tables the attacker must not tell apart."""

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"

    @property
    def records_moved(self) -> int:
        """How many record contributions a sum can change by: 2 when one is replaced, 1 when one comes or goes."""
        return 2 if self is Adjacency.REPLACE_ONE else 1

    @classmethod
    def parse(cls, name: object) -> "Adjacency":
        """Read a name, or raise."""
        return cls(one_of("adjacency", name, tuple(member.value for member in cls)))


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ)-differential privacy: P[A(D) ∈ S] ≤ e^ε P[A(D') ∈ S] + δ for neighbouring D, D' and every S.

    Parameters
    ----------
    epsilon : float
        At least 1e-5 and at most 1e6.
    delta : float
        Below 0.1. A δ of 1/n or more would allow publishing a whole row, and a fit warns. 0 is pure ε, which only some
        solvers support.

    Examples
    --------
    >>> Guarantee(1.0, 1e-6)
    Guarantee(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse anything that is not a promise."""
        if positive("epsilon", self.epsilon) < SMALLEST_EPSILON:
            raise InvalidParameterError(f"epsilon must be at least {SMALLEST_EPSILON:g}, got {self.epsilon!r}.")
        if self.epsilon > LARGEST_EPSILON:
            raise InvalidParameterError(f"epsilon must be at most {LARGEST_EPSILON:g}, got {self.epsilon!r}.")
        if not 0.0 <= finite("delta", self.delta) < 0.1:
            raise InvalidParameterError(
                f"delta must be 0 (pure ε) or lie strictly between 0 and 0.1, got {self.delta!r}."
            )
        if 0.0 < self.delta < SMALLEST_DELTA:
            raise InvalidParameterError(f"delta must be 0 (pure ε) or at least {SMALLEST_DELTA:g}, got {self.delta!r}.")
