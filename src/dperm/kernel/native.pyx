# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""The compiled kernels of cpp/: arrays are checked here, then the GIL is released.

Whatever is handed over, no kernel reads or writes outside an array: lengths and indices are compared here. Types and
contiguity are those of the memory views.
"""

import numpy as np

from cpython.buffer cimport PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.math cimport fabs, nextafterf, rint
from libc.string cimport memset


cdef extern from "cpp/kernels.hpp" namespace "dperm" nogil:
    cdef cppclass CodedBlock:
        int32_t slot, last
    cdef cppclass CodedDigit:
        int32_t column, levels
    cdef cppclass CodedCross:
        int32_t slot, first, last
    cdef cppclass Coded:
        int64_t n_codes, n_fractions, n_numbers, n_slots, n_crosses, n_levels, parts
        double cross_entry
        const void* codes
        const uint8_t* fractions
        const float* numbers
        const int32_t* places
        const CodedBlock* blocks
        const CodedCross* crosses
        const CodedDigit* digits
        const int32_t* levels
        const double* ends
    cdef cppclass Table:
        int storage, entry
        int64_t n, p
        const char* data
        ptrdiff_t row_stride, column_stride
        const void* indices
        const void* starts
        bint wide
        const Coded* coded
    cdef cppclass CRows "dperm::Rows":
        Table table
        const double* scale
        const double* weight
        const double* target
        double intercept
    ctypedef void (*ScalarSlope)(const double*, const double*, const double*, int64_t, double*) noexcept nogil
    ctypedef void (*VectorSlope)(const double*, double, const double*, int64_t, double*) noexcept nogil
    cdef cppclass CSlope "dperm::Slope":
        ScalarSlope scalar
        VectorSlope vector
        const double* parameters
        double bound, curvature
        int64_t outputs
    cdef cppclass Span:
        const int64_t* chosen
        int64_t start, stop
    cdef cppclass Kernels:
        void part_sum(const CRows&, const CSlope&, int, const double*, const double*, Span, int64_t, double*) noexcept
        void margins(const Table&, const double*, int64_t, int64_t, Span, double*) noexcept
        void add_rows(const Table&, const double*, int64_t, int64_t, Span, int64_t, double*) noexcept
        void add_products(const Table&, const double*, int64_t, int64_t, bint, double*) noexcept
        void norms(const Table&, double, double*, double*) noexcept
        void slope_sums(const CRows&, const CSlope&, double, const double*, int64_t, int64_t, double*) noexcept
        void curvatures(const CSlope&, const double*, const double*, double, double, int64_t, double*) noexcept
        void refill(uint32_t*) noexcept
        ScalarSlope scalar_slope(const char*) noexcept
        VectorSlope vector_slope(const char*) noexcept
    const Kernels& kernels() noexcept
    const Kernels& plain_kernels "dperm::plain::kernels"() noexcept
    ctypedef double (*Shrink)(double, double, const double*) noexcept nogil
    Shrink shrink_of(const char*) noexcept
    void c_clip_vector "dperm::clip_vector"(double*, int64_t, double) noexcept
    void prox_step(
        Shrink, const double*, const double*, const double*, double, const double*, const double*, double, int64_t, double*
    ) noexcept


cdef extern from "cpp/draws.hpp" namespace "dperm" nogil:
    int64_t C_UNDECIDED "dperm::UNDECIDED"
    uint32_t C_CUMULATIVE "dperm::CUMULATIVE"[7]
    int STREAM_POSITION, STREAM_WORDS, STREAM_END
    cdef cppclass Place:
        uint64_t counter
        uint32_t position
    uint32_t c_next_word "dperm::next_word"(uint32_t*) noexcept
    uint64_t counter_of(const uint32_t*) noexcept
    int64_t c_draw_gaussian "dperm::draw_gaussian"(uint32_t*, uint32_t*) noexcept
    int64_t c_draw_exponential "dperm::draw_exponential"(uint32_t*, uint32_t*) noexcept
    int64_t c_draw_acceptance "dperm::draw_acceptance"(uint32_t*, int64_t) noexcept
    void c_sum_ends "dperm::sum_ends"(double, double, int64_t, uint32_t, uint32_t, uint32_t, double*, double*) noexcept
    int64_t c_add_noise "dperm::add_noise"(bint, double*, int64_t, int64_t, double, uint32_t*, Place*) noexcept
    int64_t index_below(uint32_t*, uint64_t) noexcept
    bint c_take_cells "dperm::take_cells"(
        int64_t, int64_t*, const uint32_t*, int64_t, uint32_t*, int64_t*, int64_t, int64_t*
    ) noexcept
    void c_leave_out "dperm::leave_out"[Number](
        const Number*, int64_t, const int64_t*, int64_t, int64_t, uint32_t*, int64_t*, int64_t*, uint8_t*
    ) noexcept


UNDECIDED = C_UNDECIDED
CUMULATIVE = tuple(C_CUMULATIVE[k] for k in range(7))
GRADIENT, DIFFERENCE, CONVEX_DIFFERENCE = 0, 1, 2
SCALAR_SLOPES = tuple(
    name for name in ("logistic", "sigmoid", "smoothed_hinge", "squared", "huber", "welsch", "poisson")
    if kernels().scalar_slope(name.encode()) != NULL
)
VECTOR_SLOPES = tuple(
    name for name in ("softmax", "one_vs_rest_hinge") if kernels().vector_slope(name.encode()) != NULL
)
SHRINKS = tuple(name for name in ("none", "l1", "l2", "elastic_net") if shrink_of(name.encode()) != NULL)

# Types of entries by the kind and size of a numpy type: `Table::Entry`.
cdef dict _ENTRIES = {
    ("f", 4): 0, ("f", 8): 1, ("i", 1): 2, ("i", 2): 3, ("i", 4): 4, ("i", 8): 5,
    ("u", 1): 6, ("u", 2): 7, ("u", 4): 8, ("u", 8): 9, ("b", 1): 6,
}
# By which of the two sets of kernels sums are computed: tests compare them.
cdef bint _only_plain = False


def only_plain(bint value):
    """Whether the kernels for any processor are used, also where there are faster ones: for tests."""
    global _only_plain
    _only_plain = value


cdef inline const Kernels* chosen_kernels() noexcept nogil:
    return &plain_kernels() if _only_plain else &kernels()


cdef int check(bint holds) except -1:
    """Raise if arrays do not fit together: a fault of whoever calls a kernel, and no fact of a row."""
    if not holds:
        raise ValueError("the arrays handed to a kernel do not fit together.")
    return 0


cdef class Layout:
    """Where the entries of coded rows are; `cpp/coded.hpp` says how.

    Parameters
    ----------
    shapes : (int, int, int)
        How many codes, fractions and numbers a row has.
    width : int
        Columns of a row.
    places : array of int
        The column of every slot, −1 for none.
    blocks : array of shape (codes, 2)
        First slot and largest code of each; those with fractions come last.
    crosses, digits, levels : arrays of shapes (crosses, 3), (digits, 2) and (levels,)
        First slot and digits; column and first level; levels times the size of their digit.
    n_levels : int
        Of a number.
    ends : array of shape (parts + 1, 2)
        The two entries of a number between knots.
    cross_entry : float
        The entry of a cross.
    """

    cdef Coded coded
    cdef readonly tuple shapes
    cdef readonly int64_t width
    cdef object held

    def __init__(
        self, shapes, int64_t width, const int32_t[::1] places, const int32_t[:, ::1] blocks, const int32_t[:, ::1] crosses,
        const int32_t[:, ::1] digits, const int32_t[::1] levels, int64_t n_levels, const double[:, ::1] ends, double cross_entry,
    ):
        cdef Coded* coded = &self.coded
        cdef int64_t k, d, last, lowest, highest, n_slots = places.shape[0]
        self.shapes, self.width = tuple(shapes), width
        self.held = np.asarray(places), np.asarray(blocks), np.asarray(crosses), np.asarray(digits), np.asarray(levels), np.asarray(ends)
        coded.n_codes, coded.n_fractions, coded.n_numbers = self.shapes
        coded.n_slots, coded.n_crosses, coded.n_levels = n_slots, crosses.shape[0], n_levels
        coded.parts, coded.cross_entry = ends.shape[0] - 1, cross_entry
        check(0 <= coded.n_fractions <= coded.n_codes == blocks.shape[0] and 0 <= coded.n_numbers <= n_slots)
        check(n_levels >= 1 and coded.parts >= 0 and ends.shape[1] == digits.shape[1] == blocks.shape[1] == 2 and crosses.shape[1] == 3)
        for k in range(n_slots):
            check(-1 <= places[k] < width)
        for k in range(coded.n_codes):
            last = 2 * blocks[k, 1] + 1 if k >= coded.n_codes - coded.n_fractions else blocks[k, 1]
            check(blocks[k, 0] >= 0 and blocks[k, 1] >= 0 and blocks[k, 0] + last < n_slots)
        for k in range(crosses.shape[0]):
            check(0 <= crosses[k, 1] <= crosses[k, 2] <= digits.shape[0])
            lowest = highest = crosses[k, 0]
            for d in range(crosses[k, 1], crosses[k, 2]):
                check(0 <= digits[d, 0] < coded.n_numbers + coded.n_codes and digits[d, 1] >= 0)
                if digits[d, 0] < coded.n_numbers:
                    last = n_levels - 1
                else:
                    last = blocks[digits[d, 0] - coded.n_numbers, 1]
                    last += 1 if digits[d, 0] - coded.n_numbers >= coded.n_codes - coded.n_fractions else 0
                check(digits[d, 1] + last < levels.shape[0])
                own = self.held[4][digits[d, 1] : digits[d, 1] + last + 1]
                lowest, highest = lowest + int(own.min()), highest + int(own.max())
            check(0 <= lowest and highest < n_slots)
        coded.places = &places[0] if n_slots else NULL
        coded.blocks = <const CodedBlock*> &blocks[0, 0] if blocks.shape[0] else NULL
        coded.crosses = <const CodedCross*> &crosses[0, 0] if crosses.shape[0] else NULL
        coded.digits = <const CodedDigit*> &digits[0, 0] if digits.shape[0] else NULL
        coded.levels = &levels[0] if levels.shape[0] else NULL
        coded.ends = &ends[0, 0]


cdef class Rows:
    """Bounded rows: a dense, CSR or coded table, their scales, weights and targets, and the value of the constant column.

    Parameters
    ----------
    table : array, CSR matrix or CodedRows
        As `as_table` gives it. Columns of a CSR matrix were checked by `is_canonical`.
    scale, weight, target : arrays, optional
        One number per row; without them only margins and norms can be computed.
    intercept : float
        0 for no constant column.
    """

    cdef CRows rows
    cdef Py_buffer buffer
    cdef bint has_buffer
    cdef object held
    cdef Coded coded
    cdef readonly object scale, weight, target
    cdef readonly bint is_complete

    def __cinit__(self):
        self.has_buffer = False

    def __init__(self, table, scale=None, weight=None, target=None, double intercept=0.0):
        cdef const double[::1] numbers
        cdef Table* found = &self.rows.table
        cdef const int32_t[::1] narrow
        cdef const int64_t[::1] wide
        cdef Layout layout
        cdef const uint8_t[:, ::1] fractions
        cdef const float[:, ::1] coded_numbers
        is_coded = hasattr(table, "codes")
        array = table.codes if is_coded else table.data if hasattr(table, "indptr") else table
        kind = array.dtype
        check(kind.isnative and (kind.kind, kind.itemsize) in _ENTRIES)
        found.entry = _ENTRIES[kind.kind, kind.itemsize]
        PyObject_GetBuffer(array, &self.buffer, PyBUF_STRIDES)
        self.has_buffer = True
        found.data = <const char*> self.buffer.buf
        found.n, found.p = table.shape
        found.storage = 2 if is_coded else 1 if hasattr(table, "indptr") else 0
        if is_coded:
            layout, fractions, coded_numbers = table.layout.compiled, table.fractions, table.numbers
            check(kind.kind == "u" and kind.itemsize <= 4 and array.flags.c_contiguous and found.p == layout.width)
            check((array.shape[1], fractions.shape[1], coded_numbers.shape[1]) == layout.shapes)
            check(array.shape[0] == fractions.shape[0] == coded_numbers.shape[0] == found.n)
            self.held = (layout, table.fractions, table.numbers)
            self.coded = layout.coded
            self.coded.codes = <const void*> self.buffer.buf
            self.coded.fractions = &fractions[0, 0] if fractions.size else NULL
            self.coded.numbers = &coded_numbers[0, 0] if coded_numbers.size else NULL
            found.coded = &self.coded
        elif found.storage == 0:
            check(self.buffer.ndim == 2)
            found.row_stride, found.column_stride = self.buffer.strides[0], self.buffer.strides[1]
            self.held = None
        else:
            indices, indptr = table.indices, table.indptr
            check(kind.kind == "f" and self.buffer.ndim == 1 and indices.dtype == indptr.dtype and indptr.size == found.n + 1)
            check(self.buffer.strides[0] == kind.itemsize and indices.size >= array.size)
            self.held = (indices, indptr)
            if indices.dtype == np.int32:
                found.wide = False
                narrow = indices
                if narrow.shape[0]:
                    found.indices = &narrow[0]
                narrow = indptr
                found.starts = &narrow[0]
            else:
                found.wide = True
                wide = indices
                if wide.shape[0]:
                    found.indices = &wide[0]
                wide = indptr
                found.starts = &wide[0]
        self.is_complete = scale is not None
        if self.is_complete:
            for values in (scale, weight, target):
                check(values.size == found.n)
            self.scale, self.weight, self.target = scale, weight, target
            if found.n:
                numbers = scale
                self.rows.scale = &numbers[0]
                numbers = weight
                self.rows.weight = &numbers[0]
                numbers = target
                self.rows.target = &numbers[0]
        self.rows.intercept = intercept

    def __dealloc__(self):
        if self.has_buffer:
            PyBuffer_Release(&self.buffer)

    @property
    def intercept(self):
        """The value of the constant column, 0 for none."""
        return self.rows.intercept

    @property
    def width(self):
        """Number of coefficients of an output."""
        return self.rows.table.p + (1 if self.rows.intercept != 0.0 else 0)


cdef class Slope:
    """ℓ' of a loss with its parameters, the largest slope, or change of it, and the largest curvature.

    Parameters
    ----------
    loss : str or int
        The name of a loss that is compiled here, or the address of a function of that form.
    outputs : int
        Margins of a row.
    parameters : sequence of float
        Handed to ℓ'.
    bound, curvature : float
        What slopes and curvatures are clipped to.
    """

    cdef CSlope slope
    cdef double[::1] parameters

    def __init__(self, loss, int64_t outputs, parameters, double bound, double curvature=0.0):
        # A kernel reads no more parameters than the longest list of a loss has.
        self.parameters = np.array([*parameters, 0.0, 0.0, 0.0, 0.0], dtype=np.float64)
        self.slope.parameters = &self.parameters[0]
        self.slope.bound, self.slope.curvature, self.slope.outputs = bound, curvature, outputs
        check(outputs >= 1)
        if isinstance(loss, str):
            name = loss.encode()
            if outputs == 1:
                self.slope.scalar = chosen_kernels().scalar_slope(name)
            else:
                self.slope.vector = chosen_kernels().vector_slope(name)
        elif outputs == 1:
            self.slope.scalar = <ScalarSlope> <uintptr_t> loss
        else:
            self.slope.vector = <VectorSlope> <uintptr_t> loss
        check(self.slope.scalar != NULL or self.slope.vector != NULL)

    @property
    def outputs(self):
        """Margins of a row."""
        return self.slope.outputs


cdef int check_span(const Table* table, const int64_t[::1] chosen, int64_t start, int64_t stop, Span* span) except -1:
    cdef int64_t k
    cdef bint inside = 0 <= start <= stop
    span.start, span.stop = start, stop
    if chosen is None:
        inside = inside and stop <= table.n
    else:
        inside = inside and stop <= chosen.shape[0]
        if inside and stop > start:
            span.chosen = &chosen[0]
            for k in range(start, stop):
                inside = inside and 0 <= chosen[k] < table.n
    return check(inside)


cdef int check_point(const double[:, ::1] point, int64_t outputs, int64_t width) except -1:
    return check(point.shape[0] == outputs and point.shape[1] == width)


def part_sum(
    Rows rows not None, Slope slope not None, int part, const double[:, ::1] w, const double[:, ::1] anchor,
    const int64_t[::1] chosen, int64_t start, int64_t stop, int64_t block, double[:, ::1] out,
):
    """out += Σ of the bounded parts of rows start … stop − 1, or chosen[start … stop − 1], `block` of them at a time.

    Parameters
    ----------
    rows : Rows
        With scales, weights and targets.
    slope : Slope
        Gives ℓ'.
    part : int
        GRADIENT, DIFFERENCE or CONVEX_DIFFERENCE: then w is the point minus the anchor.
    w, anchor, out : arrays of shape (outputs, width)
        The anchor may be None for gradients.
    chosen : array of int or None
        Numbers of rows.
    start, stop, block : int
        Which of them.
    """
    cdef Span span
    cdef int64_t outputs = slope.slope.outputs, width = rows.width
    check(rows.is_complete and block > 0 and width > 0 and 0 <= part <= 2 and (part == 0 or anchor is not None))
    check_point(w, outputs, width)
    check_point(out, outputs, width)
    if anchor is not None:
        check_point(anchor, outputs, width)
    check_span(&rows.rows.table, chosen, start, stop, &span)
    cdef const double* there = &w[0, 0]
    if anchor is not None:
        there = &anchor[0, 0]
    with nogil:
        chosen_kernels().part_sum(rows.rows, slope.slope, part, &w[0, 0], there, span, block, &out[0, 0])


def margins(Rows rows not None, const double[:, ::1] w, const int64_t[::1] chosen, int64_t start, int64_t stop):
    """⟨w_k, x⟩ of every row, before its scale and without its constant: of shape (rows, outputs)."""
    cdef Span span
    check(w.shape[0] > 0 and w.shape[1] >= max(rows.rows.table.p, 1))
    check_span(&rows.rows.table, chosen, start, stop, &span)
    found = np.empty((stop - start, w.shape[0]))
    cdef double[:, ::1] out = found
    if stop > start:
        with nogil:
            chosen_kernels().margins(rows.rows.table, &w[0, 0], w.shape[0], w.shape[1], span, &out[0, 0])
    return found


def add_rows(
    Rows rows not None, const double[:, ::1] factors, const int64_t[::1] chosen, int64_t start, int64_t stop, int64_t block,
    double[:, ::1] out,
):
    """out[k] += Σ factors[i, k] x_i; rows whose factors are all 0 are not read."""
    cdef Span span
    check(block > 0 and factors.shape[0] == stop - start and factors.shape[1] == out.shape[0] and out.shape[0] > 0)
    check(out.shape[1] >= max(rows.rows.table.p, 1))
    check_span(&rows.rows.table, chosen, start, stop, &span)
    if stop > start:
        with nogil:
            chosen_kernels().add_rows(
                rows.rows.table, &factors[0, 0], factors.shape[1], out.shape[1], span, block, &out[0, 0]
            )


def add_products(Rows rows not None, const double[::1] factors, int64_t block, double[:, ::1] out):
    """out + outᵀ − diag(out) += Σ factors[i] x_i x_iᵀ of sparse or coded rows; or out its diagonal where it has one row.

    Rows whose factor is 0 are not read.
    """
    cdef int64_t width = rows.rows.table.p
    cdef bint diagonal = out.shape[0] == 1
    check(rows.rows.table.storage != 0 and block > 0 and factors.shape[0] == rows.rows.table.n and out.shape[1] == width)
    check(width > 0 and (diagonal or out.shape[0] == width))
    if factors.shape[0]:
        with nogil:
            chosen_kernels().add_products(rows.rows.table, &factors[0], width, block, diagonal, &out[0, 0])


def norms(Rows rows not None, double largest):
    """l2 norm and largest entry of every row; NaN where an entry is not finite or above `largest`."""
    norms_of, entries_of = np.empty(rows.rows.table.n), np.empty(rows.rows.table.n)
    cdef double[::1] found = norms_of, entries = entries_of
    if rows.rows.table.n:
        with nogil:
            chosen_kernels().norms(rows.rows.table, largest, &found[0], &entries[0])
    return norms_of, entries_of


def slope_sums(Rows rows not None, Slope slope not None, double constant, const double[::1] margins, int64_t block):
    """Σ weight s and Σ weight |s|, s the clipped slope of every row at its margin · scale + constant."""
    check(rows.is_complete and slope.slope.outputs == 1 and margins.shape[0] == rows.rows.table.n and block > 0)
    found = np.zeros(2)
    cdef double[::1] out = found
    if margins.shape[0]:
        with nogil:
            chosen_kernels().slope_sums(rows.rows, slope.slope, constant, &margins[0], margins.shape[0], block, &out[0])
    return found


def curvatures(
    Slope slope not None, const double[::1] scale, const double[::1] target, double constant, double step,
    double[:, ::1] margins,
):
    """Turn margins into curvatures, in place: of one output margin · scale + constant, of several the margins themselves."""
    check(margins.shape[0] == target.shape[0] == scale.shape[0] and margins.shape[1] == slope.slope.outputs)
    if margins.shape[0]:
        with nogil:
            chosen_kernels().curvatures(
                slope.slope, &scale[0], &target[0], constant, step, margins.shape[0], &margins[0, 0]
            )


def slopes(Slope slope not None, const double[:, ::1] margins, const double[::1] target):
    """ℓ' of every row, not clipped: for tests."""
    cdef int64_t i, outputs = slope.slope.outputs
    check(margins.shape[0] == target.shape[0] and margins.shape[1] == outputs)
    found = np.zeros((margins.shape[0], outputs))
    cdef double[:, ::1] out = found
    if outputs == 1 and margins.shape[0]:
        slope.slope.scalar(&margins[0, 0], &target[0], slope.slope.parameters, margins.shape[0], &out[0, 0])
    elif outputs > 1:
        for i in range(margins.shape[0]):
            slope.slope.vector(&margins[i, 0], target[i], slope.slope.parameters, outputs, &out[i, 0])
    return found


