"""What the two classifiers share: declared classes, public class weights, prediction."""

import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from dperm.errors import NotForReleaseWarning
from dperm.estimators.base import PrivateLinearModel, check_class_weight, check_classes
from dperm.losses import Loss
from dperm.problem import Problem
from dperm.trusted.rows import class_numbers, distinct_labels, read_table, read_target, weights_by_class

Array = NDArray[np.float64]


class PrivateClassifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear classifier; the concrete one names its loss."""

    classes: Any
    class_weight: Any
    classes_: NDArray[Any]

    @abstractmethod
    def _loss(self, n_classes: int) -> Loss:
        """The loss for this many classes."""

    def _planned_problem(self) -> Problem:
        if self.classes is None:
            named = check_class_weight(self.class_weight, tuple(self.class_weight or ()))
            return self._problem_for(2, None if named is None else (1.0, *named))
        classes = check_classes(self.classes)
        return self._problem_for(len(classes), check_class_weight(self.class_weight, classes))

    def _problem_for(self, n_classes: int, weights: tuple[float, ...] | None) -> Problem:
        return self._problem(self._loss(n_classes), max(weights) if weights else 1.0)

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on sensitive rows and keep only what may be released.

        Parameters
        ----------
        X : array, data frame or CSR matrix of shape (rows, columns)
            Rows are clipped to `row_norm`; one with a value that is not finite counts as nothing.
        y : array of shape (rows,)
            Labels; one that is not among `classes` makes its row count as nothing.

        Returns
        -------
        self
        """
        self.check_parameters()
        declared = None if self.classes is None else check_classes(self.classes)
        self._forget()
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
        release = self._fit(
            problem, table, 2 * numbers - 1 if len(classes) == 2 else numbers,
            None if weights is None else weights_by_class(numbers, weights),
        )  # fmt: skip
        self._keep(release, problem, classes=classes, caveats=(*release.privacy.caveats, *caveats))
        self.classes_ = np.asarray(classes)
        return self

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
