"""How many rows every unit has, in cells of a histogram: what a private count of them is made of."""

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.units import Membership

# The fewest rows of a unit in every cell: 1, 2, 3 to 4, 5 to 9, and so on.
FEWEST_ROWS = (1, 2, 3, 5, 10, 20, 50, 100)


def cells_of_units(membership: Membership) -> NDArray[np.intp]:
    """The cell of every unit, one line for each; −1 for one without a row."""
    return np.searchsorted(FEWEST_ROWS, membership.counts, side="right")[:, None] - 1