ctypedef fused Code:
    uint8_t
    uint16_t
    uint32_t


def take_codes(const double[::1] numbers, const double[::1] knots, Code[:] codes, uint8_t[:] fractions, int parts):
    """Between which two knots every number lies, the nearest ones where it is beyond all, and how many parts of the way."""
    cdef int64_t i, low, half, left, n = numbers.shape[0]
    cdef double number, t
    check(codes.shape[0] == n and fractions.shape[0] == n and knots.shape[0] >= 2 and 0 < parts < 256)
    with nogil:
        for i in range(n):
            number, low, left = numbers[i], 0, knots.shape[0] - 1
            while left > 1:
                half = left // 2
                low += half if knots[low + half] <= number else 0
                left -= half
            t = (number - knots[low]) / (knots[low + 1] - knots[low])
            t = t if t > 0.0 else 0.0
            codes[i], fractions[i] = <Code> low, <uint8_t> rint(parts * (t if t < 1.0 else 1.0))


def shorten(const double[::1] values, float[:] out):
    """Values in half the space, rounded towards 0 so that no norm grows."""
    cdef int64_t i
    cdef float value
    check(values.shape[0] == out.shape[0])
    with nogil:
        for i in range(values.shape[0]):
            value = <float> values[i]
            out[i] = nextafterf(value, 0.0) if fabs(value) > fabs(values[i]) else value


