"""Private models of a JAX function of one's own, such as the apply function of a flax or equinox model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.models.base import Array
from dperm.models.network import Network, NetworkClassifier, NetworkRegressor
from dperm.problem.parameters import flat_leaves, jax_modules, makes_params, unflattened
from dperm.problem.tracing import in_float64

# Rows that predictions are computed for at once.
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Nameless:
    """In the place of a function that a file cannot hold: the plan of its fit is the same."""

    n_outputs: int

    def __call__(self, params: Any, x: Any) -> Any:
        """Some differentiable function of all parameters."""
        import jax
        import jax.numpy as jnp

        total = sum(jnp.sum(leaf) for leaf in jax.tree_util.tree_leaves(params)) + jnp.sum(x)
        return total * jnp.arange(1.0, self.n_outputs + 1.0)


@dataclass(eq=False, repr=False, kw_only=True)
class OwnFunction(Network):
    """Parameters that both share."""

    model: Callable[[Any, Any], Any] | None = None
    params: Any = None

    on_command_line = False
    code_parameters = ("model", "params")

    def _model(self, n_outputs: int) -> Callable[[Any, Any], Any]:
        if not callable(self.model):
            raise InvalidParameterError(f"model must be a JAX function model(params, x), got {self.model!r}.")
        return self.model

    def _start(self, n_outputs: int) -> Any:
        if self.params is None:
            raise InvalidParameterError("params must be the function's starting parameters: a pytree of float arrays.")
        return self.params

    def description(self) -> dict[str, Any]:
        """Shapes in place of what is code."""
        if makes_params(self.params):
            return {"model": None, "params": None}
        shapes = [["/".join(path), list(leaf.shape)] for path, leaf in flat_leaves(self.params)]
        return {"model": None, "params": shapes}

    @classmethod
    def from_description(cls, values: dict[str, Any], n_outputs: int) -> dict[str, Any]:
        """A function and parameters with which the same fit is planned."""
        shapes = {name: np.zeros(tuple(shape)) for name, shape in values["params"]}
        return values | {"model": Nameless(n_outputs), "params": shapes}

    def _outputs(self, X: Any) -> Array:
        if self.model is None or self.params is None:
            raise InvalidParameterError("files do not contain code: set `model` and `params` on the loaded model.")
        jax, rows = jax_modules(), self.encode(X)
        leaves = [self.weights_["/".join(path)].reshape(leaf.shape) for path, leaf in self._named()]
        params, model = unflattened(self.params, leaves), self.model
        with in_float64():
            outputs = jax.jit(jax.vmap(lambda x: jax.numpy.ravel(model(params, x))))
            parts = []
            for first in range(0, rows.shape[0], _ROWS_AT_ONCE):
                piece = rows[first : first + _ROWS_AT_ONCE]
                dense = np.asarray(piece.toarray() if hasattr(piece, "toarray") else piece, dtype=np.float64)
                parts.append(np.asarray(outputs(dense)))
        return np.concatenate(parts)

    def _named(self) -> list[tuple[tuple[str, ...], Array]]:
        params = self.params(self.privacy_.n_features) if makes_params(self.params) else self.params
        return flat_leaves(params)


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateJaxClassifier(OwnFunction, NetworkClassifier):
    """A classifier from a JAX function of one's own, with (ε, δ)-differential privacy.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ should be well below 1/n.
    model : callable
        model(params, x): a vector with a score for every class of one row x; for two classes one score is enough. It
        is traced and never called with a row. flax: `lambda params, x: net.apply(params, x[None])[0]`.
    params : pytree of arrays of floats
        The starting point, chosen without looking at the rows.
    clip, clipping, penalty, domain, solver
        As for `PrivateMLPClassifier`.
    unit : str, optional
        Column identifying the privacy unit, e.g. "patient_id": all rows of a unit are protected together, and n is the
        number of units. By default each row is its own unit.
    max_rows_per_unit, contribution, missing_units
        As for `PrivateLogisticRegression`.
    classes, class_weight, adjacency, noise, accountant, n, schema, bounds, budget, weight_bound, private_weights
        As for `PrivateLogisticRegression`.
    n_jobs, random_state, verbose, row_warnings
        As for `PrivateLogisticRegression`. Rows are not clipped.

    Attributes
    ----------
    weights_ : dict
        Released arrays by name, the path in the pytree.
    classes_, privacy_, event_
        As for `PrivateLogisticRegression`.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> from dperm import PrivateJaxClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20000, 2)); y = X[:, 0] ** 2 + X[:, 1] ** 2 > 0.6
    >>> def model(params, x):
    ...     return jnp.sum(params["scale"] * x**2) + params["offset"]
    >>> start = {"scale": np.zeros(2), "offset": np.zeros(())}
    >>> fitted = PrivateJaxClassifier(2.0, 1e-6, model=model, params=start).fit(X, y)
    >>> bool(fitted.score(X, y) > 0.9)
    True
    """

    kind = "function-classifier"
    title = "custom classifier"


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateJaxRegressor(OwnFunction, NetworkRegressor):
    """A predictor of a number from a JAX function of one's own, with (ε, δ)-differential privacy.

    Parameters
    ----------
    model : callable
        model(params, x): the prediction for one row x, in units of the target's bound.
    target_bound : float
        Targets are clipped to this size; with a schema the target's range is declared there.
    epsilon, delta, params, clip, clipping, penalty, domain, solver
        As for `PrivateJaxClassifier`.
    unit : str, optional
        Column identifying the privacy unit, e.g. "patient_id": all rows of a unit are protected together, and n is the
        number of units. By default each row is its own unit.
    max_rows_per_unit, contribution, missing_units
        As for `PrivateLogisticRegression`.
    adjacency, noise, accountant, n, schema, bounds, budget, weight_bound, private_weights
        As for `PrivateLinearRegression`.
    n_jobs, random_state, verbose, row_warnings
        As for `PrivateLinearRegression`.

    Examples
    --------
    >>> import jax.numpy as jnp, numpy as np
    >>> from dperm import PrivateJaxRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20000, 2)); y = np.sin(2 * X[:, 0])
    >>> def model(params, x):
    ...     return params["size"] * jnp.sin(params["speed"] * x[0])
    >>> start = {"size": np.ones(()), "speed": np.ones(())}
    >>> fitted = PrivateJaxRegressor(2.0, 1e-6, model=model, params=start).fit(X, y)
    >>> bool(fitted.score(X, y) > 0.9)
    True
    """

    kind = "function-regressor"
    title = "custom regression"
