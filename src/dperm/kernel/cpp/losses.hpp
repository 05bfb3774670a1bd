// ℓ' of the losses in problem/losses/, under their names there. tests/kernel/test_native.py compares the two.
// Included by sums.hpp, inside its namespace.

// e^x for x within [−708, 709], and the value at the nearer end beyond: never 0, never infinite. e^x = 2^k e^r with
// |r| ≤ ½ ln 2 and a Taylor polynomial for e^r: 1e-14 relative, no call and no branch, so that several are computed at once.
inline double exponential(double x) {
    const double rounder = 1.5 * 4503599627370496.0;  // adding it rounds to a whole number, in the low bits
    x = x < -708.0 ? -708.0 : x;
    x = x > 709.0 ? 709.0 : x;
    double shifted = x * 1.4426950408889634 + rounder;
    double k = shifted - rounder;
    double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double e = 1.0 / 39916800.0;
    e = e * r + 1.0 / 3628800.0;
    e = e * r + 1.0 / 362880.0;
    e = e * r + 1.0 / 40320.0;
    e = e * r + 1.0 / 5040.0;
    e = e * r + 1.0 / 720.0;
    e = e * r + 1.0 / 120.0;
    e = e * r + 1.0 / 24.0;
    e = e * r + 1.0 / 6.0;
    e = e * r + 0.5;
    e = e * r + 1.0;
    e = e * r + 1.0;
    std::uint64_t bits, power;
    __builtin_memcpy(&bits, &e, 8);
    __builtin_memcpy(&power, &shifted, 8);
    bits += power << 52;
    __builtin_memcpy(&e, &bits, 8);
    return e;
}

inline double smaller(double a, double b) { return a < b ? a : b; }
inline double larger(double a, double b) { return a > b ? a : b; }

// One margin: `n` rows at a time.
#define DPERM_SCALAR_SLOPE(name, expression)                                                                          \
    void name(const double* margin, const double* target, const double* c, std::int64_t n, double* out) {             \
        (void)c;                                                                                                      \
        for (std::int64_t i = 0; i < n; ++i) {                                                                        \
            const double m = margin[i], y = target[i];                                                                \
            out[i] = (expression);                                                                                    \
        }                                                                                                             \
    }

inline double sigmoid_slope(double m, double y) {
    const double wrong = 1.0 / (1.0 + exponential(y * m));
    return -y * wrong * (1.0 - wrong);
}
inline double welsch_slope(double residual, double scale) {
    const double t = residual / scale;
    return t * t > 708.0 ? 0.0 : residual * exponential(-(t * t));
}

DPERM_SCALAR_SLOPE(logistic, -y / (1.0 + exponential(y * m)))
DPERM_SCALAR_SLOPE(sigmoid, sigmoid_slope(m, y))
DPERM_SCALAR_SLOPE(smoothed_hinge, -y * smaller(larger(1.0 - y * m, 0.0) / c[0], 1.0))
DPERM_SCALAR_SLOPE(squared, smaller(larger(m - y, -2.0 * c[0]), 2.0 * c[0]))
DPERM_SCALAR_SLOPE(huber, smaller(larger(m - y, -c[0]), c[0]))
DPERM_SCALAR_SLOPE(welsch, welsch_slope(m - y, c[0]))
DPERM_SCALAR_SLOPE(poisson, exponential(smaller(m, c[0])) - y)
#undef DPERM_SCALAR_SLOPE

// Several margins: one row at a time. A target that is no class counts as the first: nothing outside `out` is written.
inline std::int64_t class_of(double target, std::int64_t outputs) {
    return target >= 0.0 && target < static_cast<double>(outputs) ? static_cast<std::int64_t>(target) : 0;
}

void softmax(const double* margin, double target, const double* c, std::int64_t outputs, double* out) {
    const std::int64_t truth = class_of(target, outputs);
    const double cut = c[0];
    double top = margin[0];
    for (std::int64_t k = 1; k < outputs; ++k) top = larger(margin[k], top);
    for (std::int64_t k = 0; k < outputs; ++k) out[k] = exponential(margin[k] - top);
    double wrong = 0.0;
    for (std::int64_t k = 0; k < outputs; ++k)
        if (k != truth) wrong += out[k];
    const double total = wrong + out[truth];
    if (cut < 1.0 && wrong > cut * total) {
        for (std::int64_t k = 0; k < outputs; ++k) out[k] *= cut / wrong;
        out[truth] = -cut;
    } else {
        for (std::int64_t k = 0; k < outputs; ++k) out[k] /= total;
        out[truth] -= 1.0;
    }
}

void one_vs_rest_hinge(const double* margin, double target, const double* c, std::int64_t outputs, double* out) {
    const std::int64_t truth = class_of(target, outputs);
    for (std::int64_t k = 0; k < outputs; ++k) {
        const double sign = k == truth ? 1.0 : -1.0;
        const double gap = larger(1.0 - sign * margin[k], 0.0);
        out[k] = -sign * smaller(gap / c[0], 1.0);
    }
}

ScalarSlope scalar_slope(const char* name) {
    const struct { const char* name; ScalarSlope slope; } known[] = {
        {"logistic", logistic}, {"sigmoid", sigmoid}, {"smoothed_hinge", smoothed_hinge}, {"squared", squared},
        {"huber", huber}, {"welsch", welsch}, {"poisson", poisson},
    };
    for (const auto& loss : known)
        if (__builtin_strcmp(name, loss.name) == 0) return loss.slope;
    return nullptr;
}

VectorSlope vector_slope(const char* name) {
    if (__builtin_strcmp(name, "softmax") == 0) return softmax;
    if (__builtin_strcmp(name, "one_vs_rest_hinge") == 0) return one_vs_rest_hinge;
    return nullptr;
}