def clip_vector(double[::1] values, double bound):
    """Shorten a vector to the bound, in place; one without a finite norm becomes zero."""
    if values.shape[0]:
        c_clip_vector(&values[0], values.shape[0], bound)


def clip_rows(double[:, ::1] values, double bound):
    """Clip every row to the bound, in place: by `clip_vector`, and a single number so that a NaN ends at the bound."""
    cdef int64_t i
    for i in range(values.shape[0]):
        if values.shape[1] > 1:
            c_clip_vector(&values[i, 0], values.shape[1], bound)
        elif not values[i, 0] <= bound:
            values[i, 0] = bound
        elif not values[i, 0] >= -bound:
            values[i, 0] = -bound


cdef int check_csr_rows(const Table* table) except -1:
    return check(table.storage == 1)


cdef bint _is_canonical(const void* given_indices, const void* given_starts, bint wide, int64_t n, int64_t p, int64_t stored) noexcept nogil:
    cdef int64_t i, k, first, last, index, previous
    for i in range(n):
        first = (<const int64_t*> given_starts)[i] if wide else (<const int32_t*> given_starts)[i]
        last = (<const int64_t*> given_starts)[i + 1] if wide else (<const int32_t*> given_starts)[i + 1]
        if first < 0 or last < first or last > stored:
            return False
        previous = -1
        for k in range(first, last):
            index = (<const int64_t*> given_indices)[k] if wide else (<const int32_t*> given_indices)[k]
            if index <= previous or index >= p:
                return False
            previous = index
    return True


