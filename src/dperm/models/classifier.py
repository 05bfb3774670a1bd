"""What the classifiers share: declared classes, public class weights, prediction."""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dperm.errors import InvalidParameterError, NotForReleaseWarning
from dperm.models.base import Array, PrivateEstimator, Reading
from dperm.models.linear import PrivateGLM
from dperm.models.row_by_row import softmax
from dperm.models.weights import facts_of_weights, weights_of_rows, weights_of_table
from dperm.plan.fit_plan import Release
from dperm.plan.options import FitOptions
from dperm.privacy.caveats import Caveat
from dperm.problem import Problem
from dperm.problem.losses import Loss
from dperm.rows.arrays import ArraySource
from dperm.rows.dask_client import is_frame
from dperm.rows.encoding import check_table, label_numbers
from dperm.rows.labels import class_numbers, distinct_labels, read_table, read_target, weights_by_class
from dperm.rows.table import Table
from dperm.schema import Classes, Schema
from dperm.validation import positive


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """A classifier of declared classes; the concrete one names its problem and computes scores."""

    classes: Any = None
    class_weight: dict[Any, float] | None = None

    classes_: NDArray[Any] = field(init=False)

    target_kind = Classes
    own_parameters: ClassVar[tuple[str, ...]] = ("classes",)

    @abstractmethod
    def _problem_for(self, n_classes: int, weights: tuple[float, ...] | None) -> Problem:
        """What is minimised for this many classes, with these public weights."""

    @abstractmethod
    def decision_function(self, X: Any) -> Array:
        """Signed score per row for two classes, else one score per row and class."""

    def _check_schema(self, schema: Schema) -> None:
        super()._check_schema(schema)
        if self.classes is not None:
            raise InvalidParameterError("classes cannot be combined with a schema, which declares them.")

    def _move_target(self, column: str, y: Any) -> Classes:
        truth_values = getattr(getattr(y, "dtype", None), "kind", None) == "b"
        classes = (False, True) if self.classes is None and truth_values else self.classes
        if classes is None:
            raise InvalidParameterError("bounds requires declared classes: classes=[...].")
        self.classes = None
        return Classes(column, check_classes(classes))

    @property
    def _declared(self) -> tuple[Any, ...] | None:
        """The declared classes, None if they have to be read from y."""
        declared = self.classes if self.schema is None else self.schema.target.labels  # type: ignore[union-attr]
        return None if declared is None else check_classes(declared)

    def _problem(self) -> Problem:
        declared = self._declared
        if declared is None:  # planned for two classes, among them those with a weight
            named = check_class_weight(self.class_weight, tuple(self.class_weight or ()))
            return self._problem_for(2, None if named is None else (1.0, *named))
        return self._problem_for(len(declared), check_class_weight(self.class_weight, declared))

    def _read(
        self, X: Any, y: Any, options: FitOptions, sample_weight: Any = None, groups: Any = None
    ) -> Reading:  # fmt: skip
        said = facts_of_weights(self, sample_weight is not None)
        if options.schema is not None:
            classes = check_classes(self._declared)
            given = weights_of_table(self, X, sample_weight)
            source = Table.of(X).source(y, options.schema, given, check_class_weight(self.class_weight, classes))
            return Reading(source, options, {"classes": classes, **said})
        table = read_table(self, X, fitting=True)
        labels, given = read_target(self, y, table.shape[0]), weights_of_rows(self, sample_weight, table.shape[0])
        # Booleans declare their classes by their type.
        known = self._declared or ((False, True) if labels.dtype.kind == "b" else None)
        classes, facts = self._classes_of(labels) if known is None else (known, {"classes": known})
        weights = check_class_weight(self.class_weight, classes)
        numbers = class_numbers(labels, classes, majority=options.unit is None)
        source = ArraySource(
            table, 2 * numbers - 1 if len(classes) == 2 else numbers,
            given if weights is None else weights_by_class(numbers, weights, given), groups, options.unit,
        )  # fmt: skip
        if self._declared is None:
            options = replace(options, problem=self._problem_for(len(classes), weights))
        return Reading(source, options, facts | said)

    def _classes_of(self, labels: NDArray[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        warnings.warn(
            "the classes were read from y, which the guarantee does not cover; declare them: classes=[...].",
            NotForReleaseWarning,
            stacklevel=4,
        )
        classes = check_classes(distinct_labels(labels))
        return classes, {"classes": classes, "caveats": (Caveat.CLASSES_READ,)}

    def _keep(self, release: Release, problem: Problem, facts: dict[str, Any]) -> None:
        super()._keep(release, problem, facts)
        self.classes_ = np.asarray(self.privacy_.classes)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy. With a schema y may be the table's own target column, and rows of no declared class are left out.

        The score of sensitive rows is a fact about them, which no guarantee covers; use `private_evaluate`.
        """
        check_is_fitted(self, "privacy_")
        if self.schema_ is None:
            return float(super().score(X, y, sample_weight))
        check_table(X, y, self.schema_)
        truth = label_numbers(X, y, self.schema_)
        known = np.isfinite(truth)
        if not known.any():
            raise InvalidParameterError("no row has a declared class: nothing to score.")
        right = self.predict(X)[known] == self.classes_[truth[known].astype(int)]
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)[known]))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the highest score; of a Dask frame a Dask series, which is computed when it is needed."""
        if is_frame(X):
            return self._by_partition(X, self.classes_[:0])  # type: ignore[no-any-return]
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def __sklearn_tags__(self) -> Any:
        """Noise may lower the score on a small table."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class Probabilities(Classifier):
    """A classifier whose scores are log odds."""

    def predict_proba(self, X: Any) -> Array:
        """Probability of every class, one column per entry of `classes_`."""
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return softmax(scores)
        positive = expit(scores)
        return np.column_stack([1.0 - positive, positive])

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of the probability of every class, also where the probability itself is rounded to 0."""
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return np.asarray(log_softmax(scores, axis=1))
        return np.column_stack([log_expit(-scores), log_expit(scores)])


@dataclass(eq=False, repr=False, kw_only=True)
class LinearClassifier(Classifier, PrivateGLM):
    """A linear classifier; the concrete one names its loss."""

    @abstractmethod
    def _loss(self, n_classes: int) -> Loss:
        """The loss for this many classes."""

    def _problem_for(self, n_classes: int, weights: tuple[float, ...] | None) -> Problem:
        # Scores then vary by another law than curvatures say.
        if weights is not None and getattr(self, "intervals", False):
            raise InvalidParameterError("intervals cannot be combined with class_weight.")
        return self._problem_with(self._loss(n_classes), class_bound=max(weights) if weights else 1.0)

    def decision_function(self, X: Any) -> Array:
        """Signed score per row for two classes, else one score per row and class."""
        margins = self._margins(X)
        return margins[:, 0] if len(self.classes_) == 2 else margins


def check_classes(classes: Any) -> tuple[Any, ...]:
    """Read a declared list of classes, or raise."""
    try:
        labels = () if isinstance(classes, str) else tuple(getattr(classes, "tolist", lambda: classes)())
        different = len(set(labels)) == len(labels)
    except TypeError:
        labels, different = (), False
    if len({isinstance(label, str) for label in labels}) > 1:
        raise InvalidParameterError("classes must be all text or all numbers.")
    if len(labels) < 2 or not different:
        raise InvalidParameterError("classes must list at least two different labels; one class is not enough.")
    return labels


def balanced_weights(priors: Mapping[Any, float]) -> dict[Any, float]:
    """Class weights that balance classes of these public frequencies: 1/(K · frequency).

    As scikit-learn's "balanced", but from public frequencies (a census, a published table, a guess) instead of the
    rows. Frequencies counted in the rows are not public.

    Parameters
    ----------
    priors : dict
        The public frequency of every class; they add up to 1.

    Examples
    --------
    >>> from dperm import balanced_weights
    >>> balanced_weights({"no": 0.75, "yes": 0.25})
    {'no': 0.6666666666666666, 'yes': 2.0}
    """
    if not isinstance(priors, Mapping) or len(priors) < 2:
        raise InvalidParameterError("priors must be a dict from at least two classes to their public frequencies.")
    shares = {label: positive("a class's frequency", share) for label, share in priors.items()}
    if abs(sum(shares.values()) - 1.0) > 1e-6:
        raise InvalidParameterError("the frequencies of the classes must add up to 1.")
    return {label: 1.0 / (len(shares) * share) for label, share in shares.items()}


def check_class_weight(class_weight: Any, classes: tuple[Any, ...]) -> tuple[float, ...] | None:
    """Read public class weights, or raise; weights from the data would leak it."""
    if class_weight is None:
        return None
    if not isinstance(class_weight, dict):
        raise InvalidParameterError(
            "class_weight must be None or a dict from class to a public weight; "
            f"{class_weight!r} would have to be computed from the rows, and for classes of public frequencies "
            "dperm.balanced_weights({class: frequency}) gives weights that even them out."
        )
    unknown = set(class_weight) - set(classes)
    if unknown:
        raise InvalidParameterError("class_weight names an undeclared class.")
    return tuple(positive("class_weight", class_weight.get(label, 1.0)) for label in classes)
