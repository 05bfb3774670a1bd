"""Compiled measurements of rows: their norms, and whether sparse ones are well formed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel import native

Array = NDArray[np.float64]

# A larger entry drops its row: beyond it a product with a coefficient could overflow.
LARGEST_ENTRY = 1e150


def is_canonical(table: Any) -> bool:
    """Whether every row of a CSR matrix names its columns in strictly increasing order.

    A column named twice would add up in the gradient beyond the row's norm, so the matrix's own flag is not trusted.
    """
    if table.indptr.shape[0] != table.shape[0] + 1 or table.indices.shape[0] < table.data.shape[0]:
        return False
    return native.is_canonical(native.Rows(table))


def row_norms(table: Any) -> tuple[Array, Array]:
    """l2 norm and largest entry of every row; NaN where an entry is not finite or larger than `LARGEST_ENTRY`."""
    return native.norms(native.Rows(table), LARGEST_ENTRY)