def is_canonical(Rows rows not None):
    """Whether every row of a CSR matrix names its columns in strictly increasing order, and none beyond its arrays."""
    cdef const Table* table = &rows.rows.table
    check_csr_rows(table)
    cdef bint found
    cdef int64_t stored = rows.buffer.shape[0]
    with nogil:
        found = _is_canonical(table.indices, table.starts, table.wide, table.n, table.p, stored)
    return found


# ---- Random words and exact draws.


cdef uint32_t* words_of(uint32_t[::1] stream) except NULL:
    check(stream.shape[0] == STREAM_END and STREAM_WORDS <= stream[STREAM_POSITION] <= STREAM_END)
    return &stream[0]


def refill(uint32_t[::1] stream):
    """Make the next blocks of key stream."""
    check(stream.shape[0] == STREAM_END)
    chosen_kernels().refill(&stream[0])


def next_word(uint32_t[::1] stream):
    """32 random bits."""
    return c_next_word(words_of(stream))


def long_words(uint32_t[::1] stream, int64_t size):
    """The given number of times 64 random bits."""
    cdef uint32_t* words = words_of(stream)
    cdef int64_t i
    cdef uint64_t low, high
    found = np.empty(size, np.uint64)
    cdef uint64_t[::1] out = found
    for i in range(size):
        low = c_next_word(words)
        high = c_next_word(words)
        out[i] = low | high << 32
    return found


