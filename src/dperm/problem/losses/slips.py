"""Slips in the declared bounds of a loss of one's own, found on a grid: some of them, without proof. No row is seen."""

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError

if TYPE_CHECKING:
    from dperm.problem.losses.base import Loss

Array = NDArray[np.float64]


def check_bounds(loss: "Loss", margin_bound: float) -> None:
    """Raise if the declared bounds are visibly wrong, on a grid of margins and targets.

    A safeguard against a slip in a loss of one's own. The sensitivity needs no bound to be true, because the kernel
    clips every derivative to the declared slope; last-iterate accounting does, and no grid proves it.
    """
    if loss.n_outputs > 1:
        _check_vector_slope(loss, margin_bound)
        return
    edge = min(margin_bound, 30.0)
    margins = np.linspace(-edge, edge, 4001)
    slope, curvature = loss.slope_bound(margin_bound), loss.curvature_bound(margin_bound)
    if not (0 < slope < math.inf and 0 < curvature < math.inf):
        raise InvalidParameterError(
            f"the {loss.name} loss has no bounded derivative for margins up to {margin_bound:g}; "
            "give the problem a bounded domain such as L2Ball(radius)."
        )
    for target in np.linspace(*loss.target_range, 5):
        slopes = np.asarray(loss.derivative(margins, np.full_like(margins, target), *loss.parameters))
        rises, width = np.diff(slopes), margins[1] - margins[0]
        rounding = 2.0**-49 * (np.abs(slopes).max() + abs(target) + edge)
        if not np.abs(slopes).max() <= slope * (1 + 1e-9):
            raise InvalidParameterError(f"the {loss.name} loss exceeds its declared slope bound {slope:g}.")
        if not np.abs(rises).max() <= curvature * width * (1 + 1e-6) + rounding:
            raise InvalidParameterError(f"the {loss.name} loss exceeds its declared curvature bound {curvature:g}.")
        if loss.convex and not rises.min() >= -rounding:
            raise InvalidParameterError(f"the {loss.name} loss declares itself convex, but its derivative falls.")
        if loss.sigmoidal and not _is_sigmoid(loss, slopes, width, rounding):
            raise InvalidParameterError(
                f"the {loss.name} loss declares its slope a sigmoid, but it curves where the slope is large."
            )
        if loss.monotone and slopes.min() < 0.0 < slopes.max():
            raise InvalidParameterError(f"the {loss.name} loss declares itself monotone, but its derivative turns.")


def _is_sigmoid(loss: "Loss", slopes: Array, width: float, rounding: float) -> bool:
    steepest, curvature = loss.slope_bound(math.inf), loss.curvature_bound(math.inf)
    share = np.abs(slopes) / steepest
    bend = 4.0 * curvature * share * (1.0 - share)
    # Within a step t changes by curvature · width/steepest at most, and 4t(1 − t) by four times that.
    allowed = np.maximum(bend[1:], bend[:-1]) + 4.0 * curvature**2 / steepest * width
    return loss.monotone and bool((np.abs(np.diff(slopes)) <= allowed * width + rounding).all())


def _check_vector_slope(loss: "Loss", margin_bound: float) -> None:
    """The same for a vector of margins, at fixed pseudo-random places."""
    slope, curvature = loss.slope_bound(margin_bound), loss.curvature_bound(margin_bound)
    rng = np.random.default_rng(0)
    one, two = np.empty(loss.n_outputs), np.empty(loss.n_outputs)
    for size in (0.1, 1.0, 10.0):
        for target in range(loss.n_outputs):
            margin = size * rng.normal(size=loss.n_outputs)
            shift = 0.01 * rng.normal(size=loss.n_outputs)
            loss.derivative(margin, target, one, *loss.parameters)
            loss.derivative(margin + shift, target, two, *loss.parameters)
            if not np.linalg.norm(one) <= slope * (1 + 1e-9):
                raise InvalidParameterError(f"the {loss.name} loss exceeds its declared slope bound {slope:g}.")
            if not np.linalg.norm(two - one) <= curvature * np.linalg.norm(shift) * (1 + 1e-6):
                raise InvalidParameterError(f"the {loss.name} loss exceeds its declared curvature bound {curvature:g}.")
            if loss.convex and (two - one) @ shift < -1e-9 * slope:
                raise InvalidParameterError(f"the {loss.name} loss declares itself convex, but its derivative falls.")
