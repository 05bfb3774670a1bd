"""Losses that are functions of one row: clipped gradients by JAX, at most 1024 rows at a time."""

import functools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any

import numpy as np
from scipy import sparse

from dperm.errors import UnsupportedProblemError
from dperm.kernel.adding import add_up
from dperm.kernel.block import Block
from dperm.kernel.coded import plain
from dperm.kernel.objectives.base import Array, Indices, Objective
from dperm.mechanisms.setting import Setting
from dperm.problem import Problem
from dperm.problem.losses.function import FunctionLoss
from dperm.problem.parameters import jax_modules
from dperm.problem.tracing import in_float64, traced

# Rows of one compiled call, no more than `summation_block` allows to be added up one after the other, and entries that
# these rows may have: a call takes less memory than the compiler.
_MOST_ROWS, _MOST_ENTRIES = 1024, 2**18
# Within a call, rows whose gradients are computed together: a multiple of the first, at most the second, and about as
# many numbers as a processor has near.
_ROWS, _TOGETHER, _NEAR = 16, 128, 2**18
# Calls that are started before the first of them is waited for, so that memory does not grow with the rows.
_AT_ONCE = 4
# Gradients of single rows beyond this size take more room than a processor has near: one row at a time is faster.
_LARGE = 512
# Of the gradient's norm, what "automatic" clipping adds to it.
_STABILITY = 0.01
# Compiled code takes numbers below 2^-1022 for 0, squares too. An entry below the first would not count in a norm, and
# may stand beside a factor of any size, so it is 0. Differences that may not be longer than the second are 0.
_LEAST_ENTRY, _LEAST_BOUND = 2.0**-400, 2.0**-450


class FunctionObjective(Objective):
    """Sums of what a compiled function adds for rows, at most 1024 at a call, a few of them at once.

    Compiled code must treat every place of a call alike, so that what a row adds does not depend on the others. That is
    tried, bit by bit, before a row is read; where it fails, rows go through one at a time.
    """

    takes = FunctionLoss

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        if not isinstance(problem.loss, FunctionLoss):
            raise UnsupportedProblemError(f"{problem.loss.name} is not a function of one row.")
        self.loss = problem.loss
        self._by_width: dict[int, _Compiled] = {}

    def _compiled(self, block: Block) -> "_Compiled":
        width = block.table.shape[1]
        if width not in self._by_width:
            self._by_width[width] = _compiled(self.loss, width)
        return self._by_width[width]

    def gradient_sum(self, block: Block, w: Array, bound: float | None, pool: Executor) -> Array:
        """Σ of clipped gradients; what is not finite counts as zero."""
        clip = self.loss.clip if bound is None else bound / self.problem.weight_bound
        compiled = self._compiled(block)
        return self._sum(block, functools.partial(compiled.gradient(_kind_of(block)), w, clip), w.size)

    def difference_sum(
        self, block: Block, chosen: Indices, w: Array, anchor: Array, bound: float, pool: Executor,
        ball_smoothness: float | None = None,
    ) -> Array:  # fmt: skip
        """Σ of differences of clipped gradients, themselves clipped."""
        if ball_smoothness is not None:
            raise UnsupportedProblemError("a function's differences lie in no ball: it need not be convex.")
        clip = bound / self.problem.weight_bound
        if clip < _LEAST_BOUND:
            return np.zeros(w.size)
        difference = self._compiled(block).difference
        return self._sum(block.take(chosen), functools.partial(difference, w, anchor, clip), w.size)

    def risk_sum(self, block: Block, w: Array) -> float:
        """Σ f; a row whose loss is not finite counts as zero."""
        return float(self._sum(block, functools.partial(self._compiled(block).risk, w), 1)[0])

    def gradient_rounding(self, setting: Setting, norm: float) -> float:
        """Unknown: no search for an exact minimum may rest on it."""
        return np.inf

    def _sum(self, block: Block, part: Callable[..., Any], size: int) -> Array:
        """What all calls add up to, by pairs; a few run at the same time where there are processors for it."""

        def parts() -> Iterator[Array]:
            started: deque[Any] = deque()
            for rows in _calls(block, self._compiled(block).length):
                started.append(part(*rows))  # not waited for
                if len(started) > _AT_ONCE:
                    yield np.asarray(started.popleft())
            yield from map(np.asarray, started or [np.zeros(size)])

        with in_float64():
            return np.asarray(add_up(parts()))