def place(uint32_t[::1] stream):
    """Where the stream is: its counter and the position of the next word."""
    cdef uint32_t* words = words_of(stream)
    return counter_of(words), words[STREAM_POSITION]


def draw_gaussian(uint32_t[::1] stream):
    """The whole part of |Z|, Z a standard Gaussian, and the first digit of the rest."""
    cdef uint32_t first = 0
    whole = c_draw_gaussian(words_of(stream), &first)
    return whole, first


def draw_exponential(uint32_t[::1] stream):
    """The whole part of an exponential number and the first digit of the rest."""
    cdef uint32_t first = 0
    whole = c_draw_exponential(words_of(stream), &first)
    return whole, first


def draw_acceptance(uint32_t[::1] stream, int64_t exponent):
    """1 with probability exp(−exponent · 2⁻⁴⁰), else 0."""
    check(exponent >= 0)
    return c_draw_acceptance(words_of(stream), exponent)


def sum_ends(double value, double scale, int64_t k, uint32_t first, uint32_t second, uint32_t third):
    """Floats between which the rounded value + scale · (k + x) lies, three digits of x given and all others open."""
    cdef double low, high
    c_sum_ends(value, scale, k, first, second, third, &low, &high)
    return low, high


cdef int add_noise_to(bint is_gaussian, double* values, int64_t n, double scale, uint32_t* words, object again) except -1 nogil:
    """Add noise to every value; those whose first digits do not decide are drawn `again` in rational arithmetic."""
    cdef Place place
    cdef int64_t i = 0
    if not scale > 0.0:
        return 0
    while True:
        i = c_add_noise(is_gaussian, values, i, n, scale, words, &place)
        if i == n:
            return 0
        with gil:
            values[i] = again(values[i], scale, place.counter, place.position)
        i += 1


