"""The parameters of a function of one's own: how arrays make one vector, and whether it can be learned from."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, NotInstalledError

if TYPE_CHECKING:
    from dperm.problem.losses.function import FunctionLoss

Array = NDArray[np.float64]

# Synthetic rows at which the gradient is tried out.
_TRIALS = 16


def jax_modules() -> Any:
    """The module `jax`, or one sentence about how to get it."""
    try:
        import jax
    except ImportError:
        raise NotInstalledError("functions and networks need JAX: pip install 'dperm[jax]'.") from None
    return jax


def makes_params(params: Any) -> bool:
    """Whether it is a function that makes parameters, and no pytree that can be called, as equinox modules are."""
    return callable(params) and bool(jax_modules().tree_util.all_leaves([params]))


def flat_leaves(params: Any) -> list[tuple[tuple[str, ...], Array]]:
    """The arrays of a pytree of floats with their paths, in JAX's order, in float64."""
    jax = jax_modules()
    found = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        names = tuple(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path)
        array = np.asarray(leaf)
        if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
            raise InvalidParameterError(
                f"params must be arrays of floats; {'/'.join(names) or 'it'} is {array.dtype}, which has no gradient."
            )
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise InvalidParameterError(f"params must be finite; {'/'.join(names) or 'it'} is not.")
        found.append((names, array))
    if not sum(leaf.size for _, leaf in found):
        raise InvalidParameterError("params must hold at least one number to learn.")
    return found


def tree_of(params: Any) -> Any:
    """The shape of `params`, without the arrays."""
    return jax_modules().tree_util.tree_structure(params)


def unflattened(params: Any, leaves: list[Any]) -> Any:
    """These arrays in the shape of `params`."""
    return jax_modules().tree_util.tree_unflatten(tree_of(params), leaves)


def check_gradient(loss: "FunctionLoss", function: Any, width: int) -> None:
    """Raise if the gradient is NaN or 0 wherever it is tried, at the start: nothing could be learned."""
    jax = jax_modules()
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, (_TRIALS, width))
    if loss.n_classes:
        targets: Any = rng.integers(0, loss.n_classes, _TRIALS).astype(np.int32)
    else:
        targets = rng.uniform(-loss.target_bound, loss.target_bound, _TRIALS)
    leaves = loss.arrays(loss.start_point)
    parts = jax.jit(jax.vmap(jax.grad(function), in_axes=(None, 0, 0)))(leaves, rows, targets)
    sizes = np.sqrt(sum(np.square(np.asarray(part)).reshape(_TRIALS, -1).sum(axis=1) for part in parts))
    if not np.isfinite(sizes).any():
        raise InvalidParameterError(
            f"the function's gradient at the start is finite on none of {_TRIALS} made-up rows: is it differentiable?"
        )
    if not sizes[np.isfinite(sizes)].any():
        raise InvalidParameterError(
            f"the function's gradient at the start is 0 on all of {_TRIALS} made-up rows: it would never leave it."
        )
