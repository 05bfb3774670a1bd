"""The answer to `HistogramQuery`: noisy counts of all cells of all columns."""

from dperm.kernel.answers import Array, Asked, answers
from dperm.kernel.counts import CellsPart
from dperm.mechanisms.histogram import HistogramQuery


@answers(HistogramQuery)
def noisy_histogram(query: HistogramQuery, asked: Asked) -> Array:
    """The counts of one column after the other."""
    return asked.noise.release(exact_histogram(query, asked), query.sensitivity)


def exact_histogram(query: HistogramQuery, asked: Asked) -> Array:
    """The counts before noise: whole numbers, so that their sum over blocks is exact."""
    return asked.sums.source._count(CellsPart(query.columns))
