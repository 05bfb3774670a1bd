// Exact draws by first digits alone: the algorithms of exact/draws.py. UNDECIDED says that first digits do not decide;
// then exact/draws.py draws again from the same words. A digit has 32 bits, so that happens about once in 10⁸ draws.
#pragma once
#include "kernels.hpp"

namespace dperm {

constexpr int STREAM_COUNTER = 12, STREAM_POSITION = 16, STREAM_WORDS = 17, STREAM_END = 17 + 16 * 32;
constexpr std::int64_t UNDECIDED = -1;

inline std::uint32_t next_word(std::uint32_t* stream) {
    std::uint32_t position = stream[STREAM_POSITION];
    if (position >= STREAM_END) {
        kernels().refill(stream);
        position = STREAM_WORDS;
    }
    stream[STREAM_POSITION] = position + 1;
    return stream[position];
}

inline std::uint64_t counter_of(const std::uint32_t* stream) {
    return stream[STREAM_COUNTER] | static_cast<std::uint64_t>(stream[STREAM_COUNTER + 1]) << 32;
}

// First digits of the cumulative probabilities of k; tests/kernel/test_exact_draws.py computes them in rational arithmetic.
constexpr std::uint32_t CUMULATIVE[] = {2449627929u, 3935402373u, 4266923462u, 4294136371u, 4294958129u, 4294967258u, 4294967295u};

inline std::int64_t falls_evenly(std::uint32_t* stream, std::uint32_t x) {
    std::int64_t even = 1;
    while (true) {
        const std::uint32_t u = next_word(stream);
        if (u == x) return UNDECIDED;
        if (u > x) return even;
        x = u;
        even = 1 - even;
    }
}

inline std::int64_t below(std::uint32_t* stream, std::uint64_t bound) {
    const std::uint64_t product = next_word(stream) * bound;
    const std::uint64_t kind = product >> 32;
    return (product + bound - 1) >> 32 != kind ? UNDECIDED : static_cast<std::int64_t>(kind);
}

inline std::int64_t algorithm_b(std::uint32_t* stream, std::int64_t k, std::uint32_t x) {
    std::uint32_t y = x;
    std::int64_t even = 1;
    while (true) {
        const std::uint32_t z = next_word(stream);
        if (z == y) return UNDECIDED;
        if (z > y) return even;
        const std::int64_t kind = below(stream, 2 * k + 2);
        if (kind < 1) return kind == 0 ? even : UNDECIDED;
        if (kind == 1) {
            const std::uint32_t r = next_word(stream);
            if (r == x) return UNDECIDED;
            if (r > x) return even;
        }
        y = z;
        even = 1 - even;
    }
}

// The whole part of |Z| and the first digit of the rest.
inline std::int64_t draw_gaussian(std::uint32_t* stream, std::uint32_t* first) {
    while (true) {
        const std::uint32_t drawn = next_word(stream);
        std::int64_t k = 0;
        while (drawn > CUMULATIVE[k]) ++k;
        if (drawn == CUMULATIVE[k]) {
            *first = drawn;
            return UNDECIDED;
        }
        *first = next_word(stream);
        std::int64_t left = k + 1;
        while (left > 0) {
            const std::int64_t accepted = algorithm_b(stream, k, *first);
            if (accepted == UNDECIDED) return UNDECIDED;
            if (accepted == 0) break;
            --left;
        }
        if (left == 0) return k;
    }
}

// The whole part of E and the first digit of the rest.
inline std::int64_t draw_exponential(std::uint32_t* stream, std::uint32_t* first) {
    for (std::int64_t k = 0;; ++k) {
        *first = next_word(stream);
        const std::int64_t even = falls_evenly(stream, *first);
        if (even == UNDECIDED) return UNDECIDED;
        if (even == 1) return k;
    }
}

// 1 with probability exp(−exponent · 2⁻⁴⁰), else 0.
inline std::int64_t draw_acceptance(std::uint32_t* stream, std::int64_t exponent) {
    for (std::int64_t left = exponent >> 40; left > 0; --left) {
        const std::int64_t even = falls_evenly(stream, next_word(stream));
        if (even != 0) return even == UNDECIDED ? UNDECIDED : 0;
    }
    // The fraction has 40 bits: a first digit, and 8 bits more.
    const std::uint64_t fraction = (static_cast<std::uint64_t>(exponent) & 0xFFFFFFFFFFull) << 24;
    const std::uint32_t first = static_cast<std::uint32_t>(fraction >> 32), drawn = next_word(stream);
    if (drawn == first) return UNDECIDED;
    if (drawn > first) return 1;
    const std::int64_t even = falls_evenly(stream, drawn);
    return even == UNDECIDED ? UNDECIDED : 1 - even;
}

// a·b − fl(a·b), exactly (Dekker 1971).
inline double rest_of_product(double a, double b, double product) {
    const double big_a = 134217729.0 * a, big_b = 134217729.0 * b;  // 2²⁷ + 1
    const double a_high = big_a - (big_a - a), b_high = big_b - (big_b - b);
    const double a_low = a - a_high, b_low = b - b_high;
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
}

// Floats between which the rounded value + scale · (k + x) lies, three digits of x given and all others open: sums and
// products are split into what floats hold exactly and a rest, whose error has a known bound (docs/proofs/exact.md). They
// are far apart where the numbers are too large or too small for that.
inline void sum_ends(
    double value, double scale, std::int64_t k, std::uint32_t first, std::uint32_t second, std::uint32_t third, double* low, double* high
) {
    const double size = __builtin_fabs(scale);
    if (!(0x1p-900 < size && size < 0x1p900 && __builtin_fabs(value) < 0x1p900 && k < (1 << 20))) {
        *low = -__builtin_inf();
        *high = __builtin_inf();
        return;
    }
    // k + x = large + small + (less than 2⁻⁸⁵), with 20 + 32 and 32 + 21 bits: both are exact.
    const double large = static_cast<double>(k) + first * 0x1p-32;
    const double small = second * 0x1p-64 + (third >> 11) * 0x1p-85;
    const double product = scale * large;
    const double product_rest = rest_of_product(scale, large, product);
    const double total = value + product;
    const double part = total - value;
    const double total_rest = (value - (total - part)) + (product - part);
    const double further = scale * small;
    const double rest = (total_rest + product_rest) + further;
    // Two roundings in `rest`, one in `further`, one in each end below; and the digits that are open.
    const double error = 0x1p-50 * (__builtin_fabs(total_rest) + __builtin_fabs(product_rest) + __builtin_fabs(further)) + 0x1p-83 * size;
    *low = total + (rest - error);
    *high = total + (rest + error);
}

// Where the words of a draw begin, for whoever draws again.
struct Place {
    std::uint64_t counter;
    std::uint32_t position;
};

// Replaces values[start …] by value + scale · Z, correctly rounded; returns the index of the first that was not decided,
// whose words begin at `place`, or n.
inline std::int64_t add_noise(bool is_gaussian, double* values, std::int64_t start, std::int64_t n, double scale, std::uint32_t* stream, Place* place) {
    for (std::int64_t i = start; i < n; ++i) {
        *place = Place{counter_of(stream), stream[STREAM_POSITION]};
        std::uint32_t first = 0;
        const std::int64_t k = is_gaussian ? draw_gaussian(stream, &first) : draw_exponential(stream, &first);
        if (k == UNDECIDED) return i;
        const double signed_scale = next_word(stream) >> 31 ? -scale : scale;
        const std::uint32_t second = next_word(stream), third = next_word(stream);
        double low, high;
        sum_ends(values[i], signed_scale, k, first, second, third, &low, &high);
        if (!(low == high)) return i;
        values[i] = low;
    }
    return n;
}

// A uniformly random integer of 0 … bound − 1, by rejection.
inline std::int64_t index_below(std::uint32_t* stream, std::uint64_t bound) {
    std::uint64_t mask = bound - 1;
    for (int shift = 1; shift <= 32; shift *= 2) mask |= mask >> shift;
    while (true) {
        const std::uint64_t low = next_word(stream), high = next_word(stream);
        const std::uint64_t drawn = (low | high << 32) & mask;
        if (drawn < bound) return static_cast<std::int64_t>(drawn);
    }
}

// Fills `taken` with cells: how many, the next cell, and whether digits decided; if not, the last word is put back.
inline bool take_cells(
    std::int64_t n_cells, std::int64_t* cell, const std::uint32_t* thresholds, std::int64_t n_thresholds, std::uint32_t* stream,
    std::int64_t* taken, std::int64_t room, std::int64_t* n_taken
) {
    *n_taken = 0;
    while (*cell < n_cells && *n_taken < room) {
        const std::uint32_t drawn = next_word(stream);
        std::int64_t passed = 0, end = n_thresholds;  // P(passed > j) = P(U < (1 − rate)^(j + 1))
        while (passed < end) {
            const std::int64_t middle = (passed + end) / 2;
            if (thresholds[middle] > drawn) passed = middle + 1;
            else end = middle;
        }
        if (passed < n_thresholds && thresholds[passed] == drawn) {
            --stream[STREAM_POSITION];
            return false;
        }
        *cell += passed;
        if (passed < n_thresholds) {
            if (*cell < n_cells) taken[(*n_taken)++] = *cell;
            ++*cell;
        }
    }
    return true;
}

// Marks the rows that are not used: of a unit with more than `limit`, all but this many of them. A row is used with the
// probability of those that are still wanted among those that are left (Knuth's algorithm S, up to 2⁻⁵³): all choices are
// alike. Every row of such a unit takes two words of the stream.
template <class Number>
void leave_out(
    const Number* numbers, std::int64_t n, const std::int64_t* counts, std::int64_t n_units, std::int64_t limit,
    std::uint32_t* stream, std::int64_t* left, std::int64_t* wanted, std::uint8_t* unused
) {
    for (std::int64_t unit = 0; unit < n_units; ++unit) {
        left[unit] = counts[unit];
        wanted[unit] = counts[unit] < limit ? counts[unit] : limit;
    }
    for (std::int64_t row = 0; row < n; ++row) {
        const std::int64_t unit = numbers[row];
        if (unit < 0 || unit >= n_units || counts[unit] <= limit) continue;
        const std::uint64_t high = next_word(stream), low = next_word(stream);
        const std::uint64_t word = high << 21 ^ low >> 11;
        if (static_cast<double>(word) * 0x1p-53 * static_cast<double>(left[unit]) < static_cast<double>(wanted[unit])) --wanted[unit];
        else unused[row] = 1;
        --left[unit];
    }
}

}  // namespace dperm