def add_noise(bint is_gaussian, double[::1] values, double scale, uint32_t[::1] stream, again):
    """Replace every value by the rounded value + scale · Z; parameters as of `exact.rounding.add_gaussian`."""
    cdef uint32_t* words = words_of(stream)
    if values.shape[0]:
        with nogil:
            add_noise_to(is_gaussian, &values[0], values.shape[0], scale, words, again)


def accepted_index(const int64_t[::1] exponents, uint32_t[::1] stream, again):
    """Draw indices uniformly until one is accepted, with probability exp(−exponent · 2⁻⁴⁰)."""
    cdef uint32_t* words = words_of(stream)
    cdef int64_t i, accepted
    cdef uint64_t counter
    cdef uint32_t position
    check(exponents.shape[0] > 0)
    while True:
        i = index_below(words, exponents.shape[0])
        counter, position = counter_of(words), words[STREAM_POSITION]
        accepted = c_draw_acceptance(words, exponents[i])
        if accepted == C_UNDECIDED:
            accepted = again(exponents[i], counter, position)
        if accepted == 1:
            return i


def draw_parts(int64_t[::1] whole, uint32_t[:, ::1] parts, int64_t[::1] signs, uint32_t[::1] stream):
    """Draw p Gaussian and p exponential numbers with three digits each; whether all were decided by first digits."""
    cdef uint32_t* words = words_of(stream)
    cdef int64_t i, k, p = whole.shape[0] // 2
    cdef uint32_t first = 0
    check(parts.shape[0] == 2 * p == signs.shape[0] == whole.shape[0] and parts.shape[1] == 3)
    for i in range(2 * p):
        k = c_draw_gaussian(words, &first) if i < p else c_draw_exponential(words, &first)
        if k == C_UNDECIDED:
            return False
        if i < p and c_next_word(words) >> 31:
            signs[i] = -1
        whole[i] = k
        parts[i, 0] = first
        parts[i, 1] = c_next_word(words)
        parts[i, 2] = c_next_word(words)
    return True


