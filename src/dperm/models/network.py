"""What models of any differentiable function share: clipped gradients, weights by name."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dperm.errors import InvalidParameterError
from dperm.models.base import Array, PrivateEstimator, n_scores
from dperm.models.classifier import Classifier, Probabilities
from dperm.models.linear import read_penalty
from dperm.models.regressor import Regressor, number_of
from dperm.plan.fit_plan import Release
from dperm.problem import Problem
from dperm.problem.domains import Domain, WholeSpace
from dperm.problem.losses import FunctionLoss
from dperm.problem.regularizers import Regularizer
from dperm.validation import positive


@dataclass(frozen=True)
class CrossEntropy:
    """The loss of a classifier: model(params, x) gives one score per class, or one in all for two classes."""

    model: Callable[[Any, Any], Any]
    n_classes: int

    def __call__(self, params: Any, x: Any, y: Any) -> Any:
        """−log of the probability of the row's class."""
        import jax
        import jax.numpy as jnp

        scores = jnp.ravel(self.model(params, x))
        if self.n_classes == 2 and scores.size == 1:
            return jax.nn.softplus(jnp.where(y > 0, -scores[0], scores[0]))
        if scores.size != self.n_classes:
            raise InvalidParameterError(
                f"the model must return one score for each of {self.n_classes} classes; it returns {scores.size}."
            )
        return jax.nn.logsumexp(scores) - scores[y]


@dataclass(frozen=True)
class HalfSquare:
    """The loss of a regressor: half the squared distance to the target, in units of its bound."""

    model: Callable[[Any, Any], Any]
    target_bound: float

    def __call__(self, params: Any, x: Any, y: Any) -> Any:
        """½(model(params, x) − y/bound)²."""
        import jax.numpy as jnp

        predicted = jnp.ravel(self.model(params, x))
        if predicted.size != 1:
            raise InvalidParameterError(f"the model must return one number; it returns {predicted.size}.")
        return 0.5 * jnp.square(predicted[0] - y / self.target_bound)


@dataclass(eq=False, repr=False, kw_only=True)
class Network(PrivateEstimator):
    """A model of a function whose gradients are clipped row by row."""

    penalty: Regularizer | float | None = None
    domain: Domain | None = None
    clip: float = 1.0
    clipping: str = "flat"

    weights_: dict[str, Array] = field(init=False)

    @abstractmethod
    def _model(self, n_outputs: int) -> Callable[[Any, Any], Any]:
        """The function of parameters and a row that gives scores, or the prediction."""

    @abstractmethod
    def _start(self, n_outputs: int) -> Any:
        """Its parameters at the start, or a function of the number of columns that makes them."""

    @abstractmethod
    def _outputs(self, X: Any) -> Array:
        """What the fitted model gives for rows, one column per output."""

    def _problem_with(
        self, function: Callable[..., Any], n_outputs: int, class_bound: float = 1.0, **target: Any
    ) -> Problem:  # fmt: skip
        loss = FunctionLoss(function, self._start(n_outputs), clip=self.clip, clipping=self.clipping, **target)
        if isinstance(self.penalty, str):
            raise InvalidParameterError(f"no rule gives the strength of a penalty on a {self.title}: give a number.")
        domain = WholeSpace() if self.domain is None else self.domain
        weight_bound = class_bound * positive("weight_bound", self.weight_bound)
        return Problem(loss, read_penalty(self.penalty), domain, weight_bound=weight_bound)

    def _keep_coefficients(self, release: Release, problem: Problem) -> None:
        loss: FunctionLoss = problem.loss  # type: ignore[assignment]
        self.weights_ = {leaf.name: array for leaf, array in zip(loss.leaves, loss.arrays(release.w), strict=True)}

    def released_numbers(self) -> dict[str, Any]:
        """The arrays by name."""
        return {"weights": {name: array.tolist() for name, array in self.weights_.items()}}

    def take_numbers(self, content: dict[str, Any], n_columns: int) -> None:
        """The arrays by name."""
        self.weights_ = {
            name: np.asarray(values, dtype=np.float64) for name, values in dict(content["weights"]).items()
        }
        if not self.weights_ or not all(np.isfinite(array).all() for array in self.weights_.values()):
            raise ValueError("weights")


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkClassifier(Probabilities, Network, Classifier):
    """A classifier; its scores are log odds, up to a number that all classes share."""

    def _problem_for(self, n_classes: int, weights: tuple[float, ...] | None) -> Problem:
        n_outputs = n_scores(n_classes)
        function = CrossEntropy(self._model(n_outputs), n_classes)
        return self._problem_with(function, n_outputs, max(weights) if weights else 1.0, n_classes=n_classes)

    def decision_function(self, X: Any) -> Array:
        """Signed score per row for two classes, else one score per row and class."""
        scores = self._outputs(X)
        if len(self.classes_) > 2:
            return scores
        return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkRegressor(Network, Regressor):
    """A predictor of a number."""

    centre = "something between the median and the mean, as gradients of far rows are clipped"

    def _problem(self) -> Problem:
        bound = positive("target_bound", self._bound)
        return self._problem_with(HalfSquare(self._model(1), bound), 1, target_bound=bound)

    def _predicted(self, X: Any) -> Array:
        predicted = self._outputs(X)[:, 0]
        if self.schema_ is None:
            return self._unit * predicted
        low, high = number_of(self.schema_).span
        return low + (high - low) * (predicted + 1.0) / 2.0

    @property
    def _unit(self) -> float:
        """What the model's output is multiplied by without a schema; a file says it in its statement."""
        declared = self.privacy_.target_range
        return 1.0 if declared is None else float(declared[1])
