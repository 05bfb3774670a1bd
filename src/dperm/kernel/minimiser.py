"""Exact minimisation inside the trusted kernel: (1/n) Σ f(w, z_i) + r(w) + (ridge/2)‖w − start‖² + ⟨b, w⟩/n over C.

The guarantee of what uses it rests on two things: the length of a subgradient at the point that is returned, and that
such a point is found on every table. How it was found does not matter.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dperm.errors import NotSolvedError
from dperm.kernel.quasi_newton import quasi_newton
from dperm.kernel.rough_hessian import RoughHessian
from dperm.kernel.sums import RowSums
from dperm.mechanisms.setting import Setting, pull_rounding
from dperm.privacy.guarantee import ROWS_ALLOWED_PER_DECLARED
from dperm.problem import Problem
from dperm.problem.domains import WholeSpace
from dperm.problem.regularizers import L2, NoRegularizer

Array = NDArray[np.float64]

# Quasi-Newton steps: ten times what the hardest tables of the benchmarks take.
_QUASI_NEWTON_STEPS = 2000

# Without strong convexity, where only a run without noise goes, the search ends at this share of a row's largest
# gradient, a hundredth of scikit-learn's default, or after this many steps: the minimiser may lie at infinity.
_NOISELESS_SHARE, _NOISELESS_STEPS = 1e-6, 300

# Accelerated steps that are tried with a momentum that mostly does better than the one with a guarantee.
_HOPEFUL_STEPS = 20_000
# With it the gap shrinks by e^−1 in √κ steps: by 1e65 in these, whatever the rows.
_STEPS_PER_ROOT_CONDITION = 150.0
_CHECK_EVERY = 10


def minimiser(
    problem: Problem,
    sums: RowSums,
    setting: Setting,
    linear: Array,
    ridge: float,
    tolerance: float,
    start: Array,
    slope_share: float = 1.0,
) -> Array:
    """A point of C where the objective has a subgradient of at most half the tolerance, rounding within rows included.

    The other half is for the rounding in the gradient's sum, which the queries' smallest tolerance leaves room for.

    Parameters
    ----------
    problem : Problem
        Loss, regularizer, domain.
    sums : RowSums
        Sums over the bounded rows.
    setting : Setting
        The public divisor and the constants.
    linear : array
        b.
    ridge : float
        Strength of the added ridge.
    tolerance : float
        Length of a subgradient.
    start : array
        Where to begin, and the centre of the added ridge.
    slope_share : float
        Every row's gradient is clipped to this share of its bound.

    Without any strong convexity nothing private can be solved for, so only a run without noise comes here. It ends at a
    millionth of a row's largest gradient, or with the shortest gradient that a fixed number of steps found.

    Raises
    ------
    NotSolvedError
        If no such point was found. For a strongly convex objective within the queries' `LARGEST_CONDITION` the steps
        suffice on every table, up to rounding; so it does not tell tables apart.
    """
    decay = problem.regularizer.strong_convexity
    strong_convexity = ridge + decay
    # Of the longest table that may come, with all strong convexity counted in the smooth part.
    longest = ROWS_ALLOWED_PER_DECLARED + 1.0 / setting.n
    bending = setting.constants.smoothness * longest
    step_size = 1.0 / (bending + strong_convexity)
    kept = step_size * (bending + ridge)  # 1 − ημ, of which rounding would leave nothing where μ is much larger
    bound = slope_share * setting.constants.lipschitz

    def gradient(w: Array) -> Array:
        pulled = decay * w + ridge * (w - start)
        return sums.gradient(w, bound) / setting.n + linear / setting.n + pulled

    def prox(v: Array) -> Array:
        # Of r without its strong convexity: argmin ½‖w − v‖² + η(r(w) − (μ/2)‖w‖²).
        return problem.prox(v / kept, step_size / kept)

    def is_short(w: Array, subgradient: Array) -> bool:
        rounding = sums.objective.gradient_rounding(setting, float(np.linalg.norm(w)))
        pulled = decay * float(np.linalg.norm(w)) + ridge * float(np.linalg.norm(w - start))
        rounding += term_rounding + pull_rounding(pulled)
        return float(np.linalg.norm(subgradient)) + rounding <= 0.5 * tolerance

    noiseless = strong_convexity == 0.0
    if noiseless:
        tolerance = max(tolerance, _NOISELESS_SHARE * setting.constants.lipschitz)
    # Of b itself, which is a rounded draw of a real vector, and of its mean in the gradient.
    term_rounding = pull_rounding(float(np.linalg.norm(linear)) / setting.n)
    w = start
    plain = isinstance(problem.regularizer, NoRegularizer | L2) and isinstance(problem.domain, WholeSpace)
    if plain:
        rough = RoughHessian(sums, setting, strong_convexity, bound)
        n_steps = _NOISELESS_STEPS if noiseless else _QUASI_NEWTON_STEPS
        w, slope = quasi_newton(gradient, rough, step_size, w, n_steps, is_short)
        if noiseless or is_short(w, slope):
            return w
    hopeful = _accelerated(gradient, prox, step_size, w, _HOPEFUL_STEPS, None, is_short)
    if hopeful is not None:
        return hopeful
    root = np.sqrt(strong_convexity * step_size)
    n_steps = int(np.ceil(_STEPS_PER_ROOT_CONDITION / max(root, 1e-4)))
    solved = _accelerated(gradient, prox, step_size, w, n_steps, (1.0 - root) / (1.0 + root), is_short)
    if solved is None:
        raise NotSolvedError(
            "the exact minimisation did not reach its declared tolerance, so nothing is released; "
            "use a stronger regularizer."
        )
    return solved


def _accelerated(
    gradient: Callable[[Array], Array],
    prox: Callable[[Array], Array],
    step_size: float,
    w: Array,
    n_steps: int,
    momentum: float | None,
    is_short: Callable[[Array, Array], bool],
) -> Array | None:
    """Accelerated proximal gradient steps until a subgradient is short; None if none was.

    With a constant momentum (1 − √q)/(1 + √q), q = μ/L, the gap is at most (1 − √q)^k times what it was, whatever the
    function (Beck 2017, Theorem 10.42). Without one it grows as in FISTA and is dropped whenever it points uphill.
    """
    point, weight = w, 1.0
    for step in range(n_steps):
        if step % _CHECK_EVERY == 0:
            # The prox says that (w − v)/η − gradient(w) is a subgradient of the rest of the objective at v.
            v = prox(w - step_size * gradient(w))
            if is_short(v, (w - v) / step_size - gradient(w) + gradient(v)):
                return v
        moved = prox(point - step_size * gradient(point))
        if momentum is not None:
            point = moved + momentum * (moved - w)
        elif float((point - moved) @ (moved - w)) > 0.0:
            weight, point = 1.0, moved
        else:
            following = 0.5 * (1.0 + float(np.sqrt(1.0 + 4.0 * weight**2)))
            point, weight = moved + (weight - 1.0) / following * (moved - w), following
        w = moved
    return None
