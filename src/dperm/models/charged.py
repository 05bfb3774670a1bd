"""What all estimators of dperm's share: their fits cost privacy, and a search around them says how much."""

import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

from dperm.errors import SearchCostWarning


class Charged:
    """Mixin for estimators whose fits consume privacy budget: it has epsilon, delta and budget."""

    epsilon: float
    delta: float
    adjacency: str
    budget: Any

    def __sklearn_clone__(self) -> Any:
        """A search copies its estimator once, in its own process, before the first fit: that is when it is told."""
        frame = _search_of(self)
        if frame is not None:
            from dperm.models.search_cost import search_cost  # it names this class

            shape = getattr(frame.f_locals.get("X"), "shape", None)
            message = search_cost(frame.f_locals["self"], self, shape)
            warnings.warn(message, SearchCostWarning, stacklevel=_level_of_caller())
        return super().__sklearn_clone__()  # type: ignore[misc]

    def forget(self) -> None:
        """Drop an earlier fit, so that a failing one does not leave a mixture."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)


def has_budget(estimator: Any) -> bool:
    """Whether fits of it are charged to a budget."""
    return isinstance(estimator, Charged) and estimator.budget is not None


def _search_of(estimator: Charged) -> FrameType | None:
    """Where a search of scikit-learn's is copying this estimator, its own one, right now; None if there is none.

    What it fits are copies of that copy, so it is told once. Of several estimators in it the first is told.
    """
    # Anyone who searches has imported it; nobody else needs to wait for that.
    searches = sys.modules.get("sklearn.model_selection._search")
    if estimator.budget is None or searches is None:
        return None
    for frame in _frames():
        search = frame.f_locals.get("self") if frame.f_code.co_name == "fit" else None
        if isinstance(search, searches.BaseSearchCV) and not type(search).__module__.startswith("dperm."):
            held = [search.estimator, *search.estimator.get_params(deep=True).values()]
            with_budget = [part for part in held if has_budget(part)]
            return frame if with_budget and with_budget[0] is estimator else None
    return None


def _level_of_caller() -> int:
    """For a warning: how far up the first line is that is not scikit-learn's."""
    for level, frame in enumerate(_frames(), start=1):
        if not str(frame.f_globals.get("__name__")).startswith(("sklearn.", "dperm.")):
            return level
    return 1


def _frames() -> Iterator[FrameType]:
    """`__sklearn_clone__`, who called that, and so on."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back
