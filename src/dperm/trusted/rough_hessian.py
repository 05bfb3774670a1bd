"""Rough inverses of the Hessian, from some of the rows, bought only where they save more than they cost."""

import functools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from threadpoolctl import ThreadpoolController

from dperm.mechanisms.setting import Setting
from dperm.trusted.sums import RowSums

Array = NDArray[np.float64]

# Numbers in all blocks of a Hessian: beyond, they take more memory than they are worth.
_LARGEST = 1 << 23
# Products that BLAS does while a kernel adds one number of a row to a gradient, measured on dense rows.
_PRODUCTS_AT_ONCE = 32.0
# Rows that a Hessian is taken of: a share of all, but several for every coefficient, and no more than say enough.
_SHARE, _ROWS_PER_COEFFICIENT, _FEWEST, _MOST = 8, 4, 512, 16_384
# A Hessian is taken anew, of more rows, after so many further gradients, or twice its own price if that is more.
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
        rows = max(sums.source.n_rows // _SHARE, _ROWS_PER_COEFFICIENT * self._width, _FEWEST)
        self._rows = min(rows, _MOST)
        affordable = sums.objective.has_hessian_blocks and self._n_outputs * self._width**2 <= _LARGEST
        self._next = self._price() if affordable else math.inf

    def __call__(self, w: Array, n_gradients: int) -> Callable[[Array], Array] | None:
        """An inverse at w, or None: the first when so many gradients were taken as it costs."""
        if n_gradients < self._next:
            return None
        inverse = self._inverse(w)
        self._rows = min(_MORE * self._rows, _MORE * _MOST)
        self._next = n_gradients + max(_PATIENCE, 2.0 * self._price())
        return inverse

    def _price(self) -> float:
        """Of the next Hessian, in gradients."""
        products = min(self._rows, self._sums.source.n_rows) * self._width + self._width**2 / 3.0
        return products / (_PRODUCTS_AT_ONCE * self._sums.source.n_rows)

    def _inverse(self, w: Array) -> Callable[[Array], Array] | None:
        stride = max(1, self._sums.source.n_rows // self._rows)
        # Waiting for a second thread of BLAS can take longer than a small product.
        with _blas().limit(limits=1, user_api="blas"):
            blocks = self._sums.hessian_blocks(w, stride, self._bound) * (stride / self._setting.n)
            diagonal = np.einsum("kjj->kj", blocks)
            diagonal += self._strong_convexity + _NEARLY_SINGULAR * diagonal.max(axis=1, keepdims=True)
            try:
                factors = [cho_factor(block, overwrite_a=True, check_finite=False) for block in blocks]
            except LinAlgError:
                return None
        if self._sums.objective.ignores_shifts:
            return functools.partial(_solve_apart, factors, self._strong_convexity)
        return functools.partial(_solve, factors)


def _solve(factors: list[tuple[Array, bool]], v: Array) -> Array:
    parts = v.reshape(len(factors), -1)
    solved = [cho_solve(factor, part, check_finite=False) for factor, part in zip(factors, parts, strict=True)]
    return np.concatenate(solved)


def _solve_apart(factors: list[tuple[Array, bool]], strong_convexity: float, v: Array) -> Array:
    """The same, but what all outputs have in common, along which rows do not bend at all, on its own."""
    parts = v.reshape(len(factors), -1)
    common = parts.mean(axis=0)
    solved = _solve(factors, parts - common).reshape(parts.shape)
    shared = common / strong_convexity if strong_convexity > 0.0 else 0.0
    return np.ravel(solved - solved.mean(axis=0) + shared)


@functools.cache
def _blas() -> ThreadpoolController:
    """Found once: looking for the libraries takes longer than a small fit."""
    return ThreadpoolController()
