"""The candidates of a search: models that differ in anything but the promise, and what each of them loses on a row."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from dperm.errors import DpermError, InvalidParameterError
from dperm.kernel.units import Membership
from dperm.models.apart import (
    log_losses,
    plain_labels,
    plain_numbers,
    squared_errors,
    squared_errors_of_classes,
    true_numbers,
    true_places,
    wrong,
)
from dperm.models.base import Array, PrivateEstimator
from dperm.models.classifier import Classifier
from dperm.models.regressor import Regressor, number_of
from dperm.models.units import protected_unit, schema_with_unit, split_groups
from dperm.plan.fit_plan import FitPlan
from dperm.privacy.guarantee import Guarantee
from dperm.rows.ids import membership_of, membership_of_array
from dperm.rows.table import in_memory
from dperm.solvers import Solver
from dperm.validation import one_of

# What a row can cost, and how the statement says it.
SCORES = {"accuracy": "wrong classes", "log_loss": "log loss (clipped)", "squared_error": "squared error"}

# More take hours, and mean that a grid was not meant.
MOST_CANDIDATES = 10_000

# What belongs to the search and not to one of its candidates.
_OF_THE_SEARCH = ("epsilon", "delta", "n", "budget", "random_state", "noise", "accountant", "adjacency")


class Candidates:
    """Checked candidates, by place.

    Parameters
    ----------
    models : sequence of estimators
        What may win. None of them is changed.
    params : sequence of dict
        What distinguishes each, for messages and `best_params_`.
    adjacency : str
        That of the search.
    scoring : str
        "auto" or one of `SCORES`.
    """

    def __init__(
        self, models: Sequence[PrivateEstimator], params: Sequence[dict[str, Any]], adjacency: str, scoring: str
    ) -> None:
        self.models, self.params, self.adjacency = list(models), list(params), adjacency
        for place, model in enumerate(self.models):
            _check_alone(model, adjacency, self.name(place))
        first = self.models[0]
        if {isinstance(model, Classifier) for model in self.models} != {isinstance(first, Classifier)}:
            raise InvalidParameterError("all candidates must be classifiers, or none.")
        if len({model.schema is None for model in self.models}) > 1:
            raise InvalidParameterError("all candidates must have a schema, or none.")
        targets = {_target(model) for model in self.models}
        if len(targets) > 1:
            raise InvalidParameterError("all candidates must predict the same target, with the same classes or range.")
        units = {protected_unit(model) for model in self.models}
        if len(units) > 1:
            raise InvalidParameterError("all candidates must have the same privacy unit: rows are split by it once.")
        (self.unit,) = units
        if self.unit is not None and len({model.schema and model.schema.missing for model in self.models}) > 1:
            raise InvalidParameterError(
                "all candidates must read ids the same way: use the same missing in their schemas."
            )
        self.score = self._score(scoring)

    def _score(self, scoring: str) -> str:
        kinds = tuple(SCORES) if self.classify else ("squared_error",)
        able = all(hasattr(model, "predict_proba") for model in self.models)
        if scoring == "auto":
            return "squared_error" if able or not self.classify else "accuracy"
        if one_of("scoring", scoring, ("auto", *kinds)) != "accuracy" and self.classify and not able:
            raise InvalidParameterError(
                f"{scoring!r} needs probabilities, which a candidate does not provide: use 'accuracy'."
            )
        return scoring

    def __len__(self) -> int:
        """How many there are."""
        return len(self.models)

    def name(self, place: int) -> str:
        """A candidate in words."""
        told = ", ".join(f"{key}={value!r}" for key, value in self.params[place].items())
        return f"candidate {place} ({told or type(self.models[place]).__name__})"

    @property
    def classify(self) -> bool:
        """Whether classes are predicted."""
        return isinstance(self.models[0], Classifier)

    def declared_n(self, n: int | None) -> int | None:
        """The public number of rows, where one was declared; two that differ raise."""
        found = {n, *(None if model.schema is None else model.schema.n for model in self.models)} - {None}
        if len(found) > 1:
            raise InvalidParameterError(f"n is declared as {' and as '.join(map(str, sorted(found)))}: leave one out.")  # type: ignore[type-var]
        return next(iter(found), None)

    def with_classes(self, y: Any) -> None:
        """Booleans declare their classes by their type; other classes must be declared."""
        for model in self.models:
            if isinstance(model, Classifier) and model._declared is None:
                if getattr(getattr(y, "dtype", None), "kind", None) != "b":
                    raise InvalidParameterError(
                        "a search requires declared classes (classes=[...] or a schema): one part of the table need "
                        "not contain all of them."
                    )
                model.classes = [False, True]

    def in_memory(self, X: Any) -> Any:
        """The table, with all columns that candidates name."""
        schemas = [schema for model in self.models if (schema := schema_with_unit(model)) is not None]
        return in_memory(X, schemas)

    def split_groups(self, X: Any, groups: Any) -> tuple[Any, Any]:
        """The table and the ids of units, which are a column of it or stand beside it."""
        return split_groups(self.models[0], X, groups)

    def membership(self, X: Any, groups: Any, n_rows: int) -> Membership | None:
        """The unit of every row; None where each row is its own unit."""
        schema = schema_with_unit(self.models[0])
        return membership_of_array(groups, n_rows, self.unit) if schema is None else membership_of(X, schema)

    def check_table(self, X: Any, y: Any, groups: Any = None) -> None:
        """Raise if the table or the target is not what a candidate takes, as its own fit would."""
        for place in range(len(self)):
            self._named(place, lambda one: one._read(X, y, one.options(), groups=groups))

    def plain_target(self, y: Any) -> Any:
        """The target in a form that means the same in every part of the table; the table's own if there is a schema."""
        model = self.models[0]
        if model.schema is not None:
            return y
        majority = self.unit is None
        if isinstance(model, Classifier):
            return plain_labels(y, model._declared or (), majority)
        return plain_numbers(y, majority)

    def _named(self, place: int, done: Callable[[PrivateEstimator], Any]) -> Any:
        """What a copy of a candidate gives; what it refuses is said of it by name."""
        try:
            return done(clone(self.models[place]))
        except DpermError as error:
            reason = type(error)(f"{self.name(place)}: {error}")
        raise reason

    def built(
        self, place: int, guarantee: Guarantee, n: int | None, random_state: Any = None, chosen: Solver | None = None
    ) -> PrivateEstimator:  # fmt: skip
        """A fresh model for one fit, with the solver that was chosen for it where that is left to a rule."""
        model: PrivateEstimator = clone(self.models[place])
        if chosen is not None and model.solver == "auto":
            model.set_params(solver=chosen)
        model.set_params(
            epsilon=guarantee.epsilon, delta=guarantee.delta, adjacency=self.adjacency, n=n, random_state=random_state
        )
        return model

    def plan(
        self, place: int, guarantee: Guarantee, n: int, n_features: int | None, chosen: Solver | None = None
    ) -> FitPlan:  # fmt: skip
        """The fit of one candidate; `chosen` as of `built`."""

        def planned(_: PrivateEstimator) -> FitPlan:
            return self.built(place, guarantee, n, chosen=chosen).options().plan(n, n_features)

        plan: FitPlan = self._named(place, planned)
        return plan

    def chosen_solver(self, place: int, guarantee: Guarantee, n: int, n_features: int | None) -> Solver:
        """The solver of one candidate's fit."""
        solver: Solver = self._named(
            place, lambda _: self.built(place, guarantee, n).options().chosen_solver(n, n_features)
        )
        return solver

    def losses(self, model: PrivateEstimator, rows: tuple[Any, Any]) -> Array:
        """What a fitted model loses on each held-out row, between 0 and 1: for the oracle alone."""
        schema = model.schema_
        if isinstance(model, Classifier):
            places = true_places(rows, schema, model._declared or ())
            if self.score == "accuracy":
                return wrong(model.decision_function(rows[0]), places)  # type: ignore[attr-defined]
            probabilities = model.predict_proba(rows[0])  # type: ignore[attr-defined]
            return (log_losses if self.score == "log_loss" else squared_errors_of_classes)(probabilities, places)
        low, high = _target(model)
        return squared_errors(np.asarray(model.predict(rows[0])), true_numbers(rows, schema), low, high)  # type: ignore[attr-defined]