def take_cells(int64_t n_cells, int64_t cell, const uint32_t[::1] thresholds, uint32_t[::1] stream, int64_t[::1] taken):
    """Fill `taken`: how many cells, the next one, and whether digits decided; if not, the last word is put back."""
    cdef uint32_t* words = words_of(stream)
    cdef int64_t n_taken = 0
    cdef bint decided
    check(taken.shape[0] > 0 and thresholds.shape[0] > 0)
    with nogil:
        decided = c_take_cells(
            n_cells, &cell, &thresholds[0], thresholds.shape[0], words, &taken[0], taken.shape[0], &n_taken
        )
    return n_taken, cell, decided


ctypedef fused Number:
    int32_t
    int64_t


def leave_out(const Number[::1] numbers, const int64_t[::1] counts, int64_t limit, uint32_t[::1] stream, uint8_t[::1] unused):
    """Mark the rows that are not used: of a unit with more than `limit`, all but this many of them.

    Every choice of them is as likely as any other, up to 2⁻⁵³. Every row of such a unit takes two words of the stream.
    """
    cdef uint32_t* words = words_of(stream)
    check(unused.shape[0] == numbers.shape[0])
    if not (numbers.shape[0] and counts.shape[0]):
        return
    cdef int64_t[::1] left = np.empty(counts.shape[0], np.int64), wanted = np.empty(counts.shape[0], np.int64)
    with nogil:
        c_leave_out(
            &numbers[0], numbers.shape[0], &counts[0], counts.shape[0], limit, words, &left[0], &wanted[0], &unused[0]
        )


