"""Private networks of fully connected layers, in the shape of scikit-learn's."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dperm.errors import InvalidParameterError
from dperm.models.base import Array, n_scores
from dperm.models.bounds import behind_encoding
from dperm.models.network import Network, NetworkClassifier, NetworkRegressor
from dperm.models.regressor import number_of
from dperm.validation import count, one_of

ACTIVATIONS = ("tanh", "relu")

_OWN = ("hidden_layer_sizes", "activation", "clip")


@dataclass(frozen=True)
class Perceptron:
    """Fully connected layers, for JAX: a function of parameters and a row."""

    n_hidden: int
    activation: str

    def __call__(self, params: Any, x: Any) -> Any:
        """The outputs of one row."""
        import jax.numpy as jnp

        for place in range(self.n_hidden):
            layer = params[f"layer{place}"]
            x = x @ layer["kernel"] + layer["bias"]
            x = jnp.tanh(x) if self.activation == "tanh" else jnp.maximum(x, 0.0)
        last = params[f"layer{self.n_hidden}"]
        return x @ last["kernel"] + last["bias"]


@dataclass(frozen=True)
class PerceptronStart:
    """Where every fit starts: public random numbers in hidden layers, zeros in the last.

    The scores of a new network are 0, and its hidden layers are features of random directions.
    """

    hidden_layer_sizes: tuple[int, ...]
    n_outputs: int

    def __call__(self, width: int) -> dict[str, dict[str, Array]]:
        """The parameters for rows of this many entries."""
        rng = np.random.default_rng(0)
        sizes = (width, *self.hidden_layer_sizes)
        params = {}
        for place, (inputs, units) in enumerate(itertools.pairwise(sizes)):
            kernel = rng.normal(size=(inputs, units)) / np.sqrt(inputs)
            params[f"layer{place}"] = {"kernel": kernel, "bias": np.zeros(units)}
        last = {"kernel": np.zeros((sizes[-1], self.n_outputs)), "bias": np.zeros(self.n_outputs)}
        return params | {f"layer{len(sizes) - 1}": last}


def read_layers(start: Any, sizes: tuple[int, ...]) -> dict[str, dict[str, Array]]:
    """The parameters that a dict like `weights_` holds, for layers of these sizes, or raise."""
    try:
        arrays = {name: np.array(values, dtype=np.float64) for name, values in dict(start).items()}
        params = {
            f"layer{place}": {part: arrays.pop(f"layer{place}/{part}") for part in ("kernel", "bias")}
            for place in range(len(sizes))
        }
        width = params["layer0"]["kernel"].shape[0]
        fits = not arrays and all(
            layer["kernel"].shape == (inputs, units) and layer["bias"].shape == (units,)
            for layer, (inputs, units) in zip(params.values(), itertools.pairwise((width, *sizes)), strict=True)
        )
        fits = fits and all(np.isfinite(array).all() for layer in params.values() for array in layer.values())
    except (TypeError, ValueError, KeyError, IndexError):
        fits = False
    if not fits:
        raise InvalidParameterError(
            "start must be a dict of finite arrays with the names and shapes of weights_, for these hidden_layer_sizes."
        )
    return params


@dataclass(eq=False, repr=False, kw_only=True)
class MLP(Network):
    """Parameters that both networks share."""

    hidden_layer_sizes: tuple[int, ...] = (64,)
    activation: str = "tanh"
    start: Any = None

    @property
    def _sizes(self) -> tuple[int, ...]:
        given = self.hidden_layer_sizes
        try:
            sizes = tuple(given)
        except TypeError:
            sizes = (given,)  # type: ignore[assignment]  # one layer, as scikit-learn takes it
        if isinstance(given, str):
            raise InvalidParameterError(f"hidden_layer_sizes must be whole numbers such as (64, 32), got {given!r}.")
        return tuple(count("hidden_layer_sizes", size) for size in sizes)

    def _model(self, n_outputs: int) -> Perceptron:
        return Perceptron(len(self._sizes), one_of("activation", self.activation, ACTIVATIONS))

    def _start(self, n_outputs: int) -> PerceptronStart | dict[str, dict[str, Array]]:
        if self.start is None:
            return PerceptronStart(self._sizes, n_outputs)
        return read_layers(self.start, (*self._sizes, n_outputs))

    def _layers(self) -> list[tuple[Array, Array]]:
        """Kernel and bias of every layer, as they were released."""
        n_layers = len(self.weights_) // 2
        return [(self.weights_[f"layer{k}/kernel"], self.weights_[f"layer{k}/bias"]) for k in range(n_layers)]

    def _outputs(self, X: Any) -> Array:
        out = self.encode(X)
        *hidden, (kernel, bias) = self._layers()
        for inner_kernel, inner_bias in hidden:
            out = np.asarray(out @ inner_kernel + inner_bias)
            out = np.tanh(out) if self._released_activation == "tanh" else np.maximum(out, 0.0)
        return np.asarray(out @ kernel + bias)

    @property
    def _released_activation(self) -> str:
        """That of the fit, which a file holds among its parameters."""
        fit = self.parameters_ or {}
        return str(fit.get("activation", self.activation))

    def take_numbers(self, content: dict[str, Any], n_columns: int) -> None:
        """Layers one after the other, each as wide as the one before it."""
        super().take_numbers(content, n_columns)
        layers = self._layers()
        outputs = n_scores(len(getattr(self, "classes_", ())))
        widths = [n_columns, *(bias.shape[0] for _, bias in layers)]
        fits = all(kernel.shape == shape for (kernel, _), shape in zip(layers, itertools.pairwise(widths), strict=True))
        if 2 * len(layers) != len(self.weights_) or not fits or widths[-1] != outputs:
            raise ValueError("weights")
        one_of("activation", self._released_activation, ACTIVATIONS)

    def _plain_layers(self, estimator: Any, out_activation: str) -> Any:
        """Hand the weights over to a network of scikit-learn."""
        check_is_fitted(self, "privacy_")
        layers = self._layers()
        estimator.coefs_ = [kernel.copy() for kernel, _ in layers]
        estimator.intercepts_ = [bias.copy() for _, bias in layers]
        estimator.activation = self._released_activation
        estimator.n_layers_, estimator.n_outputs_ = len(layers) + 1, layers[-1][1].size
        estimator.out_activation_, estimator.n_features_in_ = out_activation, layers[0][0].shape[0]
        return estimator


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateMLPClassifier(MLP, NetworkClassifier):
    """A network of fully connected layers for classes, with (ε, δ)-differential privacy. It needs JAX to fit.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee. δ should be well below 1/n.
    hidden_layer_sizes : sequence of int
        Width of each hidden layer; empty for softmax regression.
    activation : {"tanh", "relu"}
        Activation of the hidden layers.
    clip : float
        Every row's gradient is clipped to this length.
    clipping : {"flat", "per-layer", "automatic"}
        As for `FunctionLoss`.
    start : dict, optional
        Public or released starting weights, with the names and shapes of `weights_`.
    penalty : Regularizer, float or None
        A number is the strength of a ridge on all weights.
    domain : Domain or None
        Constraint set of the weights.
    solver : str or Solver
        "auto" is `DPAdam`; also dp-sgd, dp-gd, rrpsgd, dp-svrg and dp-spider.
    unit : str, optional
        Column identifying the privacy unit, e.g. "patient_id": all rows of a unit are protected together, and n is the
        number of units. By default each row is its own unit.
    max_rows_per_unit, contribution, missing_units
        As for `PrivateLogisticRegression`.
    classes, class_weight, adjacency, noise, accountant, n, schema, bounds, budget, weight_bound, private_weights
        As for `PrivateLogisticRegression`.
    n_jobs, random_state, verbose, row_warnings
        As for `PrivateLogisticRegression`. Entries should be of order 1: use a schema, or scale the columns by public
        numbers. Rows are not clipped.

    Attributes
    ----------
    weights_ : dict
        Released arrays by name: layer0/kernel, layer0/bias and so on.
    classes_, privacy_, event_
        As for `PrivateLogisticRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateMLPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20000, 3)); y = X[:, 0] * X[:, 1] > 0
    >>> model = PrivateMLPClassifier(epsilon=2.0, delta=1e-6, hidden_layer_sizes=(16,)).fit(X, y)
    >>> bool(model.score(X, y) > 0.85)
    True
    """

    kind = "mlp-classifier"
    title = "network classifier"
    own_parameters = (*NetworkClassifier.own_parameters, *_OWN)

    def to_sklearn(self) -> Any:
        """A plain scikit-learn `MLPClassifier` with the same weights, for rows like the fit's.

        With bounds it stands behind a step that scales rows as the fit did. With a schema of a table's columns it is
        alone, for rows as `encode` returns them.
        """
        from sklearn.neural_network import MLPClassifier  # not every user of dperm needs it
        from sklearn.preprocessing import LabelBinarizer

        plain = self._plain_layers(MLPClassifier(), "logistic" if len(self.classes_) == 2 else "softmax")
        plain.classes_, plain._label_binarizer = self.classes_, LabelBinarizer().fit(self.classes_)
        return behind_encoding(self, plain)


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateMLPRegressor(MLP, NetworkRegressor):
    """A network of fully connected layers for numbers, with (ε, δ)-differential privacy. It needs JAX to fit.

    Parameters
    ----------
    target_bound : float
        Targets are clipped to this size; with a schema the target's range is declared there.
    epsilon, delta, hidden_layer_sizes, activation, clip, clipping, start, penalty, domain, solver
        As for `PrivateMLPClassifier`.
    unit : str, optional
        Column identifying the privacy unit, e.g. "patient_id": all rows of a unit are protected together, and n is the
        number of units. By default each row is its own unit.
    max_rows_per_unit, contribution, missing_units
        As for `PrivateLogisticRegression`.
    adjacency, noise, accountant, n, schema, bounds, budget, weight_bound, private_weights
        As for `PrivateLinearRegression`.
    n_jobs, random_state, verbose, row_warnings
        As for `PrivateLinearRegression`.

    Attributes
    ----------
    weights_, privacy_, event_
        As for `PrivateMLPClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateMLPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20000, 2)); y = X[:, 0] * X[:, 1]
    >>> model = PrivateMLPRegressor(epsilon=2.0, delta=1e-6, hidden_layer_sizes=(16,)).fit(X, y)
    >>> bool(model.score(X, y) > 0.7)
    True
    """

    kind = "mlp-regressor"
    title = "network regression"
    own_parameters = (*NetworkRegressor.own_parameters, *_OWN)

    def to_sklearn(self) -> Any:
        """A plain scikit-learn `MLPRegressor` with the same weights, for rows like the fit's.

        It is the `regressor_` of a `TransformedTargetRegressor`, which keeps predictions in the target's range. With
        bounds it stands behind a step that scales rows as the fit did; with a schema of a table's columns it is for
        rows as `encode` returns them.
        """
        from sklearn.neural_network import MLPRegressor  # not every user of dperm needs it

        plain = self._plain_layers(MLPRegressor(), "identity")
        low, high = (-self._unit, self._unit) if self.schema_ is None else number_of(self.schema_).span
        plain.coefs_[-1] *= (high - low) / 2.0
        plain.intercepts_[-1] = plain.intercepts_[-1] * (high - low) / 2.0 + (high + low) / 2.0
        return self._within_range(behind_encoding(self, plain))
