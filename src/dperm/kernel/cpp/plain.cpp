// The kernels for any processor of this kind.
#include <cstdlib>

#include "kernels.hpp"

namespace dperm {
namespace plain {
#include "sums.hpp"
}  // namespace plain

void clip_vector(double* values, std::int64_t n, double bound) { plain::shorten(values, n, bound); }

namespace {
double sign_of(double v) { return v > 0.0 ? 1.0 : v < 0.0 ? -1.0 : 0.0; }
double thresholded(double v, double by) { return sign_of(v) * plain::larger(__builtin_fabs(v) - by, 0.0); }
// The `shrink` of the regularizers in problem/regularizers/, under their names there.
double none(double v, double, const double*) { return v; }
double l1(double v, double step, const double* c) { return thresholded(v, step * c[0]); }
double l2(double v, double step, const double* c) { return v / (1.0 + step * c[0]); }
double elastic_net(double v, double step, const double* c) {
    return thresholded(v, step * c[0] * c[1]) / (1.0 + step * c[0] * (1.0 - c[1]));
}
}  // namespace

Shrink shrink_of(const char* name) {
    const struct { const char* name; Shrink shrink; } known[] = {{"none", none}, {"l1", l1}, {"l2", l2}, {"elastic_net", elastic_net}};
    for (const auto& regularizer : known)
        if (__builtin_strcmp(name, regularizer.name) == 0) return regularizer.shrink;
    return nullptr;
}

void prox_step(
    Shrink shrink, const double* parameters, const double* low, const double* high, double radius, const double* w,
    const double* direction, double step, std::int64_t n, double* out
) {
    for (std::int64_t j = 0; j < n; ++j) {
        const double moved = shrink(w[j] - step * direction[j], step, parameters);
        out[j] = plain::smaller(plain::larger(moved, low[j]), high[j]);
    }
    if (radius < __builtin_inf()) clip_vector(out, n, radius);
}

}  // namespace dperm