# ---- Loops of noisy steps.


def proximal_step(
    str shrink, parameters, const double[::1] low, const double[::1] high, double radius, const double[::1] w,
    const double[::1] direction, double step,
):
    """One proximal step; parameters as of `steps`."""
    cdef Shrink shrunk = shrink_of(shrink.encode())
    cdef double[::1] numbers = np.array([*parameters, 0.0, 0.0, 0.0], dtype=np.float64)
    check(shrunk != NULL and 0 < low.shape[0] == high.shape[0] == w.shape[0] == direction.shape[0])
    found = np.empty(w.shape[0])
    cdef double[::1] out = found
    prox_step(shrunk, &numbers[0], &low[0], &high[0], radius, &w[0], &direction[0], step, w.shape[0], &out[0])
    return found


def steps(
    Rows rows not None, Slope slope not None, int part, const double[:, ::1] anchor, const double[:, ::1] offset,
    double divisor, const int64_t[::1] chosen, const int64_t[::1] edges, int64_t block, bint is_gaussian, double scale,
    uint32_t[::1] stream, again, str shrink, parameters, const double[::1] low, const double[::1] high, double radius,
    const double[:, ::1] start, const double[::1] step_sizes,
):
    """Noisy proximal steps: iterates and directions, each of shape (steps, outputs, width).

    Parameters
    ----------
    rows, slope, part, anchor, chosen, block
        As of `part_sum`; step t takes chosen[edges[t]:edges[t + 1]].
    offset : array of shape (outputs, width)
        Added to every mean.
    divisor : float
        What a batch's sum is divided by.
    is_gaussian, scale, stream, again
        The noise of every direction, as of `add_noise`.
    shrink, parameters, low, high, radius
        The proximal step: the name of a regularizer, its numbers, bounds on every coordinate, and the radius of a ball.
    start : array of shape (outputs, width)
        w_0.
    step_sizes : array
        η_1 … η_m.
    """
    cdef uint32_t* words = words_of(stream)
    cdef Shrink shrunk = shrink_of(shrink.encode())
    cdef double[::1] numbers = np.array([*parameters, 0.0, 0.0, 0.0], dtype=np.float64)
    cdef int64_t outputs = slope.slope.outputs, width = rows.width, size = outputs * width, t, j
    cdef int64_t n_steps = step_sizes.shape[0]
    cdef Span span, whole
    check(rows.is_complete and block > 0 and size > 0 and 0 <= part <= 1 and shrunk != NULL)
    check(edges.shape[0] == n_steps + 1 and low.shape[0] == size == high.shape[0])
    check_point(anchor, outputs, width)
    check_point(offset, outputs, width)
    check_point(start, outputs, width)
    for t in range(n_steps):
        check(0 <= edges[t] <= edges[t + 1] <= chosen.shape[0])
    check_span(&rows.rows.table, chosen, 0, chosen.shape[0], &whole)
    iterates_of, directions_of = np.empty((n_steps, outputs, width)), np.empty((n_steps, outputs, width))
    cdef double[:, :, ::1] iterates = iterates_of, directions = directions_of
    cdef double[::1] total = np.empty(size)
    cdef const double* w = &start[0, 0]
    cdef double* direction
    with nogil:
        for t in range(n_steps):  # line 5
            direction = &directions[t, 0, 0]
            memset(&total[0], 0, size * sizeof(double))
            span.chosen, span.start, span.stop = whole.chosen, edges[t], edges[t + 1]
            if span.stop > span.start:
                chosen_kernels().part_sum(rows.rows, slope.slope, part, w, &anchor[0, 0], span, block, &total[0])
            for j in range(size):  # lines 6, 7
                direction[j] = total[j] / divisor + (&offset[0, 0])[j]
            add_noise_to(is_gaussian, direction, size, scale, words, again)
            prox_step(
                shrunk, &numbers[0], &low[0], &high[0], radius, w, direction, step_sizes[t], size, &iterates[t, 0, 0]
            )  # line 8
            w = &iterates[t, 0, 0]
    return iterates_of, directions_of
