// Sums over rows, every row's part bounded. A row's part is weight · scale · clip(ℓ'(scale · ⟨w, x⟩ + c·w_c, y)) · x, where
// `scale` clips the row to the declared norm and `clip` enforces the declared slope. So the sum's sensitivity does not
// depend on what the rows hold. Rows of weight 0 are never read. Included once for every kind of processor, inside a
// namespace of its own.

// Rows that are read twice, for their margins and for the sum: so many numbers stay in the cache.
constexpr std::int64_t TILE = 64, TILE_ENTRIES = 32768;

typedef double Four __attribute__((vector_size(32)));
typedef float FourFloats __attribute__((vector_size(16)));
typedef long long Mask __attribute__((vector_size(32)));

inline Four load(const double* p) {
    Four v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
inline Four load(const float* p) {
#ifdef DPERM_AVX2
    return _mm256_cvtps_pd(_mm_loadu_ps(p));  // GCC makes five instructions of a conversion that it is left
#else
    FourFloats v;
    __builtin_memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, Four);
#endif
}
inline void store(double* p, Four v) { __builtin_memcpy(p, &v, sizeof v); }
inline double sum_of(Four v) { return (v[0] + v[1]) + (v[2] + v[3]); }

// Zeros that are freed when they go out of scope.
struct Zeros {
    double* values;
    explicit Zeros(std::int64_t n) : values(static_cast<double*>(std::calloc(n > 0 ? n : 1, sizeof(double)))) {
        if (values == nullptr) std::abort();  // a sum that cannot be computed must not be released
    }
    ~Zeros() { std::free(values); }
    Zeros(const Zeros&) = delete;
    operator double*() { return values; }
};

#include "losses.hpp"

inline double clip(double value, double bound) {
    // Written so that a NaN ends at the bound instead of passing through.
    if (!(value <= bound)) return bound;
    if (!(value >= -bound)) return -bound;
    return value;
}

inline void shorten(double* values, std::int64_t n, double bound) {
    double total = 0.0;
    for (std::int64_t k = 0; k < n; ++k) total += values[k] * values[k];
    const double norm = __builtin_sqrt(total);
    if (!(norm <= bound))
        for (std::int64_t k = 0; k < n; ++k) values[k] = norm < __builtin_inf() ? values[k] * (bound / norm) : 0.0;
}

// ---- Dense rows: a tile of pointers to rows whose entries lie side by side.

template <class T>
double dot(const T* x, const double* w, std::int64_t p) {
    Four a = {0, 0, 0, 0}, b = {0, 0, 0, 0};
    std::int64_t j = 0;
    for (; j + 8 <= p; j += 8) {
        a += load(x + j) * load(w + j);
        b += load(x + j + 4) * load(w + j + 4);
    }
    double rest = 0.0;
    for (; j < p; ++j) rest += static_cast<double>(x[j]) * w[j];
    return sum_of(a + b) + rest;
}

// The margins of R rows for C outputs at once: each is a sum in the same order, however many are computed together.
template <int R, int C, class T>
void dots(const T* const* x, const double* w, std::int64_t width, std::int64_t p, std::int64_t outputs, double* out) {
    Four sums[R][C];
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) sums[r][c] = Four{0, 0, 0, 0};
    std::int64_t j = 0;
    for (; j + 4 <= p; j += 4) {
        Four row[R];
        for (int r = 0; r < R; ++r) row[r] = load(x[r] + j);
        for (int c = 0; c < C; ++c) {
            const Four point = load(w + c * width + j);
            for (int r = 0; r < R; ++r) sums[r][c] += row[r] * point;
        }
    }
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) {
            double rest = 0.0;
            for (std::int64_t k = j; k < p; ++k) rest += static_cast<double>(x[r][k]) * w[c * width + k];
            out[r * outputs + c] = sum_of(sums[r][c]) + rest;
        }
}

// The margins of n rows for C outputs, R rows at once.
template <int R, int C, class T>
void margins_of_some(
    const T* const* x, std::int64_t n, const double* w, std::int64_t width, std::int64_t p, std::int64_t outputs, double* out
) {
    std::int64_t i = 0;
    for (; i + R <= n; i += R) dots<R, C>(x + i, w, width, p, outputs, out + i * outputs);
    for (; i < n; ++i) dots<1, C>(x + i, w, width, p, outputs, out + i * outputs);
}

