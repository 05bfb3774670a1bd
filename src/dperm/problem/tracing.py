"""Functions of one row, traced by JAX: checked, and taken apart where a layer is linear. No row is seen here.

A traced function is a list of operations on arrays of known shapes. What it does with one row is all that it can do:
the batch is made afterwards, by `vmap` of that list.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import DpermError, InvalidParameterError
from dperm.problem.parameters import check_gradient, jax_modules, unflattened
from dperm.remembered import remembered

if TYPE_CHECKING:
    from dperm.problem.losses.function import FunctionLoss

Array = NDArray[np.float64]

# Operations that hand values of a row to Python code, or whose result in a batch is up to the user.
_NOT_OF_ONE_ROW = ("callback", "debug_print", "infeed", "outfeed", "custom_vmap")


def in_float64() -> AbstractContextManager[Any]:
    """Everything in float64, whatever the process has set: sums are exact to what the noise is made for."""
    context: AbstractContextManager[Any] = jax_modules().enable_x64(True)
    return context


@dataclass(frozen=True, eq=False)
class LinearLayer:
    """An operation x ↦ x·W or W·x on a vector, the only one in which W occurs.

    The gradient of W is then x ⊗ δ, δ the gradient of what comes out, and its norm ‖x‖‖δ‖.

    Attributes
    ----------
    operation : int
        Its position in the list.
    leaf : int
        W's position among the parameters.
    vector : int
        Which operand x is.
    transposed : bool
        Whether W's rows belong to what comes out.
    """

    operation: int
    leaf: int
    vector: int
    transposed: bool


@dataclass(frozen=True, eq=False)
class Traced:
    """A function of one row as a list of operations.

    Attributes
    ----------
    jaxpr : ClosedJaxpr
        Of the parameters, one after the other, the row and its target.
    layers : tuple of LinearLayer
        Where norms of gradients follow from vectors.
    n_alone : int
        Numbers in the arrays that are no linear layer's, whose gradient is computed for every row.
    numbers_per_row : int
        About how many numbers a row takes on the way.
    """

    jaxpr: Any
    layers: tuple[LinearLayer, ...]
    n_alone: int
    numbers_per_row: int

    def evaluate(self, leaves: list[Any], x: Any, y: Any, taps: list[Any]) -> tuple[Any, list[Any]]:
        """f, and the vectors that come to the linear layers, with `taps` added to what comes out of them.

        The gradient of f in a tap is δ of its layer.
        """
        jaxpr = self.jaxpr.jaxpr
        values = dict(zip(jaxpr.constvars, self.jaxpr.consts, strict=True))
        values |= dict(zip(jaxpr.invars, [*leaves, x, y], strict=True))
        at = {layer.operation: place for place, layer in enumerate(self.layers)}
        vectors: list[Any] = [None] * len(self.layers)
        for number, operation in enumerate(jaxpr.eqns):
            operands = [var.val if hasattr(var, "val") else values[var] for var in operation.invars]
            parameters = operation.primitive.get_bind_params(operation.params)
            results = operation.primitive.bind(*operands, **parameters)
            if number in at:
                place = at[number]
                vectors[place] = operands[self.layers[place].vector]
                results = results + taps[place].astype(results.dtype)
            results = results if operation.primitive.multiple_results else [results]
            values |= dict(zip(operation.outvars, results, strict=True))
        (out,) = jaxpr.outvars
        return (out.val if hasattr(out, "val") else values[out]), vectors

    def tap_shapes(self) -> list[tuple[int, ...]]:
        """The shape of what comes out of each linear layer."""
        return [tuple(self.jaxpr.jaxpr.eqns[layer.operation].outvars[0].aval.shape) for layer in self.layers]


@remembered(64)
def traced(loss: "FunctionLoss", width: int) -> Traced:
    """Trace a function for rows of this many entries.

    Raises
    ------
    InvalidParameterError
        If it cannot be traced, is not the loss of one row alone, or has no gradient.
    """
    jax = jax_modules()
    with in_float64():
        row, target = jax.ShapeDtypeStruct((width,), np.float64), np.int32 if loss.n_classes else np.float64
        shapes = [jax.ShapeDtypeStruct(leaf.shape, np.float64) for leaf in loss.leaves]

        def function(leaves: list[Any], x: Any, y: Any) -> Any:
            return loss.function(unflattened(loss.params, leaves), x, y)

        arguments = (shapes, row, jax.ShapeDtypeStruct((), target))
        try:
            jaxpr = jax.make_jaxpr(function)(*arguments)
        except DpermError:
            raise
        except Exception as error:  # whatever else the function raises
            raise InvalidParameterError(_untraceable(error, width)) from None
        _check_scalar(jaxpr.out_avals)
        _check_one_row(jaxpr)
        try:
            gradient = jax.make_jaxpr(jax.grad(function))(*arguments)
        except Exception as error:
            raise InvalidParameterError(f"the function has no gradient: {_first_line(error)}") from None
        _check_one_row(gradient)
        layers = tuple(_linear_layers(jaxpr.jaxpr, len(shapes)))
        ghosts = {layer.leaf for layer in layers}
        n_alone = sum(shape.size for place, shape in enumerate(shapes) if place not in ghosts)
        found = Traced(jaxpr, layers, n_alone, n_alone + 2 * sum(_sizes(jaxpr)) + width)
        check_gradient(loss, function, width)
    return found


def _untraceable(error: Exception, width: int) -> str:
    return f"the function cannot be traced for a row x of {width} entries and a number y: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    """Of an error about shapes: there are no values yet."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + text[0] if text else ''}".rstrip(".") + "."


