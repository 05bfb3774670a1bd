"""Exact draws: the compiled ones are those of the papers, and these have the right distribution to the last digit."""

import math
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats

from dperm.kernel import native
from dperm.kernel.exact import draws, radial, rounding, selection, skips
from dperm.kernel.exact.digits import Uniform
from dperm.kernel.exact.words import next_word, place, stream_of

KEY = np.arange(8, dtype=np.uint32)
ADDERS = {"gaussian": rounding.add_gaussian, "laplace": rounding.add_laplace}


def word_of(stream):
    return lambda: next_word(stream)


def short_words(seed, width):
    """Digits of a few bits, from numpy: numbers are often equal in their first ones."""
    rng = np.random.default_rng(seed)
    return lambda: int(rng.integers(0, 1 << width))


@pytest.mark.parametrize("name", ADDERS)
@pytest.mark.parametrize("scale", [1.0, 0.3, 1e-5, 1e7, 1e-310, 1e200])
def test_compiled_sums_are_those_of_rational_arithmetic_from_the_same_words(name, scale):
    one, other = stream_of(KEY), stream_of(KEY)
    values = np.random.default_rng(1).normal(size=100) * 10.0 ** np.random.default_rng(2).integers(-12, 9, 100)
    noisy = values.copy()
    ADDERS[name](noisy, scale, one)
    wanted = [rounding.rounded_sum(value, scale, getattr(draws, name)(word_of(other))) for value in values]
    np.testing.assert_array_equal(noisy, wanted)
    assert place(one) == place(other)


def test_a_compiled_radial_vector_is_that_of_rational_arithmetic_from_the_same_words():
    for p in (1, 2, 17):
        one, other = stream_of(KEY), stream_of(KEY)
        values = np.random.default_rng(p).normal(size=p)
        noisy = values.copy()
        radial.add_radial(noisy, 0.7, one)
        np.testing.assert_array_equal(noisy, radial._from_numbers(values, 0.7, other))
        assert place(one) == place(other)


def test_a_scale_of_zero_changes_nothing_and_draws_nothing():
    stream, values = stream_of(KEY), np.array([0.1, -3.0])
    for add in (*ADDERS.values(), radial.add_radial):
        add(values, 0.0, stream)
    assert values.tolist() == [0.1, -3.0]
    assert place(stream) == place(stream_of(KEY))


def exact_cell_probabilities(density, width, n_digits, n_whole):
    """P(floor(|X| · 2^(width · n_digits)) = j), to 30 digits."""
    mp.dps = 40
    cell = mpf(2) ** (-width * n_digits)
    edges = [density(j * cell) for j in range(n_whole * 2 ** (width * n_digits) + 1)]
    return np.array([float(high - low) for low, high in pairwise(edges)])


DISTRIBUTIONS = {
    "gaussian": lambda t: mp.erf(t / mp.sqrt(2)),
    "laplace": lambda t: 1 - mp.exp(-t),
}


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("width", [1, 2, 3])
def test_draws_from_short_digits_have_the_exact_distribution(name, width):
    """Ties are common here. χ² with a false alarm of 1e-4, fixed seed."""
    word, m, n_digits = short_words(5, width), 4_000, 2
    counts = np.zeros(5 * 2 ** (width * n_digits) + 1)
    negative = 0
    for _ in range(m):
        number = getattr(draws, name)(word, width)
        while len(number.part.digits) < n_digits:
            number.extend()
        low = min(abs(end) for end in number.ends())
        counts[min(int(low * 2 ** (width * n_digits)), counts.size - 1)] += 1
        negative += number.sign < 0
    expected = exact_cell_probabilities(DISTRIBUTIONS[name], width, n_digits, 5)
    expected = m * np.append(expected, 1.0 - expected.sum())
    seldom = expected < 8
    if seldom.any():
        counts = np.append(counts[~seldom], counts[seldom].sum())
        expected = np.append(expected[~seldom], expected[seldom].sum())
    assert stats.chisquare(counts, expected).pvalue > 1e-4
    assert abs(negative / m - 0.5) < 4 * 0.5 / math.sqrt(m)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("width", [1, 2, 32])
