"""Any differentiable f(w, z): a JAX function of one row, whose gradients are clipped."""

import functools
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.problem.domains import BlockDomain, Domain
from dperm.problem.losses.base import Array, RowLoss, class_numbers
from dperm.problem.parameters import flat_leaves, makes_params, tree_of, unflattened
from dperm.problem.regularizers import BlockRegularizer, Regularizer
from dperm.problem.tracing import traced
from dperm.validation import count, one_of, positive

# What a row's gradient is scaled by: shortened to the clip, each layer on its own, or brought to about that length.
CLIPPINGS = ("flat", "per-layer", "automatic")

# Numbers that a file may describe a function with; beyond them it would only fill memory.
_MOST_NUMBERS = 10**8


class Leaf(NamedTuple):
    """One array among the parameters, and its place in the vector of all.

    Attributes
    ----------
    name : str
        Its path, such as `hidden/kernel`.
    layer : str
        The path without its last part: arrays that share it are clipped together, if each layer is on its own.
    shape : tuple of int
        Its shape.
    start, stop : int
        Its part of the vector.
    """

    name: str
    layer: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class FunctionLoss(RowLoss):
    """The loss of one row as a JAX function, f(params, x, y), convex or not.

    The function is traced: it is never called with a row of a table. Every row's gradient is clipped inside the trusted
    boundary, so the guarantee does not depend on what the function is. Rows are not scaled; one with an entry that is
    not finite is ignored, and a row whose gradient is not finite adds nothing. Proof: docs/proofs/function.md.

    Parameters
    ----------
    function : callable
        f(params, x, y): a number. x is the row, a vector of float64; y its target: a number, or a whole number below
        `n_classes`. It sees one row at a time, so nothing in it can depend on others.
    params : pytree of arrays of floats, or callable
        The starting point, chosen without looking at the rows; or a function of the number of columns that makes it.
    clip : float
        C, the most that one row adds to a sum of gradients.
    clipping : {"flat", "per-layer", "automatic"}
        "flat" shortens a row's gradient to C. "per-layer" shortens the part of each of k layers to C/√k. "automatic"
        divides by its norm (and a hundredth), so that no clip has to be found.
    n_classes : int, optional
        Targets are whole numbers 0 … n_classes − 1, and a row with another is ignored. For two classes a target above 0
        is 1, and 0 otherwise, as for every loss of two classes.
    target_bound : float
        Without classes, targets are clipped to this size.
    smoothness : float, optional
        A guess at L, how fast a row's gradient changes, by default C. It steers step sizes and the clipping of gradient
        differences: a wrong one costs accuracy, never privacy.
    initial_gap : float, optional
        A guess at what there is to gain from the start, by default log(n_classes), or 1. It steers step numbers.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from dperm.problem import FunctionLoss
    >>> loss = FunctionLoss(lambda w, x, y: jnp.square(jnp.tanh(x @ w["in"]) @ w["out"] - y),
    ...                     {"in": np.ones((3, 4)), "out": np.ones(4)})
    >>> [leaf.name for leaf in loss.leaves]
    ['in', 'out']
    """

    function: Callable[[Any, Any, Any], Any]
    params: Any
    _: KW_ONLY
    clip: float = 1.0
    clipping: str = "flat"
    n_classes: int | None = None
    target_bound: float = 1.0
    smoothness: float | None = None
    initial_gap: float | None = None

    leaves: tuple[Leaf, ...] = field(init=False, repr=False)
    start_point: Array = field(init=False, repr=False)

    name = "function"
    convex = False
    scales_rows = False

    def __post_init__(self) -> None:
        """Check what can be checked without the number of columns, and lay the parameters out in one vector."""
        if not callable(self.function):
            raise InvalidParameterError(f"function must be a JAX function f(params, x, y), got {self.function!r}.")
        one_of("clipping", self.clipping, CLIPPINGS)
        for name in ("clip", "target_bound", "smoothness", "initial_gap"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if self.n_classes is not None and count("n_classes", self.n_classes) < 2:
            raise InvalidParameterError("n_classes must be at least 2.")
        named = [] if makes_params(self.params) else flat_leaves(self.params)
        stops = np.cumsum([leaf.size for _, leaf in named])
        leaves = [
            Leaf("/".join(path), "/".join(path[:-1]), leaf.shape, int(stop) - leaf.size, int(stop))
            for (path, leaf), stop in zip(named, stops, strict=True)
        ]
        object.__setattr__(self, "leaves", tuple(leaves))
        object.__setattr__(self, "start_point", np.concatenate([leaf.ravel() for _, leaf in named] or [np.empty(0)]))

    def _key(self) -> tuple[Any, ...]:
        numbers = (self.clip, self.clipping, self.n_classes, self.target_bound, self.smoothness, self.initial_gap)
        made_by = self.params if makes_params(self.params) else tree_of(self.params)
        return (_hashable(self.function), _hashable(made_by), self.leaves, self.start_point.tobytes(), *numbers)

    def __eq__(self, other: object) -> bool:
        """The same function, start and numbers."""
        return isinstance(other, FunctionLoss) and self._key() == other._key()

    def __hash__(self) -> int:
        """In agreement with `==`."""
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._key())

    def for_width(self, width: int) -> "FunctionLoss":
        """The same with the parameters for rows of this many entries."""
        return replace(self, params=self.params(width)) if makes_params(self.params) else self

    def shapes(self) -> "FunctionShapes":
        """The same without what is code: names and shapes of the arrays, and the numbers."""
        no_code: Any = None
        return FunctionShapes(
            no_code,
            tuple((leaf.name, leaf.shape) for leaf in self.leaves),
            clip=self.clip,
            clipping=self.clipping,
            n_classes=self.n_classes,
            target_bound=self.target_bound,
            smoothness=self.smoothness,
            initial_gap=self.initial_gap,
        )

    def start(self, dimension: int) -> Array:
        """The parameters that were given."""
        return self.start_point.copy()

    def unflatten(self, w: Array) -> Any:
        """The vector of coefficients in the shape of `params`."""
        return unflattened(self.params, self.arrays(w))

    def arrays(self, w: Any) -> list[Any]:
        """The arrays that a vector of coefficients holds, in the order of `leaves`; of numpy or of JAX, as w is."""
        return [w[leaf.start : leaf.stop].reshape(leaf.shape) for leaf in self.leaves]

    def dimension(self, width: int) -> int:
        """Number of coefficients; raises if the function does not take rows of this many entries."""
        traced(self, width)
        return int(self.start_point.size)

    def fan_in(self, width: int) -> int:
        """From the shapes: a matrix adds up as many numbers as it has entries for each along its last axis."""
        matrices = [leaf.shape for leaf in self.leaves if len(leaf.shape) > 1]
        if not matrices:  # vectors, or single numbers
            return max(leaf.stop - leaf.start for leaf in self.leaves)
        return sum(math.prod(shape[:-1]) + 1 for shape in matrices)

    def regularizer(self, **by_leaf: Regularizer) -> BlockRegularizer:
        """Regularizers for some of the arrays, by name (`hidden/kernel` is written `hidden__kernel`).

        Examples
        --------
        >>> from dperm.problem import L2, FunctionLoss
        >>> FunctionLoss(lambda w, x, y: x @ w["a"] * y, {"a": np.ones(3)}).regularizer(a=L2(0.1)).value(np.ones(3))
        0.15000000000000002
        """
        return BlockRegularizer(self._blocks(by_leaf))

    def domain(self, **by_leaf: Domain) -> BlockDomain:
        """Domains for some of the arrays, by name, as for `regularizer`."""
        return BlockDomain(self._blocks(by_leaf))

    def _blocks(self, by_leaf: dict[str, Any]) -> tuple[tuple[int, int, Any], ...]:
        known = {leaf.name.replace("/", "__"): leaf for leaf in self.leaves}
        if len(known) < len(self.leaves):
            raise InvalidParameterError("two arrays of the parameters have the same name; name them differently.")
        for name in by_leaf:
            if name not in known:
                raise InvalidParameterError(f"the parameters have no array {name!r}; they have {', '.join(known)}.")
        return tuple((known[name].start, known[name].stop, part) for name, part in by_leaf.items())

    def slope_bound(self, margin_bound: float) -> float:
        """C: it is enforced."""
        return self.clip

    def curvature_bound(self, margin_bound: float) -> float:
        """The declared L; differences of gradients are clipped to what it allows."""
        return self.clip if self.smoothness is None else self.smoothness

    @property
    def clipped_range(self) -> tuple[float, float] | None:
        """The range of targets that are numbers."""
        return None if self.n_classes is not None else (-self.target_bound, self.target_bound)

    @property
    def value_at_zero(self) -> float:
        """The guess at what there is to gain: a function has no value that is known in advance."""
        if self.initial_gap is not None:
            return self.initial_gap
        return 1.0 if self.n_classes is None else math.log(self.n_classes)

    def encode(self, target: Array) -> Array:
        """Clip numbers; of classes keep whole numbers 0 … K−1 and turn everything else into NaN."""
        if self.n_classes is None:
            return np.clip(target, -self.target_bound, self.target_bound)
        if self.n_classes == 2:
            return np.where(np.isnan(target), np.nan, (target > 0.0).astype(np.float64))
        return class_numbers(target, self.n_classes)

    def check_bounds(self, margin_bound: float) -> None:
        """Nothing to check: the bound on gradients is enforced, and the others are guesses."""

    @classmethod
    def example(cls) -> Self:
        """A network of two layers, for the contract tests."""
        rng = np.random.default_rng(0)
        params = {"hidden": {"kernel": rng.normal(size=(3, 4)), "bias": np.zeros(4)}, "out": rng.normal(size=4)}
        return cls(_small_network, params, clip=0.5)


