// ---- Rows as codes (kernel/coded.py). Coefficients and sums lie in slots, so that a code is looked up without a branch:
// numbers first; then every block with one entry or none, with a slot more for none; then those with two entries, whose
// slots come in pairs, one for every bin; then the cells of crosses, and at last the constant column.
// Norms are computed of any codes, and so are margins (Checked: one beyond its block is read as the last). Sums read only
// rows that count, whose codes were found good when their norms were computed.

typedef double Two __attribute__((vector_size(16)));
inline Two load_two(const double* p) {
    Two v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
inline void store_two(double* p, Two v) { __builtin_memcpy(p, &v, sizeof v); }

inline std::int32_t level_of(float value, std::int64_t n_levels) {
    const double inside = value >= -1.0f ? (value <= 1.0f ? static_cast<double>(value) : 1.0) : -1.0;
    const std::int32_t level = static_cast<std::int32_t>((inside + 1.0) / 2.0 * static_cast<double>(n_levels));
    return level < n_levels ? level : static_cast<std::int32_t>(n_levels - 1);
}

// How many a row has, if all its columns have one.
inline std::int64_t n_entries(const Coded& coded) { return coded.n_numbers + coded.n_codes + coded.n_fractions + coded.n_crosses; }

template <class Code, bool Checked>
struct CodedRows {
    const Coded coded;
    const std::int64_t p, n_places;
    const CodedBlock* const knots;
    static constexpr std::int64_t most = TILE;
    const Code* code[TILE];
    const std::uint8_t* part[TILE];
    const float* number[TILE];
    Zeros turned, turned_anchor, room;
    bool is_first = true;
    std::int32_t *cells, *nearest;

    CodedRows(const Table& table, std::int64_t outputs, bool has_anchor)
        : coded(*table.coded), p(table.p), n_places(coded.n_codes - coded.n_fractions), knots(coded.blocks + n_places),
          turned(coded.n_slots * outputs), turned_anchor(has_anchor ? coded.n_slots * outputs : 0),
          room(coded.n_crosses > 0 ? TILE * coded.n_crosses + coded.n_numbers + coded.n_codes : 0),
          cells(reinterpret_cast<std::int32_t*>(room.values)), nearest(cells + TILE * coded.n_crosses) {}

    std::int64_t code_of(std::int64_t i, std::int64_t q) const {
        const std::int64_t found = code[i][q];
        return Checked && found > coded.blocks[q].last ? coded.blocks[q].last : found;
    }
    std::int64_t part_of(std::int64_t i, std::int64_t q) const {
        return Checked && part[i][q] > coded.parts ? coded.parts : part[i][q];
    }
    std::int64_t slot(std::int64_t i, std::int64_t q) const { return coded.blocks[q].slot + code_of(i, q); }
    std::int64_t pair(std::int64_t i, std::int64_t q) const { return knots[q].slot + 2 * code_of(i, n_places + q); }
    const double* ends(std::int64_t i, std::int64_t q) const { return coded.ends + 2 * part_of(i, q); }

    void read(const std::int64_t* rows, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
            code[i] = static_cast<const Code*>(coded.codes) + rows[i] * coded.n_codes;
            part[i] = coded.fractions + rows[i] * coded.n_fractions;
            number[i] = coded.numbers + rows[i] * coded.n_numbers;
            if (coded.n_crosses > 0) read_cells(i);
        }
    }
    // The slot of every cross: the levels of its columns as digits.
    void read_cells(std::int64_t i) {
        for (std::int64_t j = 0; j < coded.n_numbers; ++j) nearest[j] = level_of(number[i][j], coded.n_levels);
        std::int32_t* near = nearest + coded.n_numbers;
        for (std::int64_t q = 0; q < coded.n_codes; ++q) near[q] = static_cast<std::int32_t>(code_of(i, q));
        for (std::int64_t q = 0; q < coded.n_fractions; ++q) near[n_places + q] += part_of(i, q) > coded.parts / 2;
        std::int32_t* own = cells + i * coded.n_crosses;
        for (std::int64_t x = 0; x < coded.n_crosses; ++x) {
            own[x] = coded.crosses[x].slot;
            for (std::int32_t d = coded.crosses[x].first; d < coded.crosses[x].last; ++d)
                own[x] += coded.levels[coded.digits[d].levels + nearest[coded.digits[d].column]];
        }
    }
    const double* point(const double* w, std::int64_t outputs, std::int64_t width) {
        double* out = is_first ? turned : turned_anchor;
        is_first = false;
        for (std::int64_t s = 0; s < coded.n_slots; ++s)
            for (std::int64_t k = 0; k < outputs; ++k) out[s * outputs + k] = coded.places[s] < 0 ? 0.0 : w[k * width + coded.places[s]];
        return out;
    }
    // The margins of R rows at once: each is a sum in the same order, however many are computed together.
    template <int R>
    void some_margins(std::int64_t i, const double* w, double* out) {
        double even[R] = {}, odd[R] = {}, crossed[R] = {};
        Two between[R] = {};
        std::int64_t q = 0;
        for (; q + 2 <= n_places; q += 2)
            for (int r = 0; r < R; ++r) {
                even[r] += w[slot(i + r, q)];
                odd[r] += w[slot(i + r, q + 1)];
            }
        if (q < n_places)
            for (int r = 0; r < R; ++r) even[r] += w[slot(i + r, q)];
        for (q = 0; q < coded.n_fractions; ++q)
            for (int r = 0; r < R; ++r) between[r] += load_two(ends(i + r, q)) * load_two(w + pair(i + r, q));
        for (std::int64_t x = 0; x < coded.n_crosses; ++x)
            for (int r = 0; r < R; ++r) crossed[r] += w[cells[(i + r) * coded.n_crosses + x]];
        for (int r = 0; r < R; ++r)
            out[i + r] = dot(number[i + r], w, coded.n_numbers) + ((even[r] + odd[r]) + (between[r][0] + between[r][1])) + coded.cross_entry * crossed[r];
    }
    void margins(std::int64_t n, const double* w, std::int64_t outputs, std::int64_t, double* out) {
        std::int64_t i = 0;
        if (outputs == 1) {
            for (; i + 4 <= n; i += 4) some_margins<4>(i, w, out);
            for (; i < n; ++i) some_margins<1>(i, w, out);
        }
        for (; i < n; ++i) {
            double* margin = out + i * outputs;
            for (std::int64_t c = 0; c < outputs; ++c) margin[c] = 0.0;
            each_entry(i, [&](std::int64_t s, double value) {
                for (std::int64_t c = 0; c < outputs; ++c) margin[c] += value * w[s * outputs + c];
            });
        }
    }
    void add(std::int64_t n, const double* factors, std::int64_t outputs, std::int64_t, double* sum) {
        if (outputs == 1) {
            if (coded.n_numbers > 0) tile_add<1>(number, n, factors, 1, coded.n_numbers, coded.n_numbers, sum);
            // Copies: the compiler must take whatever lies in memory for changed when a sum is stored.
            const CodedBlock *const single = coded.blocks, *const pairs = knots;
            const double* const both = coded.ends;
            const double cross_entry = coded.cross_entry;
            const std::int64_t singles = n_places, fractions = coded.n_fractions, crosses = coded.n_crosses;
            for (std::int64_t i = 0; i < n; ++i) {
                const double factor = factors[i];
                const Code* const own = code[i];
                const std::uint8_t* const way = part[i];
                const std::int32_t* const cell = cells + i * crosses;
                for (std::int64_t q = 0; q < singles; ++q) sum[single[q].slot + own[q]] += factor;
                for (std::int64_t q = 0; q < fractions; ++q) {
                    double* at = sum + pairs[q].slot + 2 * static_cast<std::int64_t>(own[singles + q]);
                    store_two(at, load_two(at) + factor * load_two(both + 2 * way[q]));
                }
                for (std::int64_t x = 0; x < crosses; ++x) sum[cell[x]] += cross_entry * factor;
            }
            return;
        }
        for (std::int64_t i = 0; i < n; ++i)
            each_entry(i, [&](std::int64_t s, double value) {
                for (std::int64_t c = 0; c < outputs; ++c) sum[s * outputs + c] += factors[i * outputs + c] * value;
            });
    }
    // Every entry of a row that was read, by its slot.
    template <class Work>
    void each_entry(std::int64_t i, Work work) {
        for (std::int64_t j = 0; j < coded.n_numbers; ++j) work(j, number[i][j]);
        for (std::int64_t q = 0; q < n_places; ++q) work(slot(i, q), 1.0);
        for (std::int64_t q = 0; q < coded.n_fractions; ++q) {
            work(pair(i, q), ends(i, q)[0]);
            work(pair(i, q) + 1, ends(i, q)[1]);
        }
        for (std::int64_t x = 0; x < coded.n_crosses; ++x) work(cells[i * coded.n_crosses + x], coded.cross_entry);
    }
    // Columns and values of the rows that were read, entry by entry; of none both are 0.
    void write_entries(std::int64_t n, double* values, std::int32_t* columns) {
        for (std::int64_t i = 0; i < n; ++i) {
            std::int64_t at = i;
            each_entry(i, [&](std::int64_t s, double value) {
                const std::int32_t column = coded.places[s];
                columns[at] = column < 0 ? 0 : column;
                values[at] = column < 0 ? 0.0 : value;
                at += TILE;
            });
        }
    }
    void move(double* sum, std::int64_t outputs, std::int64_t width, double* out) {
        for (std::int64_t s = 0; s <= coded.n_slots; ++s) {
            const std::int64_t j = s < coded.n_slots ? coded.places[s] : width > p ? p : -1;
            for (std::int64_t k = 0; k < outputs; ++k) {
                if (j >= 0) out[k * width + j] += sum[s * outputs + k];
                sum[s * outputs + k] = 0.0;
            }
        }
    }
    // NaN where a code, a fraction or a number is none that its column has.
    void norm(std::int64_t i, double* norm, double* entry) {
        double total = static_cast<double>(coded.n_crosses) * coded.cross_entry * coded.cross_entry;
        double largest = coded.n_crosses > 0 ? coded.cross_entry : 0.0;
        bool good = true;
        for (std::int64_t j = 0; j < coded.n_numbers; ++j) {
            const double value = number[i][j], size = value < 0.0 ? -value : value;
            good &= size <= 1.0;
            total += value * value;
            largest = larger(largest, size);
        }
        for (std::int64_t q = 0; q < coded.n_codes; ++q) good &= static_cast<std::int64_t>(code[i][q]) <= coded.blocks[q].last;
        for (std::int64_t q = 0; q < n_places; ++q) {
            const double size = code_of(i, q) < coded.blocks[q].last ? 1.0 : 0.0;
            total += size;
            largest = larger(largest, size);
        }
        for (std::int64_t q = 0; q < coded.n_fractions; ++q) {
            good &= part[i][q] <= coded.parts;
            const double* both = ends(i, q);
            total += both[0] * both[0] + both[1] * both[1];
            largest = larger(largest, larger(both[0], both[1]));
        }
        *norm = good ? __builtin_sqrt(total) : __builtin_nan("");
        *entry = good ? largest : __builtin_nan("");
    }
};

// Calls `work` with the storage that reads codes of their size.
template <bool Checked, class Work>
void with_codes(const Table& table, std::int64_t outputs, bool has_anchor, Work work) {
    if (table.entry == Table::UINT8) {
        CodedRows<std::uint8_t, Checked> rows(table, outputs, has_anchor);
        work(rows);
    } else if (table.entry == Table::UINT16) {
        CodedRows<std::uint16_t, Checked> rows(table, outputs, has_anchor);
        work(rows);
    } else {
        CodedRows<std::uint32_t, Checked> rows(table, outputs, has_anchor);
        work(rows);
    }
}
