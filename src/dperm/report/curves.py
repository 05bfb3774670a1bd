"""Numbers of the page's curves: what columns add, and what more or less privacy would cost, as positions in an SVG."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.errors import DpermError
from dperm.pictures.bars import noise_reach
from dperm.pictures.contributions import Contribution, contributions, most_moving, scores_moved
from dperm.pictures.risk import RiskCurve
from dperm.report.coefficients import Axis

# Every drawing: its width and height, and the box inside the labels.
WIDTH, HEIGHT = 328.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 318.0, 10.0, 162.0
# A page with more curves than this shows those that move the most.
MOST_DRAWINGS = 24
_FAR = 1e100
# As in pictures.canvas, for strokes of an SVG; the colours are in style.html.
_DASHES = ("", "6 3", "7 3 2 3", "2 3", "9 2", "5 2 1 2", "1 2", "9 3 2 3")


@dataclass(frozen=True)
class Line:
    """One curve as points of a polyline, with its stroke."""

    title: str
    points: str
    colour: str
    dash: str


@dataclass(frozen=True)
class Drawing:
    """One SVG: curves, a band as the points of a polygon, and ticks as (position, text)."""

    title: str
    lines: tuple[Line, ...]
    band: str
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    knots: tuple[float, ...]


def effect_drawings(model: Any) -> list[Drawing]:
    """Of every numeric column of the schema, on one scale; empty without a schema or for a network.

    Parameters
    ----------
    model : estimator
        As `reading.model_from` returns it.
    """
    if model.schema_ is None or not hasattr(model, "coef_"):
        return []
    with np.errstate(all="ignore"):  # a file may hold any numbers
        found = [each for each in contributions(model) if each.numbers.size and 0.0 < np.ptp(each.numbers) < math.inf]
        if not found:
            return []
        shown = most_moving(found, MOST_DRAWINGS)
        reach, values = min(noise_reach(model) or 0.0, _FAR), np.concatenate([each.curve for each in shown], axis=1)
        heights = Axis.of(max(float(values.min()), -_FAR) - reach, min(float(values.max()), _FAR) + reach)
        return [_effect(each, heights, reach, scores_moved(model, shown)) for each in shown]


def _effect(effect: Contribution, heights: Axis, reach: float, scores: Sequence[tuple[int, str]]) -> Drawing:
    low, high = float(effect.numbers[0]), float(effect.numbers[-1])
    x = LEFT + (effect.numbers - low) / (high - low) * (RIGHT - LEFT)
    alone = len(scores) == 1
    lines = tuple(
        Line(title, _points(x, effect.curve[place], heights), *(("var(--blue)", "") if alone else _style(order)))
        for order, (place, title) in enumerate(scores)
    )
    middle = effect.curve[scores[0][0]] if alone else np.zeros(x.size)
    far = reach * effect.sizes
    edge = (np.concatenate([x, x[::-1]]), np.concatenate([middle + far, (middle - far)[::-1]]))
    ticks = [low, high] if not low < 0.0 < high else [low, 0.0, high]
    return Drawing(
        effect.column,
        lines,
        _points(*edge, heights) if reach else "",
        tuple((_along(tick, low, high), f"{tick:.5g}".replace("-", "−")) for tick in ticks),
        _height_ticks(heights),
        tuple(_along(knot, low, high) for knot in effect.knots),
    )


def _style(order: int) -> tuple[str, str]:
    return f"var(--series-{order})", _DASHES[order]


def _points(x: Any, y: Any, heights: Axis) -> str:
    return " ".join(f"{a:.1f},{_height(float(b), heights):.1f}" for a, b in zip(x, y, strict=True))


def _height(value: float, heights: Axis) -> float:
    return BOTTOM - heights.place(value) / 100.0 * (BOTTOM - TOP)


def _along(value: float, low: float, high: float) -> float:
    return round(LEFT + (value - low) / (high - low) * (RIGHT - LEFT), 1)


def _height_ticks(heights: Axis) -> tuple[tuple[float, str], ...]:
    return tuple((round(_height(tick, heights), 1), f"{tick:g}".replace("-", "−")) for tick in heights.ticks)


@dataclass(frozen=True)
class RiskDrawing:
    """The cost of noise against ε: curves and areas as points, the fit's own ε as a position, and sentences."""

    sentence: str
    noise: str
    below: str
    hopeless: str
    all_of_it: float
    now: tuple[float, float | None]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    curve: RiskCurve


def risk_drawing(model: Any) -> RiskDrawing | None:
    """What noise is expected to cost at other ε; None where that is not known.

    Parameters
    ----------
    model : estimator
        As `reading.model_from` returns it.
    """
    if not hasattr(model, "coef_"):
        return None
    try:
        curve: RiskCurve = model.risk_of_epsilon()
    except (DpermError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None  # other noise, or a file that does not describe a fit
    epsilons, shares = (np.array(row)[curve.known] for row in (curve.epsilons, curve.shares))
    low, high = 0.5 * float(shares.min()), 1.5
    first, last = float(epsilons[0]), float(epsilons[-1])

    def along(epsilon: float) -> float:
        return _along(math.log(epsilon), math.log(first), math.log(last))

    def height(share: float) -> float:
        return round(BOTTOM - math.log(share / low) / math.log(high / low) * (BOTTOM - TOP), 1)

    points = " ".join(f"{along(epsilon)},{height(share)}" for epsilon, share in zip(epsilons, shares, strict=True))
    end = None if curve.hopeless_up_to is None else along(curve.hopeless_up_to)
    return RiskDrawing(
        sentence=str(curve),
        noise=points,
        below=f"{points} {along(last)},{BOTTOM} {along(first)},{BOTTOM}",
        hopeless="" if end is None else f"{LEFT},{TOP} {end},{TOP} {end},{BOTTOM} {LEFT},{BOTTOM}",
        all_of_it=height(1.0),
        now=(along(curve.epsilon), height(curve.shares[curve.now]) if curve.now in curve.known else None),
        x_ticks=tuple((along(tick), f"{tick:g}") for tick in _powers(first, last)),
        y_ticks=tuple((height(tick), f"{100.0 * tick:g} %") for tick in _powers(low, high)),
        curve=curve,
    )


def _powers(low: float, high: float) -> list[float]:
    """The powers of ten between them, at most seven."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    step = max(1, -(-(last - first + 1) // 7))
    return [10.0**power for power in range(first, last + 1, step)]
