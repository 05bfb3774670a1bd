"""What the two classifiers share: declared classes, public class weights, prediction."""

import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dperm.errors import InvalidParameter, NotForReleaseWarning
from dperm.estimators.base import PrivateLinearModel, check_class_weight, check_classes
from dperm.planning.fitting import check_schema
from dperm.problem import Problem
from dperm.problem.losses import Loss
from dperm.schema import Classes, Schema
from dperm.trusted.sources import ArraySource, TableSource
from dperm.trusted.sources.encoding import check_table, label_numbers
from dperm.trusted.sources.labels import class_numbers, distinct_labels, read_table, read_target, weights_by_class

Array = NDArray[np.float64]


class PrivateClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear classifier; the concrete one names its loss."""

    classes: Any
    class_weight: Any
    classes_: NDArray[Any]

    @abstractmethod
    def _loss(self, n_classes: int) -> Loss:
        """The loss for this many classes."""

    def check_parameters(self) -> None:
        """Raise if a parameter is wrong: the first line of a fit, before any row is read."""
        if self.schema is not None and not isinstance(check_schema(self.schema).target, Classes):
            raise InvalidParameter("a classifier needs a schema whose target has classes; this one's has a range.")
        if self.schema is not None and self.classes is not None:
            raise InvalidParameter("with a schema the classes are its target's: declare them there and nowhere else.")
        super().check_parameters()

    @property
    def _declared(self) -> Any:
        return self.classes if self.schema is None else self.schema.target.labels  # type: ignore[union-attr]

    def _planned_problem(self) -> Problem:
        if self._declared is None:
            named = check_class_weight(self.class_weight, tuple(self.class_weight or ()))
            return self._problem_for(2, None if named is None else (1.0, *named))
        classes = check_classes(self._declared)
        return self._problem_for(len(classes), check_class_weight(self.class_weight, classes))

    def _problem_for(self, n_classes: int, weights: tuple[float, ...] | None) -> Problem:
        return self._problem(self._loss(n_classes), max(weights) if weights else 1.0)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit on sensitive rows and keep only what may be released.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (rows, columns)
            Rows are clipped to `row_norm`; one with a value that is not finite counts as nothing. With a schema, a
            pandas, polars or Arrow table.
        y : array of shape (rows,)
            Labels; one that is not among `classes` makes its row count as nothing. With a schema by default the table's
            own target column.

        Returns
        -------
        self
        """
        self.check_parameters()
        declared = None if self._declared is None else check_classes(self._declared)
        self.check_room(X)
        self._forget()
        if self.schema is not None and declared is not None:
            return self._fit_table(X, y, self.schema, declared)
        table = read_table(self, X, fitting=True)
        labels = read_target(self, y, table.shape[0])
        # Truth values declare their classes by their type.
        classes = declared or ((False, True) if labels.dtype.kind == "b" else None)
        caveats: tuple[str, ...] = ()
        if classes is None:
            warnings.warn(
                "the classes were read from y, which the guarantee does not cover; declare them: classes=[...].",
                NotForReleaseWarning,
                stacklevel=2,
            )
            classes = check_classes(distinct_labels(labels))
            caveats = ("the classes were read from the rows",)
        weights = check_class_weight(self.class_weight, classes)
        problem = self._problem_for(len(classes), weights)
        numbers = class_numbers(labels, classes)
        target = 2 * numbers - 1 if len(classes) == 2 else numbers
        row_weights = None if weights is None else weights_by_class(numbers, weights)
        release = self._fit(problem, ArraySource(table, target, row_weights))
        self._keep(release, problem, classes=classes, caveats=(*release.privacy.caveats, *caveats))
        self.classes_ = np.asarray(classes)
        self._settle(release)
        return self

    def _fit_table(self, X: Any, y: Any, schema: Schema, classes: tuple[Any, ...]) -> Self:
        problem, weights = self._planned_problem(), check_class_weight(self.class_weight, classes)
        release = self._fit(problem, TableSource(X, y, schema, weights))
        self._keep(release, problem, classes=classes)
        self.classes_ = np.asarray(classes)
        self._settle(release)
        return self

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy. With a schema y may be the table's own target column, and rows of no declared class are left out.

        The score of sensitive rows is a fact about them, which no guarantee covers.
        """
        check_is_fitted(self, "coef_")
        if self.schema_ is None:
            return float(super().score(X, y, sample_weight))
        check_table(X, y, self.schema_)
        truth = label_numbers(X, y, self.schema_)
        known = np.isfinite(truth)
        if not known.any():
            raise InvalidParameter("no row has one of the declared classes, so there is nothing to score.")
        right = self.predict(X)[known] == self.classes_[truth[known].astype(int)]
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight)[known]))

    def decision_function(self, X: Any) -> Array:
        """Signed score per row for two classes, else one score per row and class."""
        margins = self._margins(X)
        return margins[:, 0] if len(self.classes_) == 2 else margins

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the highest score."""
        scores = self.decision_function(X)
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def __sklearn_tags__(self) -> Any:
        """Noise may spoil the score on a small table."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags
