"""exp without overflow."""

from typing import Any

import numpy as np


def exp(x: Any) -> Any:
    """e^x for x within [−708, 709], and the value at the nearer end beyond: never 0, never infinite."""
    return np.exp(np.clip(x, -708.0, 709.0))