template <class T>
void tile_margins(
    const T* const* x, std::int64_t n, const double* w, std::int64_t outputs, std::int64_t width, std::int64_t p, double* out
) {
    if (outputs == 1) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = dot(x[i], w, p);
        return;
    }
    for (std::int64_t k = 0; k < outputs; k += 5) {
        const double* some = w + k * width;
        switch (outputs - k) {
            case 1: margins_of_some<4, 1>(x, n, some, width, p, outputs, out + k); break;
            case 2: margins_of_some<4, 2>(x, n, some, width, p, outputs, out + k); break;
            case 3: margins_of_some<2, 3>(x, n, some, width, p, outputs, out + k); break;
            case 4: margins_of_some<2, 4>(x, n, some, width, p, outputs, out + k); break;
            default: margins_of_some<2, 5>(x, n, some, width, p, outputs, out + k);
        }
    }
}

// sum[k][j] += Σ_i factor[i][k] x_ij, four rows at a time, for C outputs at once.
template <int C, class T>
void tile_add(
    const T* const* x, std::int64_t n, const double* factors, std::int64_t stride, std::int64_t p, std::int64_t width, double* sum
) {
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const T *x0 = x[i], *x1 = x[i + 1], *x2 = x[i + 2], *x3 = x[i + 3];
        double f[C][4];
        for (int c = 0; c < C; ++c)
            for (int r = 0; r < 4; ++r) f[c][r] = factors[(i + r) * stride + c];
        std::int64_t j = 0;
        for (; j + 4 <= p; j += 4) {
            const Four a = load(x0 + j), b = load(x1 + j), c = load(x2 + j), d = load(x3 + j);
            for (int k = 0; k < C; ++k) {
                double* own = sum + k * width + j;
                store(own, load(own) + ((f[k][0] * a + f[k][1] * b) + (f[k][2] * c + f[k][3] * d)));
            }
        }
        for (; j < p; ++j)
            for (int k = 0; k < C; ++k)
                sum[k * width + j] += (f[k][0] * x0[j] + f[k][1] * x1[j]) + (f[k][2] * x2[j] + f[k][3] * x3[j]);
    }
    for (; i < n; ++i)
        for (int k = 0; k < C; ++k) {
            const T* row = x[i];
            const double factor = factors[i * stride + k];
            double* own = sum + k * width;
            std::int64_t j = 0;
            for (; j + 4 <= p; j += 4) store(own + j, load(own + j) + factor * load(row + j));
            for (; j < p; ++j) own[j] += factor * row[j];
        }
}

template <class T>
inline double entry_of(const char* place) {
    T value;
    __builtin_memcpy(&value, place, sizeof value);
    return static_cast<double>(value);
}

template <class T>
void convert(const Table& table, const std::int64_t* rows, std::int64_t n, double* out) {
    for (std::int64_t i = 0; i < n; ++i) {
        const char* row = table.data + rows[i] * table.row_stride;
        for (std::int64_t j = 0; j < table.p; ++j) out[i * table.p + j] = entry_of<T>(row + j * table.column_stride);
    }
}

// Reads a few rows of a dense table at a time, converted where their entries are not side by side or not of type T.
template <class T>
struct DenseRows {
    const Table& table;
    const bool direct;
    const std::int64_t most;
    Zeros converted;
    const T* row[TILE];

    static bool is_direct(const Table& table) {
        const int own = sizeof(T) == 4 ? Table::FLOAT32 : Table::FLOAT64;
        const bool aligned = reinterpret_cast<std::uintptr_t>(table.data) % sizeof(T) == 0 && table.row_stride % static_cast<std::ptrdiff_t>(sizeof(T)) == 0;
        return table.entry == own && table.column_stride == static_cast<std::ptrdiff_t>(sizeof(T)) && aligned;
    }
    static std::int64_t rows_at_once(std::int64_t p) {
        const std::int64_t fitting = TILE_ENTRIES / (p > 0 ? p : 1) / 4 * 4;
        return fitting < 4 ? 4 : fitting > TILE ? TILE : fitting;
    }
    explicit DenseRows(const Table& table)
        : table(table), direct(is_direct(table)), most(rows_at_once(table.p)), converted(direct ? 0 : most * table.p) {}

