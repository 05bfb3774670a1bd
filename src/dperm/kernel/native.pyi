"""Types of the compiled kernels."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Stream = NDArray[np.uint32]

UNDECIDED: int
CUMULATIVE: tuple[int, ...]
GRADIENT: int
DIFFERENCE: int
CONVEX_DIFFERENCE: int
SCALAR_SLOPES: tuple[str, ...]
VECTOR_SLOPES: tuple[str, ...]
SHRINKS: tuple[str, ...]

class Layout:
    shapes: tuple[int, int, int]
    width: int
    def __init__(
        self, shapes: tuple[int, int, int], width: int, places: NDArray[np.int32], blocks: NDArray[np.int32],
        crosses: NDArray[np.int32], digits: NDArray[np.int32], levels: NDArray[np.int32], n_levels: int, ends: Array,
        cross_entry: float,
    ) -> None: ...  # fmt: skip

class Rows:
    scale: Array
    weight: Array
    target: Array
    is_complete: bool
    def __init__(
        self, table: Any, scale: Array | None = ..., weight: Array | None = ..., target: Array | None = ...,
        intercept: float = ...,
    ) -> None: ...  # fmt: skip
    @property
    def intercept(self) -> float: ...
    @property
    def width(self) -> int: ...

class Slope:
    def __init__(
        self, loss: str | int, outputs: int, parameters: Sequence[float], bound: float, curvature: float = ...
    ) -> None: ...  # fmt: skip
    @property
    def outputs(self) -> int: ...

def only_plain(value: bool) -> None: ...
def part_sum(
    rows: Rows, slope: Slope, part: int, w: Array, anchor: Array | None, chosen: Indices | None, start: int, stop: int,
    block: int, out: Array,
) -> None: ...  # fmt: skip
def margins(rows: Rows, w: Array, chosen: Indices | None, start: int, stop: int) -> Array: ...
def add_rows(
    rows: Rows, factors: Array, chosen: Indices | None, start: int, stop: int, block: int, out: Array
) -> None: ...  # fmt: skip
def add_products(rows: Rows, factors: Array, block: int, out: Array) -> None: ...
def norms(rows: Rows, largest: float) -> tuple[Array, Array]: ...
def slope_sums(rows: Rows, slope: Slope, constant: float, margins: Array, block: int) -> Array: ...
def curvatures(
    slope: Slope, scale: Array, target: Array, constant: float, step: float, margins: Array
) -> None: ...  # fmt: skip
def slopes(slope: Slope, margins: Array, target: Array) -> Array: ...
def take_codes(numbers: Array, knots: Array, codes: NDArray[Any], fractions: NDArray[np.uint8], parts: int) -> None: ...
def shorten(values: Array, out: NDArray[np.float32]) -> None: ...
def clip_vector(values: Array, bound: float) -> None: ...
def clip_rows(values: Array, bound: float) -> None: ...
def is_canonical(rows: Rows) -> bool: ...
def refill(stream: Stream) -> None: ...
def next_word(stream: Stream) -> int: ...
def long_words(stream: Stream, size: int) -> NDArray[np.uint64]: ...
def place(stream: Stream) -> tuple[int, int]: ...
def draw_gaussian(stream: Stream) -> tuple[int, int]: ...
def draw_exponential(stream: Stream) -> tuple[int, int]: ...
def draw_acceptance(stream: Stream, exponent: int) -> int: ...
def sum_ends(
    value: float, scale: float, k: int, first: int, second: int, third: int
) -> tuple[float, float]: ...  # fmt: skip
def add_noise(
    is_gaussian: bool, values: Array, scale: float, stream: Stream, again: Callable[[float, float, int, int], float]
) -> None: ...  # fmt: skip
def accepted_index(exponents: NDArray[np.int64], stream: Stream, again: Callable[[int, int, int], int]) -> int: ...
def draw_parts(
    whole: NDArray[np.int64], parts: NDArray[np.uint32], signs: NDArray[np.int64], stream: Stream
) -> bool: ...  # fmt: skip
def take_cells(
    n_cells: int, cell: int, thresholds: NDArray[np.uint32], stream: Stream, taken: Indices
) -> tuple[int, int, bool]: ...  # fmt: skip
def leave_out(
    numbers: NDArray[Any], counts: NDArray[np.int64], limit: int, stream: Stream, unused: NDArray[np.uint8]
) -> None: ...  # fmt: skip
def proximal_step(
    shrink: str, parameters: Sequence[float], low: Array, high: Array, radius: float, w: Array, direction: Array,
    step: float,
) -> Array: ...  # fmt: skip
def steps(
    rows: Rows, slope: Slope, part: int, anchor: Array, offset: Array, divisor: float, chosen: Indices, edges: Indices,
    block: int, is_gaussian: bool, scale: float, stream: Stream, again: Callable[[float, float, int, int], float],
    shrink: str, parameters: Sequence[float], low: Array, high: Array, radius: float, start: Array, step_sizes: Array,
) -> tuple[Array, Array]: ...  # fmt: skip
