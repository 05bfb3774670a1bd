// ---- Rows as codes (kernel/coded.py). Coefficients and sums lie in slots: numbers first, then every block, with one slot
// more where a code may mean that there is no entry, then the cells of crosses, and at last the constant column. So a code
// is looked up without a branch. Codes beyond their block, which only rows that are ignored have, are read as the last one.

typedef double Two __attribute__((vector_size(16)));
inline Two load_two(const double* p) {
    Two v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

inline std::int32_t level_of(float value, std::int64_t n_levels) {
    const double inside = value >= -1.0f ? (value <= 1.0f ? static_cast<double>(value) : 1.0) : -1.0;
    const std::int32_t level = static_cast<std::int32_t>((inside + 1.0) / 2.0 * static_cast<double>(n_levels));
    return level < n_levels ? level : static_cast<std::int32_t>(n_levels - 1);
}

template <class Code>
struct CodedRows {
    const Coded& coded;
    const std::int64_t p;
    static constexpr std::int64_t most = TILE;
    const Code* code[TILE];
    const std::uint8_t* part[TILE];
    const float* number[TILE];
    Zeros turned, turned_anchor, room;
    bool is_first = true;
    std::int32_t *cells, *nearest;

    CodedRows(const Table& table, std::int64_t outputs, bool has_anchor)
        : coded(*table.coded), p(table.p), turned(coded.n_slots * outputs), turned_anchor(has_anchor ? coded.n_slots * outputs : 0),
          room(coded.n_crosses > 0 ? TILE * coded.n_crosses + coded.n_numbers + coded.n_codes : 0),
          cells(reinterpret_cast<std::int32_t*>(room.values)), nearest(cells + TILE * coded.n_crosses) {}

    inline std::int64_t code_of(const Code* own, const CodedBlock& block) const {
        const std::int64_t found = own[block.code];
        return found < block.last ? found : block.last;
    }
    inline std::int64_t slot(std::int64_t i, const CodedBlock& block) const { return block.slot + code_of(code[i], block); }
    inline std::int64_t part_of(std::int64_t i, std::int64_t q) const { return part[i][q] < coded.parts ? part[i][q] : coded.parts; }
    const CodedBlock& knots(std::int64_t q) const { return coded.blocks[coded.n_codes - coded.n_fractions + q]; }

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
        const std::int64_t n_places = coded.n_codes - coded.n_fractions;
        for (std::int64_t j = 0; j < coded.n_numbers; ++j) nearest[j] = level_of(number[i][j], coded.n_levels);
        for (std::int64_t q = 0; q < coded.n_codes; ++q) {
            std::int64_t found = code_of(code[i], coded.blocks[q]);
            if (q >= n_places) found += part_of(i, q - n_places) > coded.parts / 2;
            nearest[coded.n_numbers + q] = static_cast<std::int32_t>(found);
        }
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
    void margins(std::int64_t n, const double* w, std::int64_t outputs, std::int64_t, double* out) {
        const std::int64_t n_places = coded.n_codes - coded.n_fractions;
        for (std::int64_t i = 0; i < n; ++i) {
            if (outputs == 1) {
                double even = 0.0, odd = 0.0, crossed = 0.0;
                Two between = {0, 0};
                std::int64_t q = 0;
                for (; q + 2 <= n_places; q += 2) {
                    even += w[slot(i, coded.blocks[q])];
                    odd += w[slot(i, coded.blocks[q + 1])];
                }
                if (q < n_places) even += w[slot(i, coded.blocks[q])];
                for (q = 0; q < coded.n_fractions; ++q) between += load_two(coded.ends + 2 * part_of(i, q)) * load_two(w + slot(i, knots(q)));
                for (std::int64_t x = 0; x < coded.n_crosses; ++x) crossed += w[cells[i * coded.n_crosses + x]];
                out[i] = dot(number[i], w, coded.n_numbers) + ((even + odd) + (between[0] + between[1])) + coded.cross_entry * crossed;
                continue;
            }
            double* margin = out + i * outputs;
            for (std::int64_t c = 0; c < outputs; ++c) margin[c] = 0.0;
            each_entry(i, [&](std::int64_t s, double value) {
                for (std::int64_t c = 0; c < outputs; ++c) margin[c] += value * w[s * outputs + c];
            });
        }
    }
    void add(std::int64_t n, const double* factors, std::int64_t outputs, std::int64_t, double* sum) {
        for (std::int64_t i = 0; i < n; ++i) {
            const double* factor = factors + i * outputs;
            if (outputs == 1)
                each_entry(i, [&](std::int64_t s, double value) { sum[s] += *factor * value; });
            else
                each_entry(i, [&](std::int64_t s, double value) {
                    for (std::int64_t c = 0; c < outputs; ++c) sum[s * outputs + c] += factor[c] * value;
                });
        }
    }
    // Every entry of a row that was read, by its slot.
    template <class Work>
    void each_entry(std::int64_t i, Work work) {
        const std::int64_t n_places = coded.n_codes - coded.n_fractions;
        for (std::int64_t j = 0; j < coded.n_numbers; ++j) work(j, number[i][j]);
        for (std::int64_t q = 0; q < n_places; ++q) work(slot(i, coded.blocks[q]), 1.0);
        for (std::int64_t q = 0; q < coded.n_fractions; ++q) {
            const std::int64_t s = slot(i, knots(q));
            const double* ends = coded.ends + 2 * part_of(i, q);
            work(s, ends[0]);
            work(s + 1, ends[1]);
        }
        for (std::int64_t x = 0; x < coded.n_crosses; ++x) work(cells[i * coded.n_crosses + x], coded.cross_entry);
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
    // Of a row as it is, not as it is read: NaN where a code, a fraction or a number is none that its column has.
    void norm(std::int64_t i, double* norm, double* entry) {
        const std::int64_t n_places = coded.n_codes - coded.n_fractions;
        double total = static_cast<double>(coded.n_crosses) * coded.cross_entry * coded.cross_entry;
        double largest = coded.n_crosses > 0 ? coded.cross_entry : 0.0;
        bool good = true;
        for (std::int64_t j = 0; j < coded.n_numbers; ++j) {
            const double value = number[i][j], size = value < 0.0 ? -value : value;
            good = good && size <= 1.0;
            total += value * value;
            largest = larger(largest, size);
        }
        for (std::int64_t q = 0; q < n_places; ++q) {
            const std::int64_t found = code[i][coded.blocks[q].code];
            const double size = found < coded.blocks[q].last ? 1.0 : 0.0;
            good = good && found <= coded.blocks[q].last;
            total += size;
            largest = larger(largest, size);
        }
        for (std::int64_t q = 0; q < coded.n_fractions; ++q) {
            good = good && static_cast<std::int64_t>(code[i][knots(q).code]) <= knots(q).last && part[i][q] <= coded.parts;
            const double* ends = coded.ends + 2 * part_of(i, q);
            total += ends[0] * ends[0] + ends[1] * ends[1];
            largest = larger(largest, larger(ends[0], ends[1]));
        }
        *norm = good ? __builtin_sqrt(total) : __builtin_nan("");
        *entry = good ? largest : __builtin_nan("");
    }
};

template <class Code>
void coded_norms(const Table& table, double* norms, double* entries) {
    CodedRows<Code> rows(table, 0, false);
    std::int64_t numbers[TILE];
    for (std::int64_t first = 0; first < table.n; first += TILE) {
        const std::int64_t n = table.n - first < TILE ? table.n - first : TILE;
        for (std::int64_t i = 0; i < n; ++i) numbers[i] = first + i;
        rows.read(numbers, n);
        for (std::int64_t i = 0; i < n; ++i) rows.norm(i, norms + first + i, entries + first + i);
    }
}