def read_candidates(
    estimator: Any, param_grid: Any, candidates: Any, adjacency: str, scoring: str
) -> Candidates:  # fmt: skip
    """What a search is to choose from: a grid of one estimator's parameters, or a list of estimators."""
    if (candidates is None) == (param_grid is None):
        raise InvalidParameterError("pass an estimator with a param_grid, or a list of candidates.")
    if candidates is not None:
        if estimator is not None:
            raise InvalidParameterError("estimator cannot be combined with a list of candidates.")
        if not isinstance(candidates, list | tuple):
            raise InvalidParameterError(f"candidates must be a list of estimators, got {type(candidates).__name__}.")
        models = list(candidates)
        params: list[dict[str, Any]] = [{} for _ in models]
    else:
        _check_estimator(estimator)
        params = _points(param_grid)
        models = [_with(estimator, point) for point in params]
    if not models:
        raise InvalidParameterError("the grid or the list of candidates is empty.")
    if len(models) > MOST_CANDIDATES:
        raise InvalidParameterError(f"{len(models)} candidates are more than {MOST_CANDIDATES}.")
    for model in models:
        _check_estimator(model)
    return Candidates([clone(model) for model in models], params, adjacency, scoring)


def _points(param_grid: Any) -> list[dict[str, Any]]:
    """The points of a grid, as in scikit-learn; no message shows more than names."""
    grids = [param_grid] if isinstance(param_grid, Mapping) else param_grid
    if not isinstance(grids, Sequence) or not all(isinstance(grid, Mapping) for grid in grids):
        raise InvalidParameterError(
            "param_grid must be a dict from a parameter to a list of values, or a list of dicts."
        )
    for grid in grids:
        for name, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
                raise InvalidParameterError(f"param_grid[{name!r}] must be a list of at least one value.")
            if name in _OF_THE_SEARCH:
                raise InvalidParameterError(f"{name!r} belongs to the search and cannot vary between candidates.")
    return [dict(point) for grid in grids if grid for point in ParameterGrid(dict(grid))]


