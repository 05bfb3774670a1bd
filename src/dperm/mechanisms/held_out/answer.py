"""The answer to `HeldOutChoice`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.adding import in_blocks
from dperm.kernel.answers import Array, answers
from dperm.kernel.units import UnitRows
from dperm.mechanisms.held_out import HeldOutChoice


@answers(HeldOutChoice)
def added_losses(query: HeldOutChoice, losses: NDArray[Any], units: UnitRows | None = None) -> Array:
    """The sum of every candidate's losses, each clipped to [0, 1]; one that is not a number counts as 1."""
    return in_blocks(query.size, losses, units, lambda block: np.nan_to_num(np.clip(block, 0.0, 1.0), nan=1.0))
