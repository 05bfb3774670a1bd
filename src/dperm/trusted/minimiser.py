"""Exact minimisation behind the wall: (1/n) Σ f(w, z_i) + r(w) + (ridge/2)‖w‖² + ⟨b, w⟩/n over C.

The guarantee of what uses it rests on one number only, the length of a subgradient at the point that is returned; how
that point was found does not matter. A search that does not get there raises and nothing leaves.
"""

from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from threadpoolctl import threadpool_limits

from dperm.domains import WholeSpace
from dperm.errors import NotSolved
from dperm.problem import Problem
from dperm.regularizers import L2, NoRegularizer
from dperm.trusted.rows import Rows

Array = NDArray[np.float64]

# Beyond this many coefficients a Hessian costs more than the steps that it saves.
_LARGEST_HESSIAN = 1000
_NEWTON_STEPS = 100
_FIRST_ORDER_STEPS = 200_000
_CHECK_EVERY = 10
_ROWS_AT_ONCE = 16_384
_ROWS_FOR_HESSIAN = 16_384
# A step that leaves more than this of the gradient was slow.
_SLOW = 0.2
_MARGIN_STEP = 1e-5


def minimiser(
    problem: Problem,
    rows: Rows,
    n: int,
    linear: Array,
    ridge: float,
    smoothness: float,
    tolerance: float,
    start: Array,
    pool: Executor,
) -> Array:
    """A point of C where the objective has a subgradient of at most half the tolerance, as computed.

    The other half is for the rounding in the gradient's sum, of which a tolerance must leave room for.

    Parameters
    ----------
    problem : Problem
        Loss, regularizer, domain.
    rows : Rows
        The bounded rows.
    n : int
        The public divisor.
    linear : array
        b.
    ridge : float
        Strength of the added ridge.
    smoothness : float
        L of the mean loss.
    tolerance : float
        Length of a subgradient.
    start : array
        Where to begin.
    pool : Executor
        Threads.

    Raises
    ------
    NotSolved
        If no such point was found.
    """

    def smooth_gradient(w: Array) -> Array:
        return rows.gradient_sum(problem, w, pool) / n + linear / n + ridge * w

    w = start
    plain = isinstance(problem.regularizer, NoRegularizer | L2) and isinstance(problem.domain, WholeSpace)
    if plain and problem.loss.n_outputs == 1 and w.size <= _LARGEST_HESSIAN:
        weight_decay = problem.regularizer.strong_convexity

        def gradient(w: Array) -> Array:
            return smooth_gradient(w) + weight_decay * w

        def hessian(w: Array, stride: int) -> Array:
            return _mean_hessian(problem, rows, n, w, stride) + (ridge + weight_decay) * np.eye(w.size)

        # Matrices are small here, and waiting for a second thread of BLAS can take longer than the product.
        with threadpool_limits(1, "blas"):
            w, length = _newton(gradient, hessian, max(1, len(rows) // _ROWS_FOR_HESSIAN), w, 0.5 * tolerance)
        if length <= 0.5 * tolerance:
            return w
    return _accelerated(problem, smooth_gradient, w, 1.0 / (smoothness + ridge), 0.5 * tolerance)


def _newton(
    gradient: Callable[[Array], Array], hessian: Callable[[Array, int], Array], stride: int, w: Array, enough: float
) -> tuple[Array, float]:
    """Damped Newton steps while they make the gradient shorter: the last point and its gradient's length.

    The Hessian is taken on every stride-th row: ten cheap steps are faster than four dear ones. Where that does not
    bring the gradient down quickly, on more rows.
    """
    slope = gradient(w)
    length = float(np.linalg.norm(slope))
    for _ in range(_NEWTON_STEPS):
        if length <= enough:
            break
        try:
            direction = cho_solve(cho_factor(hessian(w, stride)), slope)
        except (LinAlgError, ValueError):
            break
        share = 1.0
        while share > 1e-4:
            trial = w - share * direction
            trial_slope = gradient(trial)
            trial_length = float(np.linalg.norm(trial_slope))
            if trial_length <= (1.0 - 0.25 * share) * length:
                break
            share *= 0.5
        else:
            if stride == 1:
                break  # a corner of the loss, or the end of what floats can tell
            stride = 1
            continue
        if trial_length > _SLOW * length:
            stride = max(1, stride // 4)
        w, slope, length = trial, trial_slope, trial_length
    return w, length


def _accelerated(
    problem: Problem, smooth_gradient: Callable[[Array], Array], w: Array, step_size: float, enough: float
) -> Array:
    """Accelerated proximal gradient steps, the momentum dropped whenever it points uphill."""
    point, momentum = w, 1.0
    for step in range(_FIRST_ORDER_STEPS):
        slope = smooth_gradient(point)
        moved = problem.prox(point - step_size * slope, step_size)
        if step % _CHECK_EVERY == 0:
            # The prox says that (point − moved)/η − slope is a subgradient of r plus the indicator of C at `moved`.
            subgradient = (point - moved) / step_size - slope + smooth_gradient(moved)
            if float(np.linalg.norm(subgradient)) <= enough:
                return moved
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        if float((point - moved) @ (moved - w)) > 0.0:
            momentum, point = 1.0, moved
        else:
            point = moved + (momentum - 1.0) / following * (moved - w)
            momentum = float(following)
        w = moved
    raise NotSolved(
        "the minimisation behind the wall did not reach its declared tolerance, so nothing is released; "
        "use a stronger regularizer."
    )


def _mean_hessian(problem: Problem, rows: Rows, n: int, w: Array, stride: int) -> Array:
    """Σ ℓ''(margin) x xᵀ/n with ℓ'' by differences of ℓ': good for a direction, and used for nothing else."""
    width, loss = rows.table.shape[1], problem.loss
    total = np.zeros((w.size, w.size))
    for first in range(0, len(rows), _ROWS_AT_ONCE * stride):
        part = slice(first, first + _ROWS_AT_ONCE * stride, stride)
        counted = rows.weight[part] != 0.0
        table = rows.table[part][counted]
        scale, target, weight = (values[part][counted] for values in (rows.scale, rows.target, rows.weight))
        margin = scale * (table @ w[:width])
        if problem.intercept:
            margin = margin + problem.intercept_value * w[width]
        up, down = (loss.derivative(margin + h, target, *loss.parameters) for h in (_MARGIN_STEP, -_MARGIN_STEP))
        root = np.sqrt(np.maximum(weight * (up - down) / (2.0 * _MARGIN_STEP), 0.0))
        if sparse.issparse(table):
            weighted = (sparse.diags_array(root * scale) @ table).tocsr()
            total[:width, :width] += (weighted.T @ weighted).toarray()
        else:
            weighted = (root * scale)[:, None] * table
            total[:width, :width] += weighted.T @ weighted
        if problem.intercept:
            constant = root * problem.intercept_value
            cross = weighted.T @ constant
            total[:width, width] += cross
            total[width, :width] += cross
            total[width, width] += constant @ constant
    return total * (stride / n)
