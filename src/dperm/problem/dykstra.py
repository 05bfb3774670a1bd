"""Proximal steps of pairs that nothing better is known about: where every step is released, never on a hidden path."""

import numpy as np
from numpy.typing import NDArray

from dperm.problem.domains import Domain
from dperm.problem.regularizers import Regularizer

Array = NDArray[np.float64]


def dykstra(regularizer: Regularizer, domain: Domain, v: Array, step: float) -> Array:
    """Proximal Dykstra iteration, for pairs that nothing better is known about; not exact."""
    point, prox_memory, projection_memory = v, np.zeros_like(v), np.zeros_like(v)
    scale = 1.0 + float(np.linalg.norm(v))
    for _ in range(10_000):
        shrunk = regularizer.prox(point + prox_memory, step)
        prox_memory = point + prox_memory - shrunk
        projected = domain.project(shrunk + projection_memory)
        projection_memory = shrunk + projection_memory - projected
        moved = float(np.linalg.norm(projected - point)) + float(np.linalg.norm(projected - shrunk))
        point = projected
        if moved <= 1e-13 * scale:
            break
    return point
