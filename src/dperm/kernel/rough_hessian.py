"""Rough inverses of the Hessian, from some of the rows, bought only where they save more than they cost."""

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from threadpoolctl import ThreadpoolController

from dperm.kernel.quasi_newton import Inverse
from dperm.kernel.sums import RowSums
from dperm.mechanisms.setting import Setting

Array = NDArray[np.float64]

# Numbers in all blocks of a Hessian: beyond, they take more memory than they are worth.
_LARGEST = 1 << 23
# Bytes for each of them: sums of blocks wait for each other, and two threads work on the next ones.
_COPIES = 8 * 24
# Products that BLAS does while a kernel adds one number of a row to a gradient, measured on dense rows.
_PRODUCTS_AT_ONCE = 20.0
# Rows that a Hessian is taken of: a share of all, but several for every coefficient, and no more than say enough.
_SHARE, _ROWS_PER_COEFFICIENT, _FEWEST, _MOST = 8, 4, 512, 16_384
# A diagonal says enough of fewer.
_ROWS_FOR_DIAGONAL = 2048
# A Hessian is taken again, of more rows, after this many further gradients, or twice its own price if that is more.
_PATIENCE, _MORE = 10, 4
# Added to the diagonal, relative to it, so that directions that no row has can be divided by.
_NEARLY_SINGULAR = 1e-10


class RoughHessian:
    """What quasi-Newton steps start from: asked after every step, it answers when a Hessian has become worth its price.

    Parameters
    ----------
    sums : RowSums
        Sums over the bounded rows.
    setting : Setting
        The public divisor.
    strong_convexity : float
        Of all that is added to the rows' part.
    bound : float
        Every row's gradient is clipped to this length.
    """

    def __init__(self, sums: RowSums, setting: Setting, strong_convexity: float, bound: float) -> None:
        self._sums, self._setting = sums, setting
        self._strong_convexity, self._bound = strong_convexity, bound
        self._n_outputs = max(1, setting.constants.n_outputs)
        self._width = setting.constants.dimension // self._n_outputs
        rows = max(sums.source._n_rows // _SHARE, _ROWS_PER_COEFFICIENT * self._width, _FEWEST)
        self._rows = min(rows, _MOST)
        self._next = 0.0 if sums.objective.bends else math.inf
        self._is_first = True

    def __call__(self, w: Array, n_gradients: int) -> Inverse | None:
        """An inverse at w, or None: of the diagonal at first, of more when as many gradients were taken as it costs."""
        if n_gradients < self._next:
            return None
        affordable = self._n_outputs * self._width**2 <= min(_LARGEST, self._sums.source.room // _COPIES)
        price = self._price()
        if self._is_first and not (affordable and n_gradients >= price):
            self._is_first, self._next = False, price if affordable else math.inf
            return self._diagonal(w)
        inverse = self._inverse(w)
        self._is_first, self._rows = False, min(_MORE * self._rows, _MORE * _MOST)
        self._next = n_gradients + max(_PATIENCE, 2.0 * self._price())
        return inverse

    def _price(self) -> float:
        """Of the next Hessian, in gradients."""
        products = min(self._rows, self._sums.source._n_rows) * self._width + self._width**2 / 3.0
        return products / (_PRODUCTS_AT_ONCE * self._sums.source._n_rows)

    def _diagonal(self, w: Array) -> Inverse:
        stride = max(1, self._sums.source._n_rows // _ROWS_FOR_DIAGONAL)
        diagonals = self._sums.hessian_diagonals(w, stride, self._bound) * (stride / self._setting.n)
        diagonals += self._strong_convexity + _NEARLY_SINGULAR * diagonals.max()
        return self._apart(lambda parts: parts / diagonals)

    def _inverse(self, w: Array) -> Inverse | None:
        stride = max(1, self._sums.source._n_rows // self._rows)
        # Waiting for a second thread of BLAS can take longer than a small product.
        with _blas().limit(limits=1, user_api="blas"):
            blocks = self._sums.hessian_blocks(w, stride, self._bound) * (stride / self._setting.n)
            diagonals = np.einsum("kjj->kj", blocks)
            diagonals += self._strong_convexity + _NEARLY_SINGULAR * diagonals.max(axis=1, keepdims=True)
            try:
                factors = [cho_factor(block, overwrite_a=True, check_finite=False) for block in blocks]
            except LinAlgError:
                return None

        def solve(parts: Array) -> Array:
            return np.stack([cho_solve(*both, check_finite=False) for both in zip(factors, parts, strict=True)])

        return self._apart(solve)

    def _apart(self, solve: Inverse) -> Inverse:
        """What all outputs have in common is taken on its own where rows do not bend along it at all."""
        strong_convexity, ignores_shifts = self._strong_convexity, self._sums.objective.ignores_shifts

        def apply(v: Array) -> Array:
            parts = v.reshape(self._n_outputs, -1)
            if not ignores_shifts:
                return solve(parts).ravel()
            common = parts.mean(axis=0)
            solved = solve(parts - common)
            shared = common / strong_convexity if strong_convexity > 0.0 else 0.0
            return np.ravel(solved - solved.mean(axis=0) + shared)

        return apply


@functools.cache
def _blas() -> ThreadpoolController:
    """Found once: looking for the libraries takes longer than a small fit."""
    return ThreadpoolController()