    void read(const std::int64_t* rows, std::int64_t n) {
        if (direct) {
            for (std::int64_t i = 0; i < n; ++i) row[i] = reinterpret_cast<const T*>(table.data + rows[i] * table.row_stride);
            return;
        }
        switch (table.entry) {
            case Table::FLOAT32: convert<float>(table, rows, n, converted); break;
            case Table::FLOAT64: convert<double>(table, rows, n, converted); break;
            case Table::INT8: convert<std::int8_t>(table, rows, n, converted); break;
            case Table::INT16: convert<std::int16_t>(table, rows, n, converted); break;
            case Table::INT32: convert<std::int32_t>(table, rows, n, converted); break;
            case Table::INT64: convert<std::int64_t>(table, rows, n, converted); break;
            case Table::UINT8: convert<std::uint8_t>(table, rows, n, converted); break;
            case Table::UINT16: convert<std::uint16_t>(table, rows, n, converted); break;
            case Table::UINT32: convert<std::uint32_t>(table, rows, n, converted); break;
            default: convert<std::uint64_t>(table, rows, n, converted); break;
        }
        for (std::int64_t i = 0; i < n; ++i) row[i] = reinterpret_cast<const T*>(converted.values + i * table.p);
    }
    void margins(std::int64_t n, const double* w, std::int64_t outputs, std::int64_t width, double* out) {
        tile_margins(row, n, w, outputs, width, table.p, out);
    }
    void add(std::int64_t n, const double* factors, std::int64_t outputs, std::int64_t width, double* sum) {
        std::int64_t k = 0;
        for (; k + 2 <= outputs; k += 2) tile_add<2>(row, n, factors + k, outputs, table.p, width, sum + k * width);
        if (k < outputs) tile_add<1>(row, n, factors + k, outputs, table.p, width, sum + k * width);
    }
    // Add a block's sum to the total and clear it.
    void move(double* sum, std::int64_t outputs, std::int64_t width, double* out) {
        for (std::int64_t j = 0; j < outputs * width; ++j) {
            out[j] += sum[j];
            sum[j] = 0.0;
        }
    }
    const double* point(const double* w, std::int64_t, std::int64_t) { return w; }
};

// ---- Sparse rows. With several outputs, coefficients and sums of one column lie side by side.

template <class T, class I>
struct CsrRows {
    const T* data;
    const I *indices, *starts;
    static constexpr std::int64_t most = TILE;
    std::int64_t row[TILE];
    Zeros turned, turned_anchor;
    bool is_first = true;
    // The rows of a block, so that only columns which they name are visited when its sum is moved.
    std::int64_t entries = 0;
    Span block;

    CsrRows(const Table& table, std::int64_t outputs, std::int64_t width, bool has_anchor)
        : data(reinterpret_cast<const T*>(table.data)), indices(static_cast<const I*>(table.indices)),
          starts(static_cast<const I*>(table.starts)), turned(outputs > 1 ? outputs * width : 0),
          turned_anchor(outputs > 1 && has_anchor ? outputs * width : 0) {}

    void read(const std::int64_t* rows, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
            row[i] = rows[i];
            entries += static_cast<std::int64_t>(starts[rows[i] + 1] - starts[rows[i]]);
        }
    }
    const double* point(const double* w, std::int64_t outputs, std::int64_t width) {
        if (outputs == 1) return w;
        double* out = is_first ? turned : turned_anchor;
        is_first = false;
        for (std::int64_t k = 0; k < outputs; ++k)
            for (std::int64_t j = 0; j < width; ++j) out[j * outputs + k] = w[k * width + j];
        return out;
    }
    void margins(std::int64_t n, const double* w, std::int64_t outputs, std::int64_t, double* out) {
        for (std::int64_t i = 0; i < n; ++i) {
            const I first = starts[row[i]], last = starts[row[i] + 1];
            if (outputs == 1) {
                double even = 0.0, odd = 0.0;
                I k = first;
                for (; k + 2 <= last; k += 2) {
                    even += static_cast<double>(data[k]) * w[indices[k]];
                    odd += static_cast<double>(data[k + 1]) * w[indices[k + 1]];
                }
                if (k < last) even += static_cast<double>(data[k]) * w[indices[k]];
                out[i] = even + odd;
                continue;
            }
            double* margin = out + i * outputs;
            for (std::int64_t c = 0; c < outputs; ++c) margin[c] = 0.0;
            for (I k = first; k < last; ++k) {
                const double value = data[k];
                const double* column = w + static_cast<std::int64_t>(indices[k]) * outputs;
                for (std::int64_t c = 0; c < outputs; ++c) margin[c] += value * column[c];
            }
        }
    }
    void add(std::int64_t n, const double* factors, std::int64_t outputs, std::int64_t, double* sum) {
        for (std::int64_t i = 0; i < n; ++i) {
            const I first = starts[row[i]], last = starts[row[i] + 1];
            const double* factor = factors + i * outputs;
            if (outputs == 1) {
                for (I k = first; k < last; ++k) sum[indices[k]] += *factor * data[k];
                continue;
            }
            for (I k = first; k < last; ++k) {
                const double value = data[k];
                double* column = sum + static_cast<std::int64_t>(indices[k]) * outputs;
                for (std::int64_t c = 0; c < outputs; ++c) column[c] += factor[c] * value;
            }
        }
    }
    void move_column(double* sum, std::int64_t j, std::int64_t outputs, std::int64_t width, double* out) {
        for (std::int64_t c = 0; c < outputs; ++c) {
            out[c * width + j] += sum[j * outputs + c];
            sum[j * outputs + c] = 0.0;
        }
    }
    void move(double* sum, std::int64_t outputs, std::int64_t width, double* out) {
        // Where a block names few of the columns only those are visited, so that a pass costs as much as its entries.
        if (4 * entries < width) {
            for (std::int64_t i = block.start; i < block.stop; ++i) {
                const std::int64_t r = block.row(i);
                for (I k = starts[r]; k < starts[r + 1]; ++k) move_column(sum, indices[k], outputs, width, out);
            }
            move_column(sum, width - 1, outputs, width, out);  // the constant column, which no row names
        } else {
            for (std::int64_t j = 0; j < width; ++j) move_column(sum, j, outputs, width, out);
        }
        entries = 0;
    }
};

