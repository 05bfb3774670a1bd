"""Where a fit of a linear model begins, if its user says so: public coefficients."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError
from dperm.problem.problem import Problem


@dataclass(frozen=True)
class LinearStart:
    """Coefficients, one row of them per score, and intercepts: public numbers, in the units of the loss.

    Attributes
    ----------
    coef : tuple of tuples of float
        A row for every score.
    intercept : tuple of float
        A number for every score.
    """

    coef: tuple[tuple[float, ...], ...]
    intercept: tuple[float, ...]

    @classmethod
    def of(cls, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> "LinearStart":
        """From arrays of shape (scores, columns) and (scores,)."""
        return cls(tuple(map(tuple, coef.tolist())), tuple(intercept.tolist()))

    def point(self, problem: Problem, n_features: int) -> tuple[float, ...]:
        """The point in the problem's coordinates, in which an intercept is the coefficient of the constant column.

        Raises
        ------
        InvalidParameterError
            If it has another shape, or an intercept where the problem has none.
        """
        shape = (problem.loss.n_outputs, n_features)
        coef, intercept = np.array(self.coef), np.array(self.intercept)
        if coef.shape != shape or intercept.shape != shape[:1]:
            raise InvalidParameterError(
                f"start must be (coef, intercept) for {shape[0]} score(s) of {shape[1]} column(s), "
                f"got coefficients of shape {coef.shape}."
            )
        if problem.intercept:
            return tuple(np.column_stack([coef, intercept / problem.intercept_value]).ravel().tolist())
        if intercept.any():
            raise InvalidParameterError("start has an intercept, and the fit has none (fit_intercept=False).")
        return tuple(coef.ravel().tolist())
