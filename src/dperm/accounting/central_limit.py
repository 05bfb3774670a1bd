"""About what many sampled Gaussians cost together: for dividing a budget and for first guesses, never a bound."""

import math

from dperm.privacy.guarantee import Adjacency


def central_limit_precision(rate: float, multiplier: float, adjacency: Adjacency) -> float:
    """About the μ² that one sampled Gaussian adds to many of its kind (Bu, Dong, Long and Su 2020).

    q²(e^{1/ν²} − 1) under add_remove; under replace_one, where two rows of the sample pull apart,
    4q² sinh(1/(4ν²)).
    """
    exponent = 1.0 / multiplier**2
    if rate == 1.0:
        return exponent
    if adjacency is Adjacency.ADD_REMOVE:
        return rate**2 * math.expm1(min(exponent, 50.0))
    return 4.0 * rate**2 * math.sinh(min(exponent / 4.0, 50.0))


def central_limit_multiplier(rate: float, precision: float, adjacency: Adjacency) -> float:
    """The multiplier whose `central_limit_precision` this is."""
    if rate == 1.0:
        return 1.0 / math.sqrt(precision)
    if adjacency is Adjacency.ADD_REMOVE:
        return 1.0 / math.sqrt(math.log1p(precision / rate**2))
    return 1.0 / math.sqrt(4.0 * math.asinh(precision / (4.0 * rate**2)))


def central_limit_rate(multiplier: float, precision: float, adjacency: Adjacency) -> float:
    """The sampling rate at which this multiplier has that `central_limit_precision`; above 1 if none has."""
    some_rate = 0.5  # the precision is c·q², c the same for every q < 1
    c = central_limit_precision(some_rate, multiplier, adjacency) / some_rate**2
    return math.sqrt(precision / c)