#include "coded.hpp"

// ---- What every storage shares.

// Numbers in a block's sum.
inline std::int64_t sum_size(const Table& table, std::int64_t outputs, std::int64_t width) {
    return outputs * (table.storage == Table::CODED ? table.coded->n_slots + 1 : width);
}

// Calls `work` with the storage that reads a table; Checked if rows that do not count are read too.
template <bool Checked = false, class Work>
void with_storage(const Table& table, std::int64_t outputs, std::int64_t width, bool has_anchor, Work work) {
    if (table.storage == Table::CSR) {
        if (table.entry == Table::FLOAT32 && table.wide) {
            CsrRows<float, std::int64_t> rows(table, outputs, width, has_anchor);
            work(rows);
        } else if (table.entry == Table::FLOAT32) {
            CsrRows<float, std::int32_t> rows(table, outputs, width, has_anchor);
            work(rows);
        } else if (table.wide) {
            CsrRows<double, std::int64_t> rows(table, outputs, width, has_anchor);
            work(rows);
        } else {
            CsrRows<double, std::int32_t> rows(table, outputs, width, has_anchor);
            work(rows);
        }
    } else if (table.storage == Table::CODED) {
        with_codes<Checked>(table, outputs, has_anchor, work);
    } else if (DenseRows<float>::is_direct(table)) {
        DenseRows<float> rows(table);
        work(rows);
    } else {
        DenseRows<double> rows(table);
        work(rows);
    }
}

template <class Storage>
void begin_block(Storage&, Span) {}
template <class T, class I>
void begin_block(CsrRows<T, I>& storage, Span block) { storage.block = block; }

// Where the constant column of an output is in a block's sum: sparse rows keep the outputs of a column together.
template <class T>
inline std::int64_t constant_place(const DenseRows<T>&, std::int64_t k, std::int64_t, std::int64_t width) { return k * width + width - 1; }
template <class T, class I>
inline std::int64_t constant_place(const CsrRows<T, I>&, std::int64_t k, std::int64_t outputs, std::int64_t width) { return (width - 1) * outputs + k; }
template <class Code, bool Checked>
inline std::int64_t constant_place(const CodedRows<Code, Checked>& storage, std::int64_t k, std::int64_t outputs, std::int64_t) { return storage.coded.n_slots * outputs + k; }

// Takes ℓ' of a few rows, which have `outputs` margins each.
void take_slopes(const Slope& slope, const double* margins, const double* target, std::int64_t n, double* out) {
    if (slope.vector == nullptr) {
        slope.scalar(margins, target, slope.parameters, n, out);
        return;
    }
    for (std::int64_t i = 0; i < n * slope.outputs; ++i) out[i] = 0.0;  // a loss may leave an output out
    for (std::int64_t i = 0; i < n; ++i)
        slope.vector(margins + i * slope.outputs, target[i], slope.parameters, slope.outputs, out + i * slope.outputs);
}

