"""Noisy histograms of columns over their declared ranges: what they count, and what they give back."""

from collections.abc import Iterator

import numpy as np

from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.setting import PublicTable
from dperm.schema.binning import cell_edges
from dperm.transformers.base import Array, Bounds


def column_cells(bounds: Bounds) -> tuple[Array, ...]:
    """The inner edges of the cells of every column: public."""
    return tuple(cell_edges((low, high)) for low, high in zip(*bounds.ends, strict=True))


def counts_of(table: PublicTable, bounds: Bounds, distribution: str) -> CellCounts:
    """The histograms of all columns as one release."""
    sizes = tuple(edges.size + 1 for edges in column_cells(bounds))
    return CellCounts(table, f"histograms of {len(sizes)} columns", sizes, distribution)


def by_column(counts: Array, bounds: Bounds) -> Iterator[tuple[Array, Array]]:
    """The ends of the cells of every column, and its noisy counts."""
    done = 0
    for low, high, inner in zip(*bounds.ends, column_cells(bounds), strict=True):
        yield np.concatenate([[low], inner, [high]]), counts[done : done + inner.size + 1]
        done += inner.size + 1
