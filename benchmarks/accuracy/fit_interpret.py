"""DP-EBM: interpret's private boosting of one-column trees, at its defaults, told types and ranges."""

from typing import Any

from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
from job import run


def fit(
    X: Any, y: Any, X_test: Any, *, epsilon: float, delta: float, seed: int,
    kinds: list[str], bounds: list[list[float]], target: list[float] | None,
) -> Any:  # fmt: skip
    """Scores of the test rows for two classes, and predictions in a regression."""
    options = {
        "epsilon": epsilon,
        "delta": delta,
        "random_state": seed,
        "n_jobs": 1,
        "feature_types": kinds,
        "privacy_bounds": {place: tuple(bound) for place, bound in enumerate(bounds) if bound},
    }
    if target is None:
        return DPExplainableBoostingClassifier(**options).fit(X, y).predict_proba(X_test)[:, 1]
    low, high = target
    model = DPExplainableBoostingRegressor(privacy_target_min=low, privacy_target_max=high, **options)
    return model.fit(X, y.clip(low, high)).predict(X_test)


if __name__ == "__main__":
    run(fit)