void part_sum(
    const Rows& rows, const Slope& slope, int part, const double* w, const double* anchor, Span span, std::int64_t block, double* out
) {
    const std::int64_t outputs = slope.outputs, p = rows.table.p;
    const double intercept = rows.intercept;
    const std::int64_t width = intercept != 0.0 ? p + 1 : p;
    Zeros sum(sum_size(rows.table, outputs, width)), space(5 * TILE * outputs), facts(3 * TILE), constants(2 * outputs);
    double *margins = space, *there = margins + TILE * outputs, *slopes = there + TILE * outputs;
    double *slopes_there = slopes + TILE * outputs, *centre = slopes_there + TILE * outputs;
    double *targets = facts, *scales = targets + TILE, *weights = scales + TILE;
    if (intercept != 0.0)
        for (std::int64_t k = 0; k < outputs; ++k) {
            constants[k] = intercept * w[k * width + p];
            constants[outputs + k] = part == GRADIENT ? 0.0 : intercept * anchor[k * width + p];
        }
    with_storage(rows.table, outputs, width, part != GRADIENT, [&](auto& storage) {
        const double* point = storage.point(w, outputs, width);
        const double* point_there = part == GRADIENT ? nullptr : storage.point(anchor, outputs, width);
        std::int64_t numbers[TILE];
        for (std::int64_t first = span.start; first < span.stop; first += block) {
            const std::int64_t end = first + block < span.stop ? first + block : span.stop;
            begin_block(storage, Span{first, end, span.chosen});
            for (std::int64_t next = first; next < end;) {
                std::int64_t n = 0;
                for (; next < end && n < storage.most; ++next) {
                    const std::int64_t row = span.row(next);
                    if (rows.weight[row] != 0.0) {
                        targets[n] = rows.target[row];
                        scales[n] = rows.scale[row];
                        weights[n] = rows.weight[row];
                        numbers[n++] = row;
                    }
                }
                storage.read(numbers, n);
                storage.margins(n, point, outputs, width, margins);
                if (outputs == 1 && part == GRADIENT) {
                    for (std::int64_t i = 0; i < n; ++i) margins[i] = margins[i] * scales[i] + constants[0];
                    take_slopes(slope, margins, targets, n, slopes);
                    for (std::int64_t i = 0; i < n; ++i) slopes[i] = clip(slopes[i], slope.bound) * weights[i];
                    if (intercept != 0.0)
                        for (std::int64_t i = 0; i < n; ++i) sum[constant_place(storage, 0, outputs, width)] += intercept * slopes[i];
                    for (std::int64_t i = 0; i < n; ++i) slopes[i] *= scales[i];
                    storage.add(n, slopes, outputs, width, sum);
                    continue;
                }
                if (part != GRADIENT) storage.margins(n, point_there, outputs, width, there);
                for (std::int64_t i = 0; i < n; ++i)
                    for (std::int64_t k = 0; k < outputs; ++k) {
                        const std::int64_t at = i * outputs + k;
                        margins[at] = margins[at] * scales[i] + constants[k];
                        if (part != GRADIENT) there[at] = there[at] * scales[i] + constants[outputs + k];
                        if (part == CONVEX_DIFFERENCE) {
                            centre[at] = 0.5 * slope.curvature * margins[at];
                            margins[at] += there[at];
                        }
                    }
                take_slopes(slope, margins, targets, n, slopes);
                if (part != GRADIENT) take_slopes(slope, there, targets, n, slopes_there);
                for (std::int64_t i = 0; i < n; ++i) {
                    double* own = slopes + i * outputs;
                    if (part != GRADIENT)
                        for (std::int64_t k = 0; k < outputs; ++k) own[k] -= slopes_there[i * outputs + k];
                    if (part == CONVEX_DIFFERENCE) {
                        double* middle = centre + i * outputs;
                        double total = 0.0;
                        for (std::int64_t k = 0; k < outputs; ++k) {
                            own[k] -= middle[k];
                            total += middle[k] * middle[k];
                        }
                        shorten(own, outputs, __builtin_sqrt(total));
                        for (std::int64_t k = 0; k < outputs; ++k) own[k] += middle[k];
                    }
                    shorten(own, outputs, slope.bound);
                    for (std::int64_t k = 0; k < outputs; ++k) {
                        own[k] *= weights[i];
                        if (intercept != 0.0) sum[constant_place(storage, k, outputs, width)] += intercept * own[k];
                        own[k] *= scales[i];
                    }
                }
                storage.add(n, slopes, outputs, width, sum);
            }
            storage.move(sum, outputs, width, out);
        }
    });
}

void margins_of(const Table& table, const double* w, std::int64_t outputs, std::int64_t width, Span span, double* out) {
    with_storage<true>(table, outputs, width, false, [&](auto& storage) {
        const double* point = storage.point(w, outputs, width);
        std::int64_t numbers[TILE];
        for (std::int64_t next = span.start; next < span.stop;) {
            std::int64_t n = 0;
            for (; next < span.stop && n < storage.most; ++next) numbers[n++] = span.row(next);
            storage.read(numbers, n);
            storage.margins(n, point, outputs, width, out);
            out += n * outputs;
        }
    });
}

