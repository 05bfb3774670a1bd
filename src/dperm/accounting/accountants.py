"""What an accounting event costs: exact for Gaussians, PLD for samples and for mixtures, RDP as a cross-check.

All three give upper bounds on ε. They are computed by different means, so a mistake in one shows.
"""

import contextlib
import functools
import math
from collections import Counter

import dp_accounting
import numpy as np
from dp_accounting import dp_event, pld, rdp

from dperm.accounting.composition import atoms_of, composed_loss, convolution_rounding
from dperm.accounting.events import ObjectivePerturbationDpEvent, PureDpEvent, leaves, releases, without
from dperm.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dperm.accounting.guarantee import Adjacency
from dperm.accounting.loss_grid import FINE_GRID, LARGEST_GRID, RELATION, interval, loss_range
from dperm.accounting.profiles import privacy_profile

# With less noise than this, relative to one record, a record that is drawn shows at any ε below 1000. Such a privacy
# loss is too wide for a grid, and the bound by the probability of a draw gives δ as well.
_HARDLY_ANY_NOISE = 0.02

# From so many on, objective perturbations are composed on a grid, which is tighter and faster. Up to so many the other
# way is at hand where δ is too small for the grid; it takes time in proportion to the square.
_MANY_OBJECTIVES, _TOO_MANY_OBJECTIVES = 4, 33

# What a sum over a grid of 1e5 points may be off by.
_SUM_PADDING = 1.0 + 1e-11

# A mechanism whose ε is beyond this promises nothing.
_LARGEST_EPSILON = 1e9


def is_gaussian(event: dp_event.DpEvent) -> bool:
    """Whether only unsampled Gaussians occur, so that the closed form is exact."""
    return all(isinstance(leaf, dp_event.GaussianDpEvent) for leaf, _ in leaves(event))


def composed_mu(event: dp_event.DpEvent, adjacency: Adjacency) -> float:
    """μ of a composition of Gaussians: sqrt(Σ μ_i²)."""
    precision = sum(count / leaf.noise_multiplier**2 for leaf, count in leaves(event))
    return adjacency.records_moved * math.sqrt(precision)


# What a grid of privacy losses raises that overflows, or that would need numbers beyond those of a float.
_NO_GRID = (ArithmeticError, ValueError)


def is_sampled(event: dp_event.DpEvent) -> bool:
    """Whether some answers are given from a sample, so that PLD is needed."""
    return any(isinstance(leaf, dp_event.PoissonSampledDpEvent) for leaf, _ in leaves(event))


def is_mixed(event: dp_event.DpEvent) -> bool:
    """Whether mechanisms of several kinds, or many that are better composed on a grid, ran together."""
    kinds = {type(leaf) for leaf, _ in leaves(event)}
    if kinds <= {dp_event.GaussianDpEvent, dp_event.PoissonSampledDpEvent}:
        return False
    if kinds == {ObjectivePerturbationDpEvent}:
        return sum(count for _, count in leaves(event)) >= _MANY_OBJECTIVES
    if kinds == {PureDpEvent}:
        return len(releases(event)) > 1
    return len(kinds) > 1


def _is_not_private(event: dp_event.DpEvent) -> bool:
    return any(isinstance(leaf, dp_event.NonPrivateDpEvent) for leaf, _ in leaves(event))


def epsilon_of(event: dp_event.DpEvent, delta: float, adjacency: Adjacency, points: int = FINE_GRID) -> float:
    """ε at this δ by the tightest accountant that applies; infinite for what is not private.

    Infinite as well for sampled answers with hardly any noise, unless δ is above the probability of a draw.
    """
    if _is_not_private(event):
        return math.inf
    if is_gaussian(event):
        return gaussian_epsilon(composed_mu(event, adjacency), delta) if delta > 0.0 else math.inf
    if is_mixed(event):
        return _mixed_epsilon(event, delta, adjacency, points)
    if not is_sampled(event):
        return _smallest_epsilon(event, delta, adjacency)
    by_draw = _draw_epsilon(event, delta, adjacency)
    if _has_hardly_any_noise(event):
        return by_draw
    epsilon = min(by_draw, pld_epsilon(event, delta, adjacency, points))
    # Where δ is so small that rounding in the PLD could matter, Rényi accounting may give a smaller ε.
    if delta < 10.0 * _pld_rounding(event):
        epsilon = min(epsilon, rdp_epsilon(event, delta, adjacency))
    return epsilon