@pytest.mark.parametrize("exponent", [0.0, 0.3, 0.999, 1.0, 2.6])
def test_something_is_accepted_with_probability_exp_minus_its_exponent(exponent, width):
    word, m = short_words(6, width), 4_000
    steps = round(exponent * 2**40)
    accepted = sum(draws.accepts(steps, word, width) for _ in range(m))
    expected = math.exp(-exponent)
    # Four standard errors: 6e-5, fixed seed.
    assert abs(accepted / m - expected) <= 4 * math.sqrt(expected * (1 - expected) / m)


def test_the_compiled_acceptance_is_the_same():
    rng = np.random.default_rng(0)
    one, other = stream_of(KEY), stream_of(KEY)
    for exponent in rng.integers(0, 3 * 2**40, 500).tolist():
        assert native.draw_acceptance(one, exponent) == draws.accepts(exponent, word_of(other))
    assert place(one) == place(other)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_uniform_integers_are_uniform_from_short_digits(width):
    word, m = short_words(7, width), 6_000
    counts = np.bincount([draws.below(6, word, width) for _ in range(m)], minlength=6)
    assert stats.chisquare(counts).pvalue > 1e-4


def tie_makers():
    """Words with which the compiled code meets a tie, in every comparison that it makes."""
    cumulative = native.CUMULATIVE
    zero, top = 5, 2**32 - 5  # a whole part of 0, and a number that ends a falling sequence
    return {
        "whole part": ("draw_gaussian", [cumulative[0]]),
        "whole part in the tail": ("draw_gaussian", [2**32 - 1]),
        "falling sequence of algorithm B": ("draw_gaussian", [zero, 77, 77]),
        "choice in algorithm B": ("draw_gaussian", [cumulative[1] + 5, 2**31, 9, 2**32 // 6]),
        "number itself in algorithm B": ("draw_gaussian", [zero, 2**31, 9, top, 2**31]),
        "exponential": ("draw_exponential", [88, 88]),
    }


@pytest.mark.parametrize("name", tie_makers())
def test_a_tie_is_never_decided_by_first_digits(name):
    function, given = tie_makers()[name]
    stream = stream_of(KEY)
    first = int(stream[16])
    stream[first : first + len(given)] = given
    whole, _ = getattr(native, function)(stream)
    assert whole == native.UNDECIDED
    assert int(stream[16]) == first + len(given)  # it stopped there


def test_an_undecided_draw_is_drawn_again_from_its_own_words():
    for position in range(3):
        one, other = stream_of(KEY), stream_of(KEY)
        for _ in range(position):
            draws.gaussian(word_of(one))
            draws.gaussian(word_of(other))
        start = place(one)
        next_word(one)
        again = rounding.AGAIN[rounding.add_gaussian][1](one)(0.25, 2.0, *start)
        assert again == rounding.rounded_sum(0.25, 2.0, draws.gaussian(word_of(other)))
        assert place(one) == place(other)


def test_cumulative_probabilities_are_bounded_on_both_sides():
    mp.dps = 60
    total = mp.nsum(lambda k: mp.exp(-(k**2) / 2), [0, mp.inf])
    for k in range(6):
        low, high = draws.cumulative_ends(k, 128)
        exact = mp.fsum(mp.exp(-(mpf(j) ** 2) / 2) for j in range(k + 1)) / total
        assert mpf(low.numerator) / low.denominator <= exact <= mpf(high.numerator) / high.denominator
        assert high - low < Fraction(1, 2**110)
        assert int(exact * 2**32) == native.CUMULATIVE[k]


# Rounding.


def test_the_ends_of_a_rounded_sum_hold_the_exact_one_whatever_the_sizes():
    rng = np.random.default_rng(3)
    decided = 0
    for _ in range(4_000):
        value = float(rng.normal() * 10.0 ** rng.uniform(-30, 30))
        scale = float(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-30, 30))
        if rng.random() < 0.3:  # sums that nearly cancel
            value = -scale * float(rng.integers(0, 5) + rng.random())
        k, digits = int(rng.integers(0, 8)), [int(d) for d in rng.integers(0, 2**32, 3)]
        low, high = native.sum_ends(value, scale, k, *digits)
        part = Fraction(digits[0], 2**32) + Fraction(digits[1], 2**64) + Fraction(digits[2], 2**96)
        for rest in (Fraction(0), Fraction(1, 2**96)):
            exact = rounding.rounded(Fraction(value) + Fraction(scale) * (k + part + rest))
            assert low <= exact <= high
        decided += low == high
    assert decided > 3_900  # or the compiled path would be of no use


def test_too_little_room_for_the_error_would_be_noticed():
    """The bound of the error is needed: without it, many of the ends would not hold the exact sum."""
    rng, missed = np.random.default_rng(4), 0
    for _ in range(2_000):
        scale = float(10.0 ** rng.uniform(-3, 3))
        k, digits = int(rng.integers(0, 3)), [int(d) for d in rng.integers(0, 2**32, 3)]
        part = Fraction(digits[0], 2**32) + Fraction(digits[1], 2**64) + Fraction(digits[2], 2**96)
        value = -float(Fraction(scale) * (k + part))  # the sum is what rounding left over
        exact = rounding.rounded(Fraction(value) + Fraction(scale) * (k + part))
        missed += value + scale * float(k + part) != exact
        low, high = native.sum_ends(value, scale, k, *digits)
        assert low <= exact <= high
    assert missed > 1_000


# Sampling.


@pytest.mark.parametrize("rate", [0.5, 0.3, 0.01, 1e-4, 1.0 - 2.0**-30])
def test_cells_are_taken_with_the_exact_rate(rate):
    n = 200_000
    taken = skips.take_cells(n, rate, stream_of(KEY))
    assert (np.diff(taken) > 0).all()
    assert taken.size == 0 or (taken[0] >= 0 and taken[-1] < n)
    # Five standard errors, and one cell: 6e-7, fixed seed.
    assert abs(taken.size - rate * n) <= 5 * math.sqrt(n * rate * (1 - rate)) + 1


def test_every_cell_is_taken_equally_often_and_pairs_are_independent():
    stream, runs, rate = stream_of(KEY), 6_000, 0.3
    seen = np.zeros((runs, 12))
    for row in seen:
        row[skips.take_cells(12, rate, stream)] = 1.0
    error = math.sqrt(rate * (1 - rate) / runs)
    assert (np.abs(seen.mean(axis=0) - rate) <= 4.5 * error).all()  # 12 of them: 8e-5
    correlations = np.corrcoef(seen.T)[np.triu_indices(12, 1)]
    assert (np.abs(correlations) <= 4.8 / math.sqrt(runs)).all()  # 66 of them: 1e-4


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("width", [1, 3, 32])
@pytest.mark.parametrize("rate", [0.5, 0.1])
def test_skips_have_the_geometric_distribution_from_short_digits(rate, width):
    word, m = short_words(8, width), 2_000
    passed = np.array([skips.skip(rate, word, width) for _ in range(m)])
    for j in (1, 2, 5, 12):
        expected = (1 - rate) ** j
        assert abs((passed >= j).mean() - expected) <= 4 * math.sqrt(expected * (1 - expected) / m) + 1e-12


def test_compiled_skips_are_those_of_rational_arithmetic_from_the_same_words():
    for rate in (0.2, 0.01):
        one, other = stream_of(KEY), stream_of(KEY)
        taken, cell, wanted = skips.take_cells(3_000, rate, one), 0, []
        while True:
            passed = skips.skip(rate, word_of(other))
            cell += passed
            if cell >= 3_000:
                break
            if passed < skips._LONGEST_SKIP:
                wanted.append(cell)
                cell += 1
                if cell >= 3_000:
                    break
        assert taken.tolist() == wanted


def test_a_tie_in_a_skip_is_put_back_and_decided_with_more_digits(monkeypatch):
    stream = stream_of(KEY)
    first = int(stream[16])
    stream[first] = skips._first_digits(0.2)[0]
    copied = stream.copy()
    taken = skips.take_cells(50, 0.2, stream)
    passed = skips.skip(0.2, word_of(copied))
    assert passed in (0, 1)  # U is next to 0.8
    assert taken[0] == passed


# Choices.


def test_a_choice_has_the_probabilities_of_the_exponential_mechanism():
    scores, m = np.array([0.0, 1.0, 2.5, 2.0]), 20_000
    stream = stream_of(KEY)
    found = np.bincount([selection.exponential_choice(scores, 1.0, 0.5, stream) for _ in range(m)], minlength=4) / m
    expected = np.exp(scores) / np.exp(scores).sum()
    assert (np.abs(found - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / m)).all()


def test_rounding_of_scores_is_made_up_for_by_the_scale(monkeypatch):
    """What the integers of two tables differ by, over the unit, is at most sensitivity/scale: the privacy of reals."""
    exponents = []
    only = SimpleNamespace(accepted_index=lambda given, stream, again: exponents.append(given) or 0)
    monkeypatch.setattr(selection, "native", only)
    rng = np.random.default_rng(0)
    for _ in range(300):
        sensitivity, scale = 10.0 ** rng.uniform(-6, 0), 10.0 ** rng.uniform(-6, 3)
        scores = rng.normal(size=20) * 10.0 ** rng.uniform(-3, 3)
        moved = scores + sensitivity * rng.choice([-1.0, 1.0], 20)
        for given in (scores, moved):
            selection.exponential_choice(given, scale, sensitivity, None)
        one, other = exponents.pop(), exponents.pop()
        change = [Fraction(int(a) - int(b), 2**40) for a, b in zip(one, other, strict=True)]
        # The best score moves, too, which all of them are taken from: the range of changes is what counts. The scores
        # themselves are floats, so that their difference is not quite the sensitivity.
        real = max(abs(Fraction(float(a)) - Fraction(float(b))) for a, b in zip(scores, moved, strict=True)) / Fraction(
            scale
        )
        assert max(change) - min(change) <= 2 * max(real, Fraction(sensitivity) / Fraction(scale))


def test_a_tie_among_rounded_scores_is_decided_by_further_digits(monkeypatch):
    scores, stream = np.array([0.0, 0.0, 1.0]), stream_of(KEY)
    wanted = selection._largest(scores, 1.0, stream_of(KEY))
    assert selection.laplace_choice(scores, 1.0, 1.0, stream_of(KEY)) == wanted
    monkeypatch.setattr(selection, "add_laplace", lambda values, scale, stream: values.fill(1.0))
    assert selection.laplace_choice(scores, 1.0, 1.0, stream) == wanted


def test_uniform_numbers_are_compared_to_the_last_digit():
    word = iter([3, 3, 3, 3, 1, 2]).__next__
    one, other = Uniform(word, 2), Uniform(word, 2)
    assert one < other
    assert (one.digits, other.digits) == ([3, 3, 1], [3, 3, 2])


@pytest.mark.parametrize(("name", "distribution"), [("gaussian", stats.norm), ("laplace", stats.laplace)])
def test_a_hundred_thousand_draws_fit_their_distribution(name, distribution):
    """P[D > c/√m] ≤ 2 exp(−2c²), 1.2e-4 for c = 2.2; fixed key. `benchmarks/exact_noise.py` takes 10⁸."""
    values = np.zeros(100_000)
    ADDERS[name](values, 1.0, stream_of(KEY))
    assert stats.kstest(values, distribution.cdf).statistic <= 2.2 / math.sqrt(values.size)