void add_rows(
    const Table& table, const double* factors, std::int64_t outputs, std::int64_t width, Span span, std::int64_t block, double* out
) {
    Zeros sum(sum_size(table, outputs, width)), chosen(TILE * outputs);
    with_storage(table, outputs, width, false, [&](auto& storage) {
        std::int64_t numbers[TILE];
        for (std::int64_t first = span.start; first < span.stop; first += block) {
            const std::int64_t end = first + block < span.stop ? first + block : span.stop;
            begin_block(storage, Span{first, end, span.chosen});
            for (std::int64_t next = first; next < end;) {
                std::int64_t n = 0;
                for (; next < end && n < storage.most; ++next) {
                    const double* own = factors + (next - span.start) * outputs;
                    bool counts = false;
                    for (std::int64_t k = 0; k < outputs; ++k) {
                        chosen[n * outputs + k] = own[k];
                        counts = counts || own[k] != 0.0;
                    }
                    if (counts) numbers[n++] = span.row(next);
                }
                storage.read(numbers, n);
                storage.add(n, chosen, outputs, width, sum);
            }
            storage.move(sum, outputs, width, out);
        }
    });
}

// What some rows add to a sum of x xᵀ, each pair of entries to one of its two places, or to the diagonal.
template <class T, class I>
void add_products_of(
    CsrRows<T, I>& rows, const std::int64_t* numbers, const double* factors, std::int64_t n, std::int64_t width, bool diagonal, double*,
    double* sum
) {
    for (std::int64_t i = 0; i < n; ++i) {
        const I first = rows.starts[numbers[i]], last = rows.starts[numbers[i] + 1];
        for (I a = first; a < last; ++a) {
            const double left = factors[i] * rows.data[a];
            const std::int64_t column = rows.indices[a];
            if (diagonal) sum[column] += left * rows.data[a];
            else
                for (I b = a; b < last; ++b) sum[column * width + rows.indices[b]] += left * rows.data[b];
        }
    }
}
// Entry by entry for many rows: the sums of two columns then stay in the cache.
template <class Code, bool Checked>
void add_products_of(
    CodedRows<Code, Checked>& rows, const std::int64_t* numbers, const double* factors, std::int64_t n, std::int64_t width, bool diagonal,
    double* room, double* sum
) {
    const std::int64_t entries = n_entries(rows.coded);
    double *values = room, left[TILE];
    std::int32_t* columns = reinterpret_cast<std::int32_t*>(room + TILE * entries);
    rows.read(numbers, n);
    rows.write_entries(n, values, columns);
    std::int64_t place[TILE];
    for (std::int64_t a = 0; a < entries; ++a) {
        const std::int32_t* column = columns + a * TILE;
        const double* value = values + a * TILE;
        for (std::int64_t i = 0; i < n; ++i) {
            left[i] = factors[i] * value[i];
            place[i] = diagonal ? column[i] : column[i] * width;
        }
        if (diagonal)
            for (std::int64_t i = 0; i < n; ++i) sum[place[i]] += left[i] * value[i];
        else
            for (std::int64_t b = a; b < entries; ++b) {
                const std::int32_t* other = columns + b * TILE;
                const double* right = values + b * TILE;
                for (std::int64_t i = 0; i < n; ++i) sum[place[i] + other[i]] += left[i] * right[i];
            }
    }
}
template <class T>
void add_products_of(DenseRows<T>&, const std::int64_t*, const double*, std::int64_t, std::int64_t, bool, double*, double*) {}  // left to BLAS

void add_products(
    const Table& table, const double* factors, std::int64_t width, std::int64_t block, bool diagonal, double* out
) {
    const std::int64_t size = diagonal ? width : width * width;
    Zeros sum(size), room(table.storage == Table::CODED ? 2 * TILE * n_entries(*table.coded) : 0);
    with_storage(table, 1, width, false, [&](auto& storage) {
        std::int64_t numbers[TILE];
        double own[TILE];
        for (std::int64_t first = 0; first < table.n; first += block) {
            const std::int64_t end = first + block < table.n ? first + block : table.n;
            for (std::int64_t next = first; next < end;) {
                std::int64_t n = 0;
                for (; next < end && n < TILE; ++next)
                    if (factors[next] != 0.0) {
                        own[n] = factors[next];
                        numbers[n++] = next;
                    }
                add_products_of(storage, numbers, own, n, width, diagonal, room, sum);
            }
            for (std::int64_t j = 0; j < size; ++j) {
                out[j] += sum[j];
                sum[j] = 0.0;
            }
        }
    });
}

// ---- Measurements of rows, slopes and curvatures.