def _smallest_epsilon(event: dp_event.DpEvent, delta: float, adjacency: Adjacency) -> float:
    """Where the falling curve δ(ε) comes down to this δ, rounded up."""
    if delta == 0.0 and not all(isinstance(leaf, PureDpEvent) for leaf, _ in leaves(event)):
        return math.inf  # the curve comes near 0 and never there; that a float cannot tell is no promise
    curve = privacy_profile(_merged(event), adjacency)
    if curve(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while curve(high) > delta:
        low, high = high, 2.0 * high
        if high > _LARGEST_EPSILON:
            return math.inf
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if curve(middle) > delta else (low, middle)
    return high


def delta_of(event: dp_event.DpEvent, epsilon: float, adjacency: Adjacency) -> float:
    """δ at this ε by the tightest accountant that applies; 1 for what is not private."""
    if _is_not_private(event):
        return 1.0
    if is_gaussian(event):
        return gaussian_delta(composed_mu(event, adjacency), epsilon)
    if is_mixed(event):
        return _mixed_delta(event, epsilon, adjacency)
    if not is_sampled(event):
        return privacy_profile(_merged(event), adjacency)(epsilon)
    by_draw = draw_delta(event, epsilon, adjacency)
    if _has_hardly_any_noise(event):
        return by_draw
    try:
        by_pld = max(0.0, float(_pld(event, adjacency, FINE_GRID).get_delta(epsilon))) + _pld_rounding(event)
    except _NO_GRID:
        return by_draw
    return min(by_draw, by_pld)


def _mixed_epsilon(event: dp_event.DpEvent, delta: float, adjacency: Adjacency, points: int) -> float:
    """The least of the bounds on ε that docs/proofs/composition.md has for mechanisms of several kinds."""
    if delta == 0.0:
        return _smallest_epsilon(event, delta, adjacency)
    drawn, event = _drawn_and_rest(event)
    if drawn:
        left = (delta - drawn) / (1.0 - drawn) * (1.0 - 1e-12) if drawn < 1.0 else 0.0
        return epsilon_of(event, left, adjacency, points) if left > 0.0 else math.inf
    atoms = atoms_of(event, adjacency)
    left, epsilon = delta - convolution_rounding(atoms), math.inf
    if left > 0.0:
        with contextlib.suppress(*_NO_GRID):
            epsilon = float(composed_loss(atoms, adjacency, points).get_epsilon_for_delta(left)) * _SUM_PADDING
    if _has_one_profile(event, delta):
        epsilon = min(epsilon, _smallest_epsilon(event, delta, adjacency))
    shift, rest = _pure_and_rest(event)
    if shift and not is_mixed(rest):
        epsilon = min(epsilon, math.nextafter(shift + epsilon_of(rest, delta, adjacency, points), math.inf))
    return epsilon


def _mixed_delta(event: dp_event.DpEvent, epsilon: float, adjacency: Adjacency) -> float:
    """The same for δ."""
    drawn, event = _drawn_and_rest(event)
    if drawn:
        return min(1.0, (drawn + (1.0 - drawn) * delta_of(event, epsilon, adjacency)) * (1.0 + 1e-15))
    atoms = atoms_of(event, adjacency)
    delta = 1.0
    with contextlib.suppress(*_NO_GRID):
        on_grid = float(composed_loss(atoms, adjacency, FINE_GRID).get_delta_for_epsilon(epsilon))
        delta = min(1.0, max(0.0, on_grid) + convolution_rounding(atoms))
    if _has_one_profile(event, delta):
        delta = min(delta, privacy_profile(_merged(event), adjacency)(epsilon))
    shift, rest = _pure_and_rest(event)
    if shift and shift <= epsilon and not is_mixed(rest):
        delta = min(delta, delta_of(rest, math.nextafter(epsilon - shift, -1.0), adjacency))
    return delta


def _has_one_profile(event: dp_event.DpEvent, delta: float) -> bool:
    """Whether `privacy_profile` knows all that ran, and may be smaller.

    It does for what is concentrated, and for a few objective perturbations where δ is so small that rounding on the
    grid could matter.
    """
    kinds = {type(leaf) for leaf, _ in leaves(event)}
    if kinds == {ObjectivePerturbationDpEvent}:
        count = sum(count for _, count in leaves(event))
        return count < _TOO_MANY_OBJECTIVES and delta < 1e-10
    return kinds <= {dp_event.GaussianDpEvent, dp_event.ZCDpEvent, PureDpEvent}


def _drawn_and_rest(event: dp_event.DpEvent) -> tuple[float, dp_event.DpEvent]:
    """The probability that a record is drawn by samples with hardly any noise, and what else ran."""

    def bare(leaf: dp_event.DpEvent) -> bool:
        return isinstance(leaf, dp_event.PoissonSampledDpEvent) and leaf.event.noise_multiplier < _HARDLY_ANY_NOISE

    return draw_probability(without(event, lambda leaf: not bare(leaf))), without(event, bare)


def _pure_and_rest(event: dp_event.DpEvent) -> tuple[float, dp_event.DpEvent]:
    """ε of all pure mechanisms one after the other, and what else ran."""
    total = math.fsum(count * leaf.epsilon for leaf, count in leaves(event) if isinstance(leaf, PureDpEvent))
    return total * (1.0 + 1e-12), without(event, lambda leaf: isinstance(leaf, PureDpEvent))


def draw_probability(event: dp_event.DpEvent) -> float:
    """Probability that the sampled parts draw a given record at all: 1 − Π (1 − q_i)^k_i, rounded up."""
    log_never = 0.0
    for leaf, count in _parts(event)[1]:
        rate = leaf.sampling_probability
        log_never += count * math.log1p(-rate) if rate < 1.0 else -math.inf
    return min(1.0, -math.expm1(log_never) * (1.0 + 1e-12))


def draw_delta(event: dp_event.DpEvent, epsilon: float, adjacency: Adjacency) -> float:
    """An upper bound on δ(ε) that no noise on the sampled parts can spoil (docs/proofs/sampled_gradient.md).

    A record that is never drawn shows only through the Gaussians: δ(ε) ≤ 1 − (1 − δ_draw)(1 − δ_Gauss(ε)).
    """
    drawn = draw_probability(event)
    bound = drawn + (1.0 - drawn) * gaussian_delta(_mu_of_gaussians(event, adjacency), epsilon)
    return min(1.0, bound * (1.0 + 1e-15))


def _draw_epsilon(event: dp_event.DpEvent, delta: float, adjacency: Adjacency) -> float:
    """The ε at which `draw_delta` comes down to this δ; infinite if δ does not exceed the probability of a draw."""
    drawn = draw_probability(event)
    if delta <= drawn:
        return math.inf
    left = (delta - drawn) / (1.0 - drawn) * (1.0 - 1e-12)
    return gaussian_epsilon(_mu_of_gaussians(event, adjacency), left)


def _has_hardly_any_noise(event: dp_event.DpEvent) -> bool:
    return any(leaf.event.noise_multiplier < _HARDLY_ANY_NOISE for leaf, _ in _parts(event)[1])


def _merged(event: dp_event.DpEvent) -> list[tuple[dp_event.DpEvent, int]]:
    """The single mechanisms, equal ones counted together."""
    counts = Counter[dp_event.DpEvent]()
    for leaf, count in leaves(event):
        counts[leaf] += count
    return list(counts.items())


def _parts(event: dp_event.DpEvent) -> tuple[float, tuple[tuple[dp_event.DpEvent, int], ...]]:
    """The precision Σ k/ν² of all Gaussians together, and the sampled mechanisms with their counts."""
    precision, sampled = 0.0, Counter[dp_event.DpEvent]()
    for leaf, count in leaves(event):
        if isinstance(leaf, dp_event.GaussianDpEvent):
            precision += count / leaf.noise_multiplier**2
        else:
            sampled[leaf] += count  # equal ones are composed in one go
    return precision, tuple(sampled.items())


def _mu_of_gaussians(event: dp_event.DpEvent, adjacency: Adjacency) -> float:
    return adjacency.records_moved * math.sqrt(_parts(event)[0])


def central_limit_precision(rate: float, multiplier: float, adjacency: Adjacency) -> float:
    """About the μ² that one sampled Gaussian adds to many of its kind (Bu, Dong, Long and Su 2020).

    q²(e^{1/ν²} − 1) under add_remove; under replace_one, where two rows of the sample pull apart,
    4q² sinh(1/(4ν²)). Good for dividing a budget and for a first guess, never for a price.
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


def pld_epsilon(event: dp_event.DpEvent, delta: float, adjacency: Adjacency, points: int = FINE_GRID) -> float:
    """ε by privacy loss distributions, rounded up at every step.

    Parameters
    ----------
    event : DpEvent
        What ran.
    delta : float
        The δ to evaluate at.
    adjacency : Adjacency
        Named, as everywhere.
    points : int
        About how many points discretise the narrowest privacy loss at the most. Fewer are faster and round up more.
    """
    left = delta - _pld_rounding(event)
    if left <= 0.0:
        return math.inf
    try:
        return float(_pld(event, adjacency, points).get_epsilon(left))
    except _NO_GRID:  # no price is known, so none is promised
        return math.inf


def _pld_rounding(event: dp_event.DpEvent) -> float:
    """What rounding in the convolutions may take off δ: measured as about count · 2⁻⁵³, padded eightfold."""
    return 8.0 * 2.0**-53 * (1000 + sum(count for _, count in _parts(event)[1]))


def _pld(event: dp_event.DpEvent, adjacency: Adjacency, points: int) -> pld.PLDAccountant:
    precision, parts = _parts(event)
    # All Gaussians together are one Gaussian, exactly; composing them on the grid would only lose.
    if precision:
        parts = (*parts, (dp_event.GaussianDpEvent(1.0 / math.sqrt(precision)), 1))
    return _composed_pld(parts, adjacency, points)


# Kept, because a calibrated plan is asked for its ε and its δ again by whoever states them, and planned again by a fit.
@functools.lru_cache(maxsize=32)
def _composed_pld(
    parts: tuple[tuple[dp_event.DpEvent, int], ...], adjacency: Adjacency, points: int
) -> pld.PLDAccountant:
    widest = max(loss_range(leaf, adjacency) for leaf, _ in parts)
    width = max(min(interval(leaf, count, adjacency, points) for leaf, count in parts), widest / LARGEST_GRID)
    accountant = pld.PLDAccountant(RELATION[adjacency], value_discretization_interval=width)
    # Powers of a discretised loss may overflow where it is repeated millions of times: an error, never a nan that
    # compares as it likes.
    with np.errstate(over="raise", invalid="raise"):
        for leaf, count in parts:
            accountant.compose(leaf, count)
    return accountant


def has_renyi_price(event: dp_event.DpEvent) -> bool:
    """Whether `rdp_epsilon` knows all that ran."""
    known = dp_event.GaussianDpEvent | dp_event.PoissonSampledDpEvent | dp_event.ZCDpEvent
    return all(isinstance(leaf, known) for leaf, _ in leaves(event))


def rdp_epsilon(event: dp_event.DpEvent, delta: float, adjacency: Adjacency) -> float:
    """ε by Rényi accounting: looser than PLD, and computed by other code.

    Under replace_one a Gaussian's Rényi divergence is that of twice the shift; a sampled Gaussian goes
    through the table without the record, with the weak triangle inequality
    D_α(P‖Q) ≤ (α − ½)/(α − 1) · D_2α(P‖R) + D_{2α−1}(R‖Q).
    """
    orders = np.concatenate([np.arange(2, 64), [80, 96, 128, 192, 256, 384, 512]])
    if not is_sampled(event):  # for samples the series at fractional orders need not converge
        orders = np.concatenate([1 + np.arange(1, 10) / 10.0, orders])
    while True:
        divergences = np.zeros(orders.size)
        for leaf, count in leaves(event):
            if adjacency is Adjacency.ADD_REMOVE or isinstance(leaf, dp_event.ZCDpEvent):
                divergences += _renyi(leaf, count, orders)  # ρ is stated for the plan's adjacency
            elif isinstance(leaf, dp_event.GaussianDpEvent):
                divergences += _renyi(dp_event.GaussianDpEvent(leaf.noise_multiplier / 2), count, orders)
            else:
                weight = (orders - 0.5) / (orders - 1.0)
                divergences += weight * _renyi(leaf, count, 2 * orders) + _renyi(leaf, count, 2 * orders - 1)
        epsilon, order = rdp.rdp_privacy_accountant.compute_epsilon(orders, divergences, delta)
        if order < orders[-1] or orders[-1] > 1e5:
            return float(epsilon)
        orders = np.concatenate(
            [orders, orders[-1] * np.array([1.5, 2.0, 3.0, 4.0])]
        )  # the best order lies at the edge


def _renyi(leaf: dp_event.DpEvent, count: int, orders: np.ndarray) -> np.ndarray:
    accountant = rdp.RdpAccountant(orders, dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    return np.asarray(accountant.compose(leaf, count).rdp)
