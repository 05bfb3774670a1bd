"""The answer to `HistogramQuery`: noisy counts of all cells of all columns."""

import numpy as np

from dperm.mechanisms import HistogramQuery
from dperm.trusted.answers.base import Array, Asked, answers


@answers(HistogramQuery)
def noisy_histogram(query: HistogramQuery, asked: Asked) -> Array:
    """The counts of one column after the other."""
    return asked.noise.release(exact_histogram(query, asked), query.sensitivity)


def exact_histogram(query: HistogramQuery, asked: Asked) -> Array:
    """The counts before noise: whole numbers, so that their sum over blocks is exact."""
    return np.concatenate([np.sum(list(asked.sums.source.cell_counts(column)), axis=0) for column in query.columns])