template <class T>
void norm_of(const T* x, std::int64_t p, double bound, double* norm, double* entry) {
    // Four at a time and in this order, however the table is stored: a norm depends on its row alone, bit for bit.
    Four sums = {0, 0, 0, 0}, tops = {0, 0, 0, 0};
    Mask wrong = {0, 0, 0, 0};
    std::int64_t j = 0;
    for (; j + 4 <= p; j += 4) {
        const Four value = load(x + j), size = value < 0.0 ? -value : value;
        sums += value * value;
        tops = size > tops ? size : tops;
        wrong |= ~(size <= bound);  // written so that a NaN is wrong
    }
    double first = sums[0], top = larger(larger(tops[0], tops[1]), larger(tops[2], tops[3]));
    bool good = (wrong[0] | wrong[1] | wrong[2] | wrong[3]) == 0;
    for (; j < p; ++j) {
        const double value = x[j], size = value < 0.0 ? -value : value;
        first += value * value;
        top = larger(top, size);
        good &= size <= bound;
    }
    *norm = good ? __builtin_sqrt((first + sums[1]) + (sums[2] + sums[3])) : __builtin_nan("");
    *entry = good ? top : __builtin_nan("");
}

template <class T>
void dense_norms(DenseRows<T>& storage, double bound, double* norms, double* entries) {
    std::int64_t numbers[TILE];
    for (std::int64_t first = 0; first < storage.table.n; first += storage.most) {
        std::int64_t n = 0;
        for (; n < storage.most && first + n < storage.table.n; ++n) numbers[n] = first + n;
        storage.read(numbers, n);
        for (std::int64_t i = 0; i < n; ++i) norm_of(storage.row[i], storage.table.p, bound, norms + first + i, entries + first + i);
    }
}

template <class T, class I>
void csr_norms(const Table& table, double bound, double* norms, double* entries) {
    const T* data = reinterpret_cast<const T*>(table.data);
    const I* starts = static_cast<const I*>(table.starts);
    for (std::int64_t i = 0; i < table.n; ++i) norm_of(data + starts[i], starts[i + 1] - starts[i], bound, norms + i, entries + i);
}

void norms_of(const Table& table, double bound, double* norms, double* entries) {
    if (table.storage == Table::CSR) {
        if (table.entry == Table::FLOAT32 && table.wide) csr_norms<float, std::int64_t>(table, bound, norms, entries);
        else if (table.entry == Table::FLOAT32) csr_norms<float, std::int32_t>(table, bound, norms, entries);
        else if (table.wide) csr_norms<double, std::int64_t>(table, bound, norms, entries);
        else csr_norms<double, std::int32_t>(table, bound, norms, entries);
    } else if (table.storage == Table::CODED) {
        with_codes<true>(table, 0, false, [&](auto& rows) {
            std::int64_t numbers[TILE];
            for (std::int64_t first = 0; first < table.n; first += TILE) {
                const std::int64_t n = table.n - first < TILE ? table.n - first : TILE;
                for (std::int64_t i = 0; i < n; ++i) numbers[i] = first + i;
                rows.read(numbers, n);
                for (std::int64_t i = 0; i < n; ++i) rows.norm(i, norms + first + i, entries + first + i);
            }
        });
    } else if (DenseRows<float>::is_direct(table)) {
        DenseRows<float> rows(table);
        dense_norms(rows, bound, norms, entries);
    } else {
        DenseRows<double> rows(table);
        dense_norms(rows, bound, norms, entries);
    }
}

void slope_sums(const Rows& rows, const Slope& slope, double constant, const double* margins, std::int64_t n, std::int64_t block, double* out) {
    double at[TILE], targets[TILE], slopes[TILE], weights[TILE];
    for (std::int64_t first = 0; first < n; first += block) {
        const std::int64_t end = first + block < n ? first + block : n;
        double total = 0.0, size = 0.0;
        for (std::int64_t next = first; next < end;) {
            std::int64_t m = 0;
            for (; next < end && m < TILE; ++next)
                if (rows.weight[next] != 0.0) {  // others may hold what is not a number
                    at[m] = margins[next] * rows.scale[next] + constant;
                    targets[m] = rows.target[next];
                    weights[m++] = rows.weight[next];
                }
            slope.scalar(at, targets, slope.parameters, m, slopes);
            for (std::int64_t i = 0; i < m; ++i) {
                const double clipped = clip(slopes[i], slope.bound);
                total += weights[i] * clipped;
                size += weights[i] * (clipped < 0.0 ? -clipped : clipped);
            }
        }
        out[0] += total;
        out[1] += size;
    }
}

