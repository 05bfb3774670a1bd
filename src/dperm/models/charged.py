"""What all estimators of dperm's share: their fits cost privacy."""

from typing import Any


class Charged:
    """Mixin for estimators whose fits consume privacy budget: it has epsilon, delta and budget.

    Whatever wraps one, such as a scikit-learn search, has every fit charged; `check_pipeline` says beforehand how many
    there are.
    """

    epsilon: float
    delta: float
    adjacency: str
    budget: Any

    def forget(self) -> None:
        """Drop an earlier fit, so that a failing one does not leave a mixture."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
