"""diffprivlib's logistic regression (objective perturbation) or linear regression (functional mechanism), pure ε."""

from typing import Any

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression
from job import run


def fit(
    X: Any, y: Any, X_test: Any, *, epsilon: float, seed: int, inverse: float | None, target: list[float] | None
) -> Any:
    """Scores of the test rows for two classes, else predictions. Rows have norm at most 1 and hold a constant."""
    if target is not None:
        model = LinearRegression(
            epsilon=epsilon,
            bounds_X=(np.full(X.shape[1] - 1, -1.0), np.full(X.shape[1] - 1, 1.0)),
            bounds_y=tuple(target),
            random_state=seed,
        )
        unit = X[0, -1]  # it asks for bounds by column, and finds the constant itself
        return model.fit(X[:, :-1] / unit, y).predict(X_test[:, :-1] / unit)
    model = LogisticRegression(
        epsilon=epsilon, data_norm=1.0, C=inverse, fit_intercept=False, max_iter=1000, random_state=seed
    ).fit(X, y)
    return model.decision_function(X_test) if len(model.classes_) == 2 else model.predict(X_test)


if __name__ == "__main__":
    run(fit)