def _check_scalar(results: Any) -> None:
    if len(results) != 1:
        raise InvalidParameterError(
            f"the function must return one number, the loss of a row; it returns {len(results)}."
        )
    (result,) = results
    if result.shape != () or np.dtype(result.dtype).kind != "f":
        raise InvalidParameterError(
            "the function must return one number, the loss of a row; it returns "
            f"{result.dtype} of shape {result.shape}."
        )


def _check_one_row(jaxpr: Any) -> None:
    for operation in _operations(jaxpr.jaxpr):
        name = operation.primitive.name
        if any(word in name for word in _NOT_OF_ONE_ROW):
            raise InvalidParameterError(
                f"the function uses {name}, which could show rows or mix them: the loss of a row must depend on its "
                "row and the parameters alone."
            )
    if jaxpr.effects:
        raise InvalidParameterError(
            "the function has side effects: the loss of a row must be a number and nothing else."
        )


def _operations(jaxpr: Any) -> Iterator[Any]:
    """All operations, those inside of others included."""
    for operation in jaxpr.eqns:
        yield operation
        for value in operation.params.values():
            for inner in value if isinstance(value, list | tuple) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _operations(inner)


def _sizes(jaxpr: Any) -> Iterator[int]:
    for operation in _operations(jaxpr.jaxpr):
        yield sum(int(getattr(var.aval, "size", 1)) for var in operation.outvars)


def _linear_layers(jaxpr: Any, n_leaves: int) -> Iterator[LinearLayer]:
    """Products of a vector and a matrix among the parameters that occurs nowhere else."""
    places = {var: place for place, var in enumerate(jaxpr.invars[:n_leaves])}
    uses: dict[Any, int] = {}
    for operation in jaxpr.eqns:
        for var in operation.invars:
            if not hasattr(var, "val"):
                uses[var] = uses.get(var, 0) + 1
    for number, operation in enumerate(jaxpr.eqns):
        if operation.primitive.name != "dot_general":
            continue
        contracted, batched = operation.params["dimension_numbers"]
        for matrix, vector in ((1, 0), (0, 1)):
            weight, other = operation.invars[matrix], operation.invars[vector]
            if hasattr(weight, "val") or hasattr(other, "val") or weight not in places or other in places:
                continue
            if uses[weight] == 1 and weight not in jaxpr.outvars and len(weight.aval.shape) == 2:
                inner = [weight.aval.shape[axis] for axis in contracted[matrix]]
                if inner == [other.aval.size] and not batched[0]:  # a vector, or a batch of one
                    yield LinearLayer(number, places[weight], vector, tuple(contracted[matrix]) == (1,))
                break