def _kind_of(block: Block) -> Any:
    """What its entries are passed as: float32 is not converted here, compiled code is faster at it."""
    return np.float32 if block.table.dtype == np.float32 else np.float64


def _calls(block: Block, length: int) -> Iterator[tuple[int, Any, Array, Array]]:
    """Number of rows, rows, targets and weights of every call; what is missing in the last has weight 0."""
    for first in range(0, len(block), length):
        rows = slice(first, first + length)
        table, n_rows = plain(block.table[rows]), block.weight[rows].size
        x = np.zeros((length, table.shape[1]), _kind_of(block))
        target, weight = np.zeros(length), np.zeros(length)
        x[:n_rows] = table.toarray() if sparse.issparse(table) else table
        target[:n_rows], weight[:n_rows] = block.target[rows], block.weight[rows]
        ignored = weight[:n_rows] == 0.0
        if ignored.any():
            x[:n_rows][ignored] = target[:n_rows][ignored] = 0.0  # a row that is ignored may hold anything
        yield n_rows, x, target, weight


class _Compiled:
    """The sums of one function for rows of one width, each compiled when it is first asked for."""

    def __init__(self, loss: FunctionLoss, width: int) -> None:
        parts = _Parts(loss, width)
        self._together = _multiple_of(_ROWS, min(_TOGETHER, _NEAR // parts.traced.numbers_per_row))
        self.length = _multiple_of(self._together, min(_MOST_ROWS, _MOST_ENTRIES // width))
        self._parts, self._gradients = parts, dict[Any, Any]()
        self.difference = _adding_up(parts, parts.difference, 1, parts.size)
        self.risk = _adding_up(parts, parts.risk, self._together, 1)

    def gradient(self, kind: Any) -> Any:
        """The sum of clipped gradients for rows of this kind of numbers."""
        if kind not in self._gradients:
            together = 1 if self._parts.traced.n_alone > _LARGE else self._together
            self._gradients[kind] = _alike_everywhere(self._parts, together, self.length, kind)
        return self._gradients[kind]


def _multiple_of(unit: int, most: int) -> int:
    """The largest multiple up to this number, or the unit itself."""
    return max(1, most // unit) * unit


@functools.lru_cache(maxsize=16)
def _compiled(loss: FunctionLoss, width: int) -> _Compiled:
    return _Compiled(loss, width)


class _Parts:
    """What the rows of one call add, as JAX functions of a point or two, a clip, rows, targets and weights."""

    def __init__(self, loss: FunctionLoss, width: int) -> None:
        self.jax, self.loss, self.width = jax_modules(), loss, width
        self.traced = traced(loss, width)
        self.ghosts = {layer.leaf: place for place, layer in enumerate(self.traced.layers)}
        self.size = loss.start_point.size

    def _given(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Rows and targets as the function takes them."""
        return x.astype(np.float64), y.astype(np.int32) if self.loss.n_classes else y

    def gradient(self, w: Any, clip: Any, x: Any, y: Any, weight: Any) -> Any:
        """Σ weight · clipped ∇f(w, z): of linear layers without the gradient of any one row."""
        jnp = self.jax.numpy
        x, y = self._given(x, y)
        whole, vectors, deltas = self._row_gradients(w, x, y)
        squares = []
        for place in range(len(self.loss.leaves)):
            if place in self.ghosts:
                ghost = self.ghosts[place]
                squares.append(_square(jnp, vectors[ghost]) * _square(jnp, deltas[ghost]))
            else:
                squares.append(_square(jnp, whole[place]))
        out = []
        # The compiler would compute the factors again for every entry.
        factors = self.jax.lax.optimization_barrier(self._factors(squares, clip, weight))
        for place, factor in enumerate(factors):
            if place in self.ghosts:
                ghost = self.ghosts[place]
                vector, delta = _counted(jnp, factor, vectors[ghost]), _times(jnp, factor, deltas[ghost])
                out.append((delta.T @ vector if self.traced.layers[ghost].transposed else vector.T @ delta).ravel())
            else:
                out.append(jnp.sum(_times(jnp, factor, whole[place]), axis=0))
        return jnp.concatenate(out)

    def difference(self, w: Any, anchor: Any, bound: Any, x: Any, y: Any, weight: Any) -> Any:
        """Σ weight · clipped [clipped ∇f(w, z) − clipped ∇f(anchor, z)]."""
        jnp = self.jax.numpy
        x, y = self._given(x, y)
        moved = self._clipped_rows(w, x, y) - self._clipped_rows(anchor, x, y)
        factor = weight * _shortening(jnp, _square(jnp, moved), bound, self.size)
        return jnp.sum(_times(jnp, factor, moved), axis=0)

    def risk(self, w: Any, x: Any, y: Any, weight: Any) -> Any:
        """Σ weight · f(w, z)."""
        jax, jnp = self.jax, self.jax.numpy
        x, y = self._given(x, y)
        taps = [jnp.zeros(shape) for shape in self.traced.tap_shapes()]
        leaves = self.loss.arrays(w)
        values = jax.vmap(lambda row, target: self.traced.evaluate(leaves, row, target, taps)[0])(x, y)
        counted = (weight > 0.0) & jnp.isfinite(values)
        return jnp.sum(jnp.where(counted, weight * values, 0.0))[None]

    def _row_gradients(self, w: Any, x: Any, y: Any, ghosts: bool = True) -> tuple[dict[int, Any], Any, Any]:
        """Every row's gradient in the arrays that are no linear layer's, flat; the vectors and δ of those that are."""
        jax, jnp = self.jax, self.jax.numpy
        leaves, taps = self.loss.arrays(w), [jnp.zeros(shape) for shape in self.traced.tap_shapes()]
        own = {place: leaf for place, leaf in enumerate(leaves) if not (ghosts and place in self.ghosts)}

        def value(own: dict[int, Any], taps: list[Any], row: Any, target: Any) -> Any:
            given = [own.get(place, leaf) for place, leaf in enumerate(leaves)]
            return self.traced.evaluate(given, row, target, taps)

        slopes = jax.vmap(jax.grad(value, argnums=(0, 1), has_aux=True), in_axes=(None, None, 0, 0))
        (whole, deltas), vectors = slopes(own, taps, x, y)
        whole = {place: _flat(part) for place, part in whole.items()}
        return whole, [_flat(vector) for vector in vectors], [_flat(delta) for delta in deltas]

    def _clipped_rows(self, w: Any, x: Any, y: Any) -> Any:
        """Every row's clipped gradient; zeros where it is not finite."""
        jnp = self.jax.numpy
        whole, _, _ = self._row_gradients(w, x, y, ghosts=False)
        rows = [whole[place] for place in range(len(self.loss.leaves))]
        factors = self._factors([_square(jnp, part) for part in rows], self.loss.clip, jnp.ones(len(x)))
        return jnp.concatenate([_times(jnp, *both) for both in zip(factors, rows, strict=True)], axis=1)

    def _factors(self, squares: list[Any], clip: Any, weight: Any) -> list[Any]:
        """What every array's part of a row's gradient is multiplied by, from its squared norms; 0 if not finite."""
        jnp, leaves = self.jax.numpy, self.loss.leaves
        total = functools.reduce(jnp.add, squares)
        if self.loss.clipping == "per-layer":
            layers = sorted({leaf.layer for leaf in leaves})
            share = clip / jnp.sqrt(float(len(layers)))
            of_layer = {
                layer: functools.reduce(
                    jnp.add, [part for part, leaf in zip(squares, leaves, strict=True) if leaf.layer == layer]
                )
                for layer in layers
            }
            finite = jnp.isfinite(total)
            return [
                jnp.where(finite, weight * _shortening(jnp, of_layer[leaf.layer], share, self.size), 0.0)
                for leaf in leaves
            ]
        if self.loss.clipping == "automatic":
            norm = jnp.sqrt(total)
            factor = jnp.where(jnp.isfinite(total), clip * _room(self.size) / (norm + _STABILITY), 0.0)
        else:
            factor = _shortening(jnp, total, clip, self.size)
        return [weight * factor] * len(leaves)


def _room(size: int) -> float:
    """A few ulp below 1, so that a vector of this many entries, measured again, does not exceed its bound."""
    return 1.0 - 8.0 * (size + 64) * 2.0**-53


def _flat(rows: Any) -> Any:
    """Every row's numbers as one vector, in float64."""
    return rows.reshape(len(rows), -1).astype(np.float64)


def _counted(jnp: Any, factor: Any, rows: Any) -> Any:
    """Vectors, 0 where the factor is, as these may hold anything, and without entries whose squares may vanish."""
    return jnp.where((factor != 0.0)[:, None] & (jnp.abs(rows) >= _LEAST_ENTRY), rows, 0.0)


def _times(jnp: Any, factor: Any, rows: Any) -> Any:
    """Every one of these vectors times its factor."""
    return factor[:, None] * _counted(jnp, factor, rows)


def _square(jnp: Any, rows: Any) -> Any:
    """Every row's squared norm."""
    return jnp.sum(jnp.square(rows), axis=1)


def _shortening(jnp: Any, square: Any, bound: Any, size: int) -> Any:
    """min(1, bound/norm), and 0 where the norm is not finite."""
    norm = jnp.sqrt(square)
    limit = bound * _room(size)
    return jnp.where(jnp.isfinite(square), limit / jnp.maximum(norm, limit), 0.0)


def _alike_everywhere(parts: _Parts, together: int, length: int, kind: Any = np.float64) -> Any:
    """The compiled sum of gradients, if what a made-up row adds is the same to the last bit in any position of a call.

    Otherwise one that takes rows one at a time: slower, and alike by construction.
    """
    compiled = _adding_up(parts, parts.gradient, together, parts.size)
    made_up = np.random.default_rng(0).uniform(-1.0, 1.0, (length, parts.width)).astype(kind)
    added = []
    # Code for the last of the rows that are computed together may differ.
    tried = {0, 1, together // 2 - 1, together // 2, *range(together - _ROWS, together), length - 1}
    with in_float64():
        for place in sorted(place for place in tried if place >= 0):
            x, weight = made_up.copy(), np.zeros(length)
            x[place], weight[place] = np.linspace(-1.0, 1.0, parts.width), 1.0
            added.append(compiled(parts.loss.start_point, parts.loss.clip, length, x, np.zeros(length), weight))
        alike = all(np.array_equal(other, added[0]) for other in added)
    return compiled if alike else _adding_up(parts, parts.gradient, 1, parts.size)


def _adding_up(parts: _Parts, part: Callable[..., Any], together: int, size: int) -> Any:
    """The compiled sum of what the rows of a call add, a few of them at once and these one after the other."""
    jax = parts.jax

    def total(*arguments: Any) -> Any:
        *fixed, n_rows, x, y, weight = arguments

        def step(place: Any, so_far: Any) -> Any:
            rows = (jax.lax.dynamic_slice_in_dim(given, place * together, together) for given in (x, y, weight))
            return so_far + part(*fixed, *rows)

        return jax.lax.fori_loop(0, (n_rows + together - 1) // together, step, jax.numpy.zeros(size))

    return jax.jit(total)