inline double curvature_of(double up, double down, double step, double bound) {
    const double curvature = (up - down) / (2.0 * step);
    // Written so that a NaN ends at the bound instead of passing through.
    if (!(curvature <= bound)) return bound;
    return curvature > 0.0 ? curvature : 0.0;
}

void curvatures(
    const Slope& slope, const double* scale, const double* target, double constant, double step, std::int64_t n, double* margins
) {
    const std::int64_t outputs = slope.outputs;
    if (slope.vector == nullptr) {
        double shifted[TILE], up[TILE], down[TILE];
        for (std::int64_t first = 0; first < n; first += TILE) {
            const std::int64_t m = n - first < TILE ? n - first : TILE;
            for (std::int64_t i = 0; i < m; ++i) {
                margins[first + i] = margins[first + i] * scale[first + i] + constant;
                shifted[i] = margins[first + i] + step;
            }
            slope.scalar(shifted, target + first, slope.parameters, m, up);
            for (std::int64_t i = 0; i < m; ++i) shifted[i] = margins[first + i] - step;
            slope.scalar(shifted, target + first, slope.parameters, m, down);
            for (std::int64_t i = 0; i < m; ++i)
                margins[first + i] = curvature_of(clip(up[i], slope.bound), clip(down[i], slope.bound), step, slope.curvature);
        }
        return;
    }
    Zeros space(3 * outputs);
    double *up = space, *down = up + outputs, *found = down + outputs;
    for (std::int64_t i = 0; i < n; ++i) {
        double* margin = margins + i * outputs;
        for (std::int64_t k = 0; k < outputs; ++k) {
            const double here = margin[k];
            for (std::int64_t c = 0; c < outputs; ++c) up[c] = down[c] = 0.0;
            margin[k] = here + step;
            slope.vector(margin, target[i], slope.parameters, outputs, up);
            margin[k] = here - step;
            slope.vector(margin, target[i], slope.parameters, outputs, down);
            margin[k] = here;
            shorten(up, outputs, slope.bound);
            shorten(down, outputs, slope.bound);
            found[k] = curvature_of(up[k], down[k], step, slope.curvature);
        }
        for (std::int64_t k = 0; k < outputs; ++k) margin[k] = found[k];
    }
}

// ---- ChaCha20 (Bernstein 2008; RFC 8439), many blocks at a time.

constexpr int LANES = 32, COUNTER = 12, WORDS = 17;

inline void quarter_round(std::uint32_t* a, std::uint32_t* b, std::uint32_t* c, std::uint32_t* d) {
    for (int i = 0; i < LANES; ++i) {
        a[i] += b[i];
        d[i] ^= a[i];
        d[i] = d[i] << 16 | d[i] >> 16;
        c[i] += d[i];
        b[i] ^= c[i];
        b[i] = b[i] << 12 | b[i] >> 20;
        a[i] += b[i];
        d[i] ^= a[i];
        d[i] = d[i] << 8 | d[i] >> 24;
        c[i] += d[i];
        b[i] ^= c[i];
        b[i] = b[i] << 7 | b[i] >> 25;
    }
}

void refill(std::uint32_t* stream) {
    std::uint32_t start[16][LANES], x[16][LANES];
    for (int i = 0; i < 16; ++i)
        for (int lane = 0; lane < LANES; ++lane) start[i][lane] = stream[i];
    for (int lane = 0; lane < LANES; ++lane) {
        start[COUNTER][lane] = stream[COUNTER];
        start[COUNTER + 1][lane] = stream[COUNTER + 1];
        if (++stream[COUNTER] == 0) ++stream[COUNTER + 1];
    }
    __builtin_memcpy(x, start, sizeof x);
    for (int round = 0; round < 10; ++round) {
        quarter_round(x[0], x[4], x[8], x[12]);
        quarter_round(x[1], x[5], x[9], x[13]);
        quarter_round(x[2], x[6], x[10], x[14]);
        quarter_round(x[3], x[7], x[11], x[15]);
        quarter_round(x[0], x[5], x[10], x[15]);
        quarter_round(x[1], x[6], x[11], x[12]);
        quarter_round(x[2], x[7], x[8], x[13]);
        quarter_round(x[3], x[4], x[9], x[14]);
    }
    for (int i = 0; i < 16; ++i)
        for (int lane = 0; lane < LANES; ++lane) stream[WORDS + 16 * lane + i] = x[i][lane] + start[i][lane];
}

const Kernels& kernels() {
    static const Kernels all = {part_sum, margins_of, add_rows, add_products, norms_of, slope_sums, curvatures, refill, scalar_slope, vector_slope};
    return all;
}