def _with(estimator: PrivateEstimator, point: dict[str, Any]) -> PrivateEstimator:
    known = estimator.get_params()
    for name in point:
        if name not in known:
            raise InvalidParameterError(f"{name!r} is no parameter of {type(estimator).__name__}.")
    changed: PrivateEstimator = clone(estimator)
    changed.set_params(**{name: clone(value, safe=False) for name, value in point.items()})
    return changed


def _check_estimator(model: Any) -> None:
    if not isinstance(model, PrivateEstimator):
        raise InvalidParameterError(f"a candidate must be an estimator of dperm, got {type(model).__name__}.")


def _check_alone(model: PrivateEstimator, adjacency: str, name: str) -> None:
    """What belongs to the search must not be said by a candidate."""
    if model.budget is not None or model.random_state is not None or model.n is not None:
        raise InvalidParameterError(f"{name}: budget, random_state and n belong to the search, not to a candidate.")
    if model.noise != "certified" or model.accountant != "pld":
        raise InvalidParameterError(f"{name}: a search requires certified noise and the accountant 'pld'.")
    if model.bounds is not None:
        raise InvalidParameterError(
            "PrivateSearch does not support bounds: pass a schema, such as schema_ of a fit with these bounds."
        )
    if model.adjacency not in (adjacency, type(model).adjacency):
        raise InvalidParameterError(
            f"{name}: its adjacency is {model.adjacency!r} and that of the search {adjacency!r}."
        )


def _target(model: PrivateEstimator) -> Any:
    """What is predicted, in public words: classes, or a range."""
    if isinstance(model, Classifier):
        return model._declared
    if not isinstance(model, Regressor):
        raise InvalidParameterError(f"a search cannot score {type(model).__name__}.")
    if model.schema is None:
        return -model.target_bound, model.target_bound
    try:
        return number_of(model.schema).bounds
    except InvalidParameterError:
        raise
    except (TypeError, ValueError, AttributeError):
        raise InvalidParameterError(
            "a search needs a target whose range is declared, not one found privately."
        ) from None
