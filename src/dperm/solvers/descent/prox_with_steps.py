"""Proximal steps with a step for every coefficient."""

import numpy as np
from numpy.typing import NDArray

from dperm.problem.domains import Domain, WholeSpace
from dperm.problem.regularizers import BlockRegularizer, Regularizer

Array = NDArray[np.float64]


def prox_with_steps(regularizer: Regularizer, domain: Domain, v: Array, steps: Array) -> Array:
    """Proximal step with a step for every coefficient: argmin over w of Σ (w_j − v_j)²/(2 steps_j) + r(w), then onto C.

    Exact where r works coordinate by coordinate and C is the whole space or a box. A regularizer of groups takes the
    mean of the steps, and the projection onto any other C is the nearest point as usual.
    """
    if isinstance(regularizer, BlockRegularizer):
        w = v.copy()
        for start, stop, part in regularizer.blocks:
            w[start:stop] = prox_with_steps(part, WholeSpace(), v[start:stop], steps[start:stop])
    elif regularizer.shrink is not None:
        w = np.asarray(regularizer.shrink(v, steps, *regularizer.parameters))
    else:
        w = regularizer.prox(v, float(steps.mean()))
    return domain.project(w)
