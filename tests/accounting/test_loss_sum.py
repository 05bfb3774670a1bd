"""Sums of privacy losses by Fourier transforms: against exact sums, with the rounding that the proof allows."""

import math

import numpy as np
import pytest
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from flint import acb, arb, ctx, fmpz_poly
from scipy.fft import fft, ifft

from dperm.accounting.loss_sum import LossSum, transform_error

UNIT = 2.0**-53


def exact_transform(values):
    with ctx.workprec(200):
        return acb.dft([acb(float(value.real), float(value.imag)) for value in values])


def furthest(found, exact):
    """The largest distance between floats and balls."""
    with ctx.workprec(200):
        return max(float(abs(acb(float(a.real), float(a.imag)) - b).upper()) for a, b in zip(found, exact, strict=True))


@pytest.mark.parametrize("cells", [2, 8, 64, 1024, 2048, 4096])
def test_roots_of_unity_are_within_a_unit_and_a_half_for_every_multiplication(cells):
    """The transform of one at place 1 is the roots themselves, each a product of the twiddle factors on its way."""
    for place in {1, (cells // 2 + 1) % cells, cells - 1}:
        values = np.zeros(cells, dtype=np.complex128)
        values[place] = 1.0
        off = furthest(fft(values), exact_transform(values))
        passes = max(1, math.ceil(math.log2(cells) / 2))
        assert off <= (1.5 + math.sqrt(5.0)) * UNIT * passes
        assert off <= transform_error(cells)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("cells", [4, 256, 2048, 8192])
@pytest.mark.parametrize("seed", range(3))
def test_transforms_keep_within_the_bound_of_the_proof(cells, seed):
    rng = np.random.default_rng(seed)
    masses = rng.dirichlet(np.full(cells, 0.05)).astype(np.complex128)
    size = float(np.abs(masses).sum())
    assert furthest(fft(masses), exact_transform(masses)) <= transform_error(cells) * size
    spectrum = fft(masses)
    with ctx.workprec(200):
        back = acb.dft([acb(float(v.real), float(v.imag)) for v in spectrum], inverse=True)
    assert furthest(ifft(spectrum), back) <= (transform_error(cells) + UNIT) * float(np.abs(spectrum).mean())


def loss_with(masses, first, width):
    return PrivacyLossDistribution(DensePLDPmf(width, first, np.asarray(masses), 0.0, True))


def exact_delta(parts, width, epsilon):
    """δ of the masses as they are: products of integer polynomials, no transform, no rounding before the last sum."""
    product, bits, lowest = fmpz_poly([1]), 0, 0
    for masses, first, count in parts:
        scaled = [int(math.ldexp(mass, 200)) for mass in masses]  # floats above 2⁻¹⁴⁰ are whole numbers then
        product *= fmpz_poly(scaled) ** count
        bits, lowest = bits + 200 * count, lowest + first * count
    with ctx.workprec(400):
        total = arb(0)
        for place in range(len(product)):
            loss = arb(width) * (lowest + place)
            if loss > arb(epsilon):
                total += arb(product[place]) * (1 - (arb(epsilon) - loss).exp())
        return total / arb(2) ** bits


def skewed(seed, size, heavy):
    rng = np.random.default_rng(seed)
    masses = np.exp(-0.5 * ((np.arange(size) - 0.3 * size) / (0.08 * size)) ** 2) + heavy * rng.random(size)
    return masses / math.fsum(masses)


CASES = [
    [(skewed(0, 60, 0.0), -20, 1)],
    [(skewed(1, 60, 1e-6), -20, 7)],
    [(skewed(2, 40, 1e-3), -12, 40)],
    [(skewed(3, 40, 1e-9), -12, 25), (skewed(4, 90, 1e-4), -30, 3)],
]


@pytest.mark.parametrize("parts", CASES, ids=["one", "seven", "forty", "two kinds"])
def test_sums_are_never_below_the_exact_ones_and_hardly_above_down_to_the_faintest_tails(parts):
    width = 0.02
    together = LossSum([(loss_with(masses, first, width), count) for masses, first, count in parts], width)
    top = width * sum(count * (first + masses.size - 1) for masses, first, count in parts)
    compared = 0
    for share in (0.0, 0.05, 0.2, 0.4, 0.6, 0.8):
        exact = exact_delta(parts, width, share * top)
        found = together.get_delta_for_epsilon(share * top)
        assert arb(found) >= exact
        if exact > arb(1e-60):
            compared += 1
            assert arb(found) <= exact * arb(1.0 + 1e-6) + arb(1e-280)
    assert compared >= 4


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("parts", CASES, ids=["one", "seven", "forty", "two kinds"])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12, 1e-25])
def test_epsilon_is_where_the_exact_sum_comes_down_to_delta(parts, delta):
    width = 0.02
    together = LossSum([(loss_with(masses, first, width), count) for masses, first, count in parts], width)
    epsilon = together.get_epsilon_for_delta(delta)
    assert exact_delta(parts, width, epsilon) <= arb(delta)
    assert epsilon == 0.0 or exact_delta(parts, width, epsilon - 1e-5) > arb(delta)


def test_masses_that_are_missing_count_as_lost():
    masses = skewed(0, 60, 0.0)
    whole, short = (LossSum([(loss_with(part, -20, 0.02), 50)], 0.02) for part in (masses, masses * (1.0 - 1e-9)))
    assert short.get_delta_for_epsilon(0.1) >= whole.get_delta_for_epsilon(0.1)
    assert short.get_delta_for_epsilon(60.0) == pytest.approx(50e-9, rel=1e-6)
    assert math.isinf(short.get_epsilon_for_delta(1e-8))
