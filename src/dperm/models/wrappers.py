"""What wrappers of scikit-learn do with the estimators in them: how often each is fitted, and what is read besides."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from sklearn.model_selection import ParameterGrid

from dperm.models.charged import Charged
from dperm.models.steps import is_nothing, is_public, name_in_sklearn

CLASS_LIST = "the list of classes, read from y"
_ROW_COUNTS = "how many rows each class has"
# Parts of wrappers that stand for an estimator of scikit-learn's own where none is named.
_HAVE_DEFAULTS = ("estimator", "final_estimator", "regressor")


class Child(NamedTuple):
    """A part of a wrapper, and how often one fit of the wrapper fits it; None where parameters do not tell."""

    name: str
    estimator: Any
    times: int | None


class Wrapped(NamedTuple):
    """The parts of a wrapper, and what it computes from rows without noise."""

    children: tuple[Child, ...]
    not_covered: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """An estimator somewhere in another.

    Attributes
    ----------
    name : str
        Where, as in `get_params`; empty for the whole.
    estimator : estimator
        The step.
    kind : {"private", "public", "wrapper", "looks"}
        With noise; learning nothing from rows; holding others; or learning without noise.
    fits : int or None
        How often it is fitted in all; None where that cannot be told in advance.
    not_covered : tuple of str
        What it computes from rows that no noise is added to.
    """

    name: str
    estimator: Any
    kind: str
    fits: int | None
    not_covered: tuple[str, ...] = ()


def walk(estimator: Any, name: str = "", fits: int | None = 1) -> Iterator[Step]:
    """Every step of an estimator, itself first.

    Parameters
    ----------
    estimator : estimator
        Anything with scikit-learn's interface.
    name : str
        Where it is.
    fits : int or None
        How often it is fitted.
    """
    if isinstance(estimator, Charged):
        yield Step(name, estimator, "private", fits, own_gaps(estimator))
        return
    if is_public(estimator):
        if not is_nothing(estimator):
            yield Step(name, estimator, "public", fits)
        return
    kind = name_in_sklearn(estimator)
    if kind in _WRAPPERS:
        wrapped = _WRAPPERS[kind](estimator)
        yield Step(name, estimator, "wrapper", fits, wrapped.not_covered)
    else:
        wrapped = Wrapped(tuple(Child(part, value, None) for part, value in _estimators_in(estimator)))
        yield Step(name, estimator, "looks", fits, ("what it learns from the rows",))
    for child in wrapped.children:
        times = None if fits is None or child.times is None else fits * child.times
        place = f"{name}__{child.name}" if name else child.name
        if child.estimator is None and child.name in _HAVE_DEFAULTS:
            yield Step(place, None, "looks", times, ("what scikit-learn's default for it learns: name a private one",))
        elif times != 0:
            yield from walk(child.estimator, place, times)


def own_gaps(estimator: Any) -> tuple[str, ...]:
    """What keeps a fit of an estimator of dperm's from being released."""
    gaps = []
    if getattr(estimator, "noise", "certified") != "certified":
        gaps.append(f"anything: noise={estimator.noise!r}")
    if estimator.random_state is not None:
        gaps.append("anything: it is seeded")
    if hasattr(estimator, "classes") and estimator.classes is None and estimator.schema is None:
        gaps.append(f"{CLASS_LIST}: declare classes=[…]")
    if estimator.adjacency == "add_remove" and estimator.n is None and getattr(estimator, "schema", None) is None:
        gaps.append("the number of rows: declare n")
    elif getattr(estimator, "missing_units", None) == "ignore" and estimator.n is None:
        gaps.append("the number of units: declare n")
    return tuple(gaps)


def folds_of(cv: Any) -> int | None:
    """How many folds there are, None where that depends on the table."""
    if cv is None:
        return 5
    if isinstance(cv, int):
        return cv
    if hasattr(cv, "get_n_splits"):
        try:
            return int(cv.get_n_splits())
        except (TypeError, ValueError):  # it wants the rows
            return None
    return len(cv) if hasattr(cv, "__len__") else None


def _estimators_in(estimator: Any) -> Iterator[tuple[str, Any]]:
    values = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    return ((name, value) for name, value in values.items() if hasattr(value, "fit") and not isinstance(value, type))


