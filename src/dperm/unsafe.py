"""What is exact, hence not private: risk and gradient, for studies, and a first draft of a schema, to be corrected.

Nothing here adds noise. Never publish what these functions return about sensitive rows.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameter, InvalidTable
from dperm.problem import Problem
from dperm.schema import Amount, Category, Classes, Column, Number, Schema
from dperm.trusted.objectives import objective_of
from dperm.trusted.parts import GradientPart, RiskPart
from dperm.trusted.sources import ArraySource, Source
from dperm.trusted.sources.columns import Columns, as_numbers, as_words
from dperm.trusted.sources.ids import codes_of_column
from dperm.trusted.units import Membership
from dperm.unit import Unit

Array = NDArray[np.float64]

# Texts that usually stand for no value.
_NOTHING = ("?", "-", "NA", "N/A", "n/a", "nan", "NaN", "null", "NULL", "None")
# With more different texts than this a column is a name or an address and no category.
_MOST_CATEGORIES, _MOST_CLASSES = 100, 20
# Numbers with fewer different values than this may be codes.
_FEWEST_NUMBERS = 3
# From so many rows on, numbers that are all whole and all different are an identifier.
_MANY_ROWS = 100
_IDENTIFIER = "it looks like an identifier: whole numbers, all different"


def empirical_risk(problem: Problem, X: Any, y: Any, w: Array) -> float:
    """F^r(w) = (1/n) Σ f(w, z_i) + r(w) on the clipped rows, without noise.

    Parameters
    ----------
    problem : Problem
        Loss, regularizer and row bound.
    X, y : array-like
        Rows and numeric targets, as for `minimize`.
    w : array
        A coefficient vector.

    Notes
    -----
    This number is exact, hence not differentially private.
    """
    return risk_over(ArraySource(X, y), problem, w)


def risk_over(source: Source, problem: Problem, w: Array) -> float:
    """The same on the rows of any source."""
    with ThreadPoolExecutor(1) as pool:
        total = source.total(problem, RiskPart(w), objective_of(problem), pool)
    return float(total) / source.n_units + problem.regularizer.value(w)


def empirical_gradient(problem: Problem, X: Any, y: Any, w: Array) -> Array:
    """∇F(w) = (1/n) Σ ∇f(w, z_i) on the clipped rows, without noise and without r.

    Of a `FunctionLoss` it is the mean of the clipped gradients, which need not be the gradient of anything.

    Parameters
    ----------
    problem, X, y, w
        As of `empirical_risk`.

    Notes
    -----
    This vector is exact, hence not differentially private.
    """
    source = ArraySource(X, y)
    with ThreadPoolExecutor(1) as pool:
        total = source.total(problem, GradientPart(w, None, None), objective_of(problem), pool)
    return np.asarray(total) / source.n_rows


def draft_schema(table: Any, target: str, unit: str | None = None) -> tuple[Schema, dict[str, str]]:
    """Describe a table by what is in it, marked as derived from the data.

    Parameters
    ----------
    table : pandas, polars or Arrow table
        The sensitive table.
    target : str
        The column to predict.
    unit : str, optional
        The column that says whose a row is: it is no feature. Half of the units have no more rows than the draft's
        max_rows.

    Returns
    -------
    Schema, dict of str to str
        The draft, and why some columns are left out of it.
    """
    columns = table if isinstance(table, Columns) else Columns(table)
    columns.arrow(target)  # raises if there is none
    if unit == target:
        raise InvalidParameter("the target cannot say whose a row is: unit must be another column.")
    found: dict[str, Column] = {}
    left_out, nothing = {}, set[str]()
    n, whose = len(columns), None
    if unit is not None:
        n, whose, nothing = _describe_unit(columns, unit)
    for name in columns.names:
        if name in (target, unit):
            continue
        try:
            column, texts = _describe(columns, name, _FEWEST_NUMBERS, _MOST_CATEGORIES)
        except (InvalidParameter, InvalidTable) as reason:
            left_out[name] = str(reason).rstrip(".")
            continue
        nothing |= texts
        found[name] = column
    if not found:
        raise InvalidParameter("the table has no column that a schema could describe besides the target.")
    # A target with few values is a class, also where they are numbers.
    described, texts = _describe(columns, target, _MOST_CLASSES + 1, _MOST_CLASSES)
    if isinstance(described, Category) and len(described.values) < 2:
        raise InvalidParameter(f"the target {target!r} has one value only, so there is nothing to predict.")
    goal = Classes(target, described.values) if isinstance(described, Category) else Amount(target, described.range)
    missing = tuple(sorted(nothing | texts))
    return Schema(found, goal, n=n, missing=missing, derived_from_data=True, unit=whose), left_out


def _describe_unit(columns: Columns, name: str) -> tuple[int, Unit, set[str]]:
    """How many units there are, one with the usual number of rows, and which texts for no value their ids hold."""
    ids = columns.arrow(name)
    membership = Membership.of(Unit(name, 1), codes_of_column(ids, name, _NOTHING))
    usual = max(1, round(float(np.median(membership.counts))))
    return membership.n, Unit(name, usual), set(as_words(ids, name)[1]) & set(_NOTHING)


def _describe(columns: Columns, name: str, fewest_numbers: int, most_words: int) -> tuple[Number | Category, set[str]]:
    """The column, and which of the usual texts for no value it holds; raises why it cannot be described."""
    if not str(name).strip():
        raise InvalidParameter("it has no name")
    column = columns.arrow(name)
    many = _many_numbers(column, name, max(fewest_numbers, most_words))
    if many is not None:
        return many, set()
    codes, words = as_words(column, name)
    nothing = set(words) & set(_NOTHING)
    known = sorted({word for word in words if word and word not in _NOTHING})
    holes = bool(nothing) or bool((codes < 0).any()) or "" in words
    if not known:
        raise InvalidParameter("it holds no value")
    numbers = as_numbers(column, name)
    numbers = numbers[np.isfinite(numbers)]
    if len(known) >= fewest_numbers and all(map(_is_number, known)):
        if len(known) == len(codes) >= _MANY_ROWS and (numbers == np.floor(numbers)).all():
            raise InvalidParameter(_IDENTIFIER)
        return Number(_round_range(numbers), missing="column" if holes else "middle"), nothing
    if len(known) > most_words:
        raise InvalidParameter(
            "it holds too many different texts for categories, and they are not all numbers with a decimal point"
        )
    return Category(tuple((word,) for word in known), missing="column" if holes else "none"), nothing


def _many_numbers(column: Any, name: str, few: int) -> Number | None:
    """A column of more than a few different numbers: as texts they take many times the memory. None for any other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return None
    numbers, n_different = as_numbers(column, name), pc.count_distinct(column).as_py()
    if n_different <= few + 1 or np.isinf(numbers).any():  # one of them may be NaN
        return None
    holes = bool(np.isnan(numbers).any())
    if not holes and n_different == numbers.size >= _MANY_ROWS and (numbers == np.floor(numbers)).all():
        raise InvalidParameter(_IDENTIFIER)
    return Number(_round_range(numbers[np.isfinite(numbers)]), missing="column" if holes else "middle")


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _round_range(numbers: Array) -> tuple[float, float]:
    """The range of the values, rounded outwards to two digits."""
    low, high = float(numbers.min()), float(numbers.max())
    size = max(abs(low), abs(high), 1e-99)
    step = 10.0 ** (math.floor(math.log10(max(high - low, 1e-6 * size))) - 1)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return float(f"{low:.10g}"), float(f"{high if high > low else low + step:.10g}")
