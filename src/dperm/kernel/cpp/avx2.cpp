// The same kernels for processors with registers of 256 bits: the same bits, faster. What the standard library offers is
// included before its code may use them.
#include <cstdlib>

#include "kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#define DPERM_AVX2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

namespace dperm {
namespace avx2 {
#include "sums.hpp"
}  // namespace avx2
}  // namespace dperm

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