def _named(parts: Any, times: int | None) -> tuple[Child, ...]:
    return tuple(Child(part[0], part[1], times) for part in parts)


def _one(estimator: Any, times: int | None) -> tuple[Child, ...]:
    return (Child("estimator", estimator.estimator, times),)


def _calibrated(wrapper: Any) -> Wrapped:
    folds = folds_of(wrapper.cv)
    times = folds if folds is None or wrapper.ensemble else folds + 1
    return Wrapped(_one(wrapper, times), ("the calibration map", CLASS_LIST))


def _bagging(wrapper: Any) -> Wrapped:
    gaps = ["anything: it seeds every member, and seeded fits are not private"]
    if name_in_sklearn(wrapper) == "BaggingClassifier":
        gaps.append(CLASS_LIST)
    if wrapper.bootstrap:
        gaps.append("rows drawn several times: the guarantee covers one copy (bootstrap=False)")
    if wrapper.oob_score:
        gaps.append("the out-of-bag score")
    return Wrapped(_one(wrapper, wrapper.n_estimators), tuple(gaps))


def _stacking(wrapper: Any) -> Wrapped:
    folds = -1 if isinstance(wrapper.cv, str) else folds_of(wrapper.cv)  # "prefit": none, and not on all rows either
    members = _named(wrapper.estimators, None if folds is None else folds + 1)
    return Wrapped((*members, Child("final_estimator", wrapper.final_estimator, 1)))


def _with_classes(wrap: Callable[[Any], Wrapped], *more: str) -> Callable[[Any], Wrapped]:
    def wrapped(wrapper: Any) -> Wrapped:
        children, gaps = wrap(wrapper)
        return Wrapped(children, (*gaps, CLASS_LIST, *more))

    return wrapped


def _voting(wrapper: Any) -> Wrapped:
    return Wrapped(_named(wrapper.estimators, 1))


def _per_target(wrapper: Any) -> Wrapped:
    return Wrapped(_one(wrapper, None))


def _search(wrapper: Any) -> Wrapped:
    gaps = ("scores on validation rows", "the choice based on them")
    candidates, folds = _candidates(wrapper), folds_of(wrapper.cv)
    times = None if candidates is None or folds is None else candidates * folds + bool(wrapper.refit)
    return Wrapped(_one(wrapper, times), gaps)


def _candidates(search: Any) -> int | None:
    """How many combinations a search tries; None where that depends on the table, as when it halves."""
    kind = name_in_sklearn(search)
    if kind == "GridSearchCV":
        return len(ParameterGrid(search.param_grid))
    return int(search.n_iter) if kind == "RandomizedSearchCV" else None


def _target(wrapper: Any) -> Wrapped:
    return Wrapped((Child("regressor", wrapper.regressor, 1), Child("transformer", wrapper.transformer, 1)))


_WRAPPERS: dict[str | None, Callable[[Any], Wrapped]] = {
    "Pipeline": lambda wrapper: Wrapped(_named(wrapper.steps, 1)),
    "ColumnTransformer": lambda wrapper: Wrapped(
        (*_named(wrapper.transformers, 1), Child("remainder", wrapper.remainder, 1))
    ),
    "FeatureUnion": lambda wrapper: Wrapped(_named(wrapper.transformer_list, 1)),
    "CalibratedClassifierCV": _calibrated,
    "BaggingClassifier": _bagging,
    "BaggingRegressor": _bagging,
    "VotingClassifier": _with_classes(_voting),
    "VotingRegressor": _voting,
    "StackingClassifier": _with_classes(_stacking),
    "StackingRegressor": _stacking,
    "MultiOutputClassifier": _per_target,
    "MultiOutputRegressor": _per_target,
    "ClassifierChain": _per_target,
    "RegressorChain": _per_target,
    "OneVsRestClassifier": _with_classes(_per_target),
    "OneVsOneClassifier": _with_classes(_per_target, _ROW_COUNTS),
    "OutputCodeClassifier": _with_classes(_per_target),
    "TransformedTargetRegressor": _target,
    "SelectFromModel": lambda wrapper: Wrapped(_one(wrapper, 1)),
    "FrozenEstimator": lambda wrapper: Wrapped(()),
    "GridSearchCV": _search,
    "RandomizedSearchCV": _search,
    "HalvingGridSearchCV": _search,
    "HalvingRandomSearchCV": _search,
}
