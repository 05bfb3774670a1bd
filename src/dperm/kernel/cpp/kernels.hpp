// What the kernels are handed and offer. They are compiled twice from sums.hpp, for any processor of this kind and for
// one with wider registers, and compute the same bits: sums are in the order that is written, products are not fused
// with additions (-ffp-contract=off), and no flag lets the compiler reorder floating point.
#pragma once
#include <cstddef>
#include <cstdint>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dperm {

// Where the entries of a coded row are: `coded.hpp`. Blocks with one entry or none come first, then those with two.
struct CodedBlock {
    std::int32_t slot, last;  // its first slot, and its largest code
};
struct CodedDigit {
    std::int32_t column, levels;  // a number, or a block after all numbers; where its levels begin
};
struct CodedCross {
    std::int32_t slot, first, last;  // its first cell, and its digits
};
struct Coded {
    std::int64_t n_codes, n_fractions, n_numbers, n_slots, n_crosses, n_levels, parts;
    double cross_entry;
    const void* codes;
    const std::uint8_t* fractions;
    const float* numbers;
    const std::int32_t* places;  // the column of every slot, −1 for none
    const CodedBlock* blocks;
    const CodedCross* crosses;
    const CodedDigit* digits;
    const std::int32_t* levels;
    const double* ends;  // two entries for every part of the way
};

// Rows of a table: a dense array of any strides, a CSR matrix, whose indices are 32 or 64 bits wide, or codes.
struct Table {
    enum Storage : int { DENSE, CSR, CODED };
    // Types of entries: float and double are read as they are, others are converted a few rows at a time.
    enum Entry : int { FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64 };

    int storage, entry;
    std::int64_t n, p;
    const char* data;
    std::ptrdiff_t row_stride, column_stride;  // in bytes
    const void *indices = nullptr, *starts = nullptr;
    bool wide;
    const Coded* coded = nullptr;  // with codes of the type `entry`
};

struct Rows {
    Table table;
    const double *scale, *weight, *target;
    double intercept;  // the value of the constant column, 0 for none
};

// ℓ' of many rows that have one margin each, or of one row that has several.
using ScalarSlope = void (*)(const double* margin, const double* target, const double* parameters, std::int64_t n, double* out);
using VectorSlope = void (*)(const double* margin, double target, const double* parameters, std::int64_t outputs, double* out);

struct Slope {
    ScalarSlope scalar = nullptr;
    VectorSlope vector = nullptr;
    const double* parameters;
    double bound, curvature;
    std::int64_t outputs;
};

// What a row adds: its gradient at w, the difference to that at the anchor, or for a convex loss the difference moved
// into the ball from 0 to β times how far its margins move (then w is the point minus the anchor).
enum Part : int { GRADIENT, DIFFERENCE, CONVEX_DIFFERENCE };

// Rows that are summed: start … stop − 1, or chosen[start … stop − 1].
struct Span {
    std::int64_t start = 0, stop = 0;
    const std::int64_t* chosen = nullptr;
    std::int64_t row(std::int64_t k) const { return chosen == nullptr ? k : chosen[k]; }
};

struct Kernels {
    // out[outputs][width] += Σ of every row's bounded part, `block` rows at a time.
    void (*part_sum)(const Rows&, const Slope&, int part, const double* w, const double* anchor, Span, std::int64_t block, double* out);
    // out[stop − start][outputs] = ⟨w_k, x⟩ of every row, before its scale; each depends on its row alone, bit for bit.
    void (*margins)(const Table&, const double* w, std::int64_t outputs, std::int64_t width, Span, double* out);
    // out[outputs][width] += Σ factor[i][k] x_i, `block` rows at a time; rows whose factors are all 0 are not read.
    void (*add_rows)(const Table&, const double* factors, std::int64_t outputs, std::int64_t width, Span, std::int64_t block, double* out);
    // out + outᵀ − diagonal(out) = Σ factor_i x_i x_iᵀ, or out[width] its diagonal, of sparse or coded rows, `block` at a
    // time; rows whose factor is 0 are not read.
    void (*add_products)(const Table&, const double* factors, std::int64_t width, std::int64_t block, bool diagonal, double* out);
    // l2 norm and largest entry of every row; NaN where an entry is not finite or too large.
    void (*norms)(const Table&, double largest, double* norms, double* entries);
    // Σ weight_i s_i and Σ weight_i |s_i|, s_i the clipped slope at a margin.
    void (*slope_sums)(const Rows&, const Slope&, double constant, const double* margins, std::int64_t n, std::int64_t block, double* out);
    // Margins become curvatures: the slope of a chord of ℓ', clipped to [0, curvature]; for several outputs each its own.
    void (*curvatures)(const Slope&, const double* scale, const double* target, double constant, double step, std::int64_t n, double* margins);
    // The next 32 blocks of ChaCha20.
    void (*refill)(std::uint32_t* stream);
    ScalarSlope (*scalar_slope)(const char* name);
    VectorSlope (*vector_slope)(const char* name);
};

namespace plain {
const Kernels& kernels();
}
#if defined(__x86_64__)
namespace avx2 {
const Kernels& kernels();
}
// Whether processor and system have them. __builtin_cpu_supports needs a table that the packaged compiler does not bring.
inline bool has_avx2() {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
    unsigned saved, high;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    return (saved & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
inline const Kernels& kernels() {
    static const Kernels& chosen = has_avx2() ? avx2::kernels() : plain::kernels();
    return chosen;
}
#else
inline const Kernels& kernels() { return plain::kernels(); }
#endif

// Shorten a vector to the bound, in place; one without a finite norm becomes zero.
void clip_vector(double* values, std::int64_t n, double bound);

// w ← prox(w − step · direction), coordinate by coordinate: shrunk, put between two bounds, then into a ball.
using Shrink = double (*)(double value, double step, const double* parameters);
Shrink shrink_of(const char* name);
void prox_step(
    Shrink shrink, const double* parameters, const double* low, const double* high, double radius, const double* w,
    const double* direction, double step, std::int64_t n, double* out
);

}  // namespace dperm