@dataclass(frozen=True, eq=False)
class FunctionShapes(FunctionLoss):
    """A `FunctionLoss` as a file describes it: `params` are names and shapes, and there is no function.

    Its constants are those of the function, as every row's gradient is clipped whatever the function is.
    """

    def __post_init__(self) -> None:
        """Lay the arrays out in one vector."""
        one_of("clipping", self.clipping, CLIPPINGS)
        stop, leaves = 0, []
        for name, shape in self.params:
            start, stop = stop, stop + math.prod(count("shape", length) for length in shape)
            leaves.append(Leaf(name, name.rpartition("/")[0], tuple(shape), start, stop))
        if not 0 < stop <= _MOST_NUMBERS:
            raise InvalidParameterError("the parameters of a function must hold some numbers, and not too many.")
        object.__setattr__(self, "leaves", tuple(leaves))
        object.__setattr__(self, "start_point", np.zeros(stop))

    def _key(self) -> tuple[Any, ...]:
        numbers = (self.clip, self.clipping, self.n_classes, self.target_bound, self.smoothness, self.initial_gap)
        return (self.leaves, *numbers)

    def dimension(self, width: int) -> int:
        """Number of coefficients."""
        return int(self.start_point.size)


def _hashable(value: Any) -> Any:
    """The value, or which object it is: modules that hold arrays are equal to themselves alone."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def _small_network(params: Any, x: Any, y: Any) -> Any:
    import jax.numpy as jnp

    hidden = jnp.tanh(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return 0.5 * jnp.square(hidden @ params["out"] - y)
