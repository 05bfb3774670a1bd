"""Where bins are cut: the fine cells that a noisy histogram counts, and quantiles of such a histogram."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.schema.checks import Range

Array = NDArray[np.float64]

# Cells are even, and finer towards both ends and towards 0, where skewed columns have most of their values: the
# distances fall by √2 down to 1/65 536 of the range.
_EVEN_CELLS = 64
_FINER = 2.0 ** (-np.arange(2, 33) / 2.0)
# Cells much narrower than this beside the range could not be told apart after rounding.
_NARROWEST = 2.0**-20


def cell_edges(bounds: Range) -> Array:
    """The inner edges of the fine cells of a range, rising: public."""
    low, high = bounds
    centre = -low / (high - low) if low < 0.0 < high else 0.0
    shares = np.concatenate(
        [np.arange(1, _EVEN_CELLS) / _EVEN_CELLS, _FINER, 1.0 - _FINER, [centre], centre + _FINER, centre - _FINER]
    )
    shares = np.unique(shares[(shares >= _NARROWEST) & (shares <= 1.0 - _NARROWEST)])
    apart = np.concatenate([[True], np.diff(shares) >= _NARROWEST])
    edges = np.unique(low + (high - low) * shares[apart])
    return np.asarray(edges[(edges > low) & (edges < high)])


def cell_counts(numbers: Array, bounds: Range, shares: NDArray[np.int64] | None = None) -> NDArray[Any]:
    """How many of the numbers are in each fine cell; those beyond an end are in the outer ones, NaN in none.

    With `shares`, what each counts: whole numbers, so that the sums are exact whatever their order.
    """
    edges, known = cell_edges(bounds), ~np.isnan(numbers)
    cells = np.searchsorted(edges, numbers[known], side="right")
    if shares is None:
        return np.bincount(cells, minlength=edges.size + 1).astype(np.float64)
    totals = np.zeros(edges.size + 1, dtype=np.int64)
    np.add.at(totals, cells, shares[known])
    return totals


def quantile_cuts(counts: Array, bounds: Range, n_bins: int, noise: float) -> tuple[float, ...]:
    """Cut a range into bins that are neither empty nor narrow, from a noisy histogram of its fine cells.

    A bin weighs √(count · width): between quantiles, which would put most cuts beside a value that many rows share, and
    even bins, which would put them where there are no rows. The heaviest bin is cut where its halves weigh the same,
    until there are as many as are wanted. Of a count over m cells two standard deviations of its noise,
    2·noise·√m, are taken off first; where nothing is left of any bin, the widest is cut in its middle. A single cell is
    not cut.

    Parameters
    ----------
    counts : array
        Noisy counts, one per cell.
    bounds : (float, float)
        The range.
    n_bins : int
        How many bins; there are always this many.
    noise : float
        Standard deviation of the noise on a count.
    """
    ends = np.concatenate([[bounds[0]], cell_edges(bounds), [bounds[1]]])
    total = np.concatenate([[0.0], np.cumsum(counts)])

    def weight(first: Any, last: Any) -> Any:
        surely = np.maximum(total[last] - total[first] - 2.0 * noise * np.sqrt(last - first), 0.0)
        return np.sqrt(surely * (ends[last] - ends[first]))

    pieces = [(0, counts.size)]
    while len(pieces) < n_bins:
        several = [piece for piece in pieces if piece[1] - piece[0] > 1]
        first, last = max(several, key=lambda piece: (float(weight(*piece)), float(ends[piece[1]] - ends[piece[0]])))
        inner = np.arange(first + 1, last)
        if weight(first, last) > 0.0:
            off_balance = np.abs(weight(first, inner) - weight(inner, last))
        else:
            off_balance = np.abs(ends[inner] - (ends[first] + ends[last]) / 2.0)
        cut = int(inner[off_balance.argmin()])
        pieces.remove((first, last))
        pieces += [(first, cut), (cut, last)]
    return tuple(float(ends[first]) for first, _ in sorted(pieces)[1:])
