"""What is exact, hence not private: risk and gradient, for studies; a first draft of a schema, and a check of one.

Nothing here adds noise. Never publish what these functions return about sensitive rows.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.kernel.objectives import objective_of
from dperm.kernel.parts import GradientPart, RiskPart
from dperm.kernel.source import Source
from dperm.kernel.units import Membership
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.rows.arrays import ArraySource
from dperm.rows.column_facts import NOTHING, Finding, findings
from dperm.rows.columns import Columns, as_numbers, as_words, as_written
from dperm.rows.encoder import ROWS_AT_ONCE, rows_of
from dperm.rows.ids import codes_of_column
from dperm.rows.table import StoredTable, Table, taken
from dperm.schema import Amount, Category, Classes, Column, Number, Schema
from dperm.schema.checks import as_text

Array = NDArray[np.float64]

# With more different texts than this a column is a name or an address and no category.
_MOST_CATEGORIES, _MOST_CLASSES = 100, 20
# Numbers with fewer different values than this may be codes.
_FEWEST_NUMBERS = 3
# From this many rows on, numbers that are all whole and all different are an identifier.
_MANY_ROWS = 100
_IDENTIFIER = "it looks like an identifier: integers, all different"


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
        total = source._total(problem, RiskPart(w), objective_of(problem), pool)
    return float(total) / source._n_units + problem.regularizer.value(w)


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
        total = source._total(problem, GradientPart(w, None, None), objective_of(problem), pool)
    return np.asarray(total) / source._n_rows


def draft_schema(table: Any, target: str, unit: str | None = None) -> tuple[Schema, dict[str, str]]:
    """Describe a table by what is in it, marked as derived from the data.

    Parameters
    ----------
    table : pandas, polars or Arrow table, or StoredTable
        The sensitive table.
    target : str
        The column to predict.
    unit : str, optional
        The column that identifies the privacy unit, not a feature. Half of the units have no more rows than the draft's
        max_rows.

    Returns
    -------
    Schema, dict of str to str
        The draft, and why some columns are left out of it.
    """
    columns = table if isinstance(table, StoredTable) else Columns(table)
    columns.arrow(target)  # raises if there is none
    if unit == target:
        raise InvalidParameterError("the target cannot be the privacy unit.")
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
        except (InvalidParameterError, InvalidTableError) as reason:
            left_out[name] = str(reason).rstrip(".")
            continue
        nothing |= texts
        found[name] = column
    if not found:
        raise InvalidParameterError("the table has no usable feature columns.")
    # A target with few values is a class, also where they are numbers.
    described, texts = _describe(columns, target, _MOST_CLASSES + 1, _MOST_CLASSES)
    if isinstance(described, Category) and len(described.values) < 2:
        raise InvalidParameterError(f"the target {target!r} has only one value: nothing to predict.")
    goal = (
        Classes(target, _as_written(columns, described, target))
        if isinstance(described, Category)
        else Amount(target, described.range)
    )
    missing = tuple(sorted(nothing | texts))
    return Schema(found, goal, n=n, missing=missing, derived_from_data=True, unit=whose), left_out


def check_schema(
    table: Any, schema: Schema | None = None, *, header: Sequence[str] | None = None, separator: str = ",",
    columns: Sequence[str] | None = None, target: str | None = None, rows: int | None = None,
) -> tuple[Finding, ...]:  # fmt: skip
    """What is wrong with a table under a schema, column by column: before anything is spent, and not for release.

    Parameters
    ----------
    table : pandas, polars or Arrow table, files or Dask data frame
        The sensitive table: whatever `dperm.rows.Table` takes. Files are read once, a few rows at a time.
    schema : Schema, optional
        What was declared; without one every column is looked at on its own.
    header, separator
        Of CSV files, where there is no schema that says so.
    columns : sequence of str, optional
        Those to look at where there is no schema [default: all].
    target : str, optional
        The column to predict where there is no schema.
    rows : int, optional
        Look at this many rows, or a few more, from the beginning [default: at all].

    Returns
    -------
    tuple of Finding
        Empty where nothing was found.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from dperm import Classes, Number, Schema
    >>> table = pa.table({"age": [31, 44, 120, 27] * 50, "ill": ["no", "yes", "no", "no"] * 50})
    >>> for finding in check_schema(table, Schema({"age": Number((0, 90))}, Classes("ill", ["no", "yes"]))):
    ...     print(finding)
    age: 25 % outside 0 … 90: widen the range, or accept that they are clipped

    Notes
    -----
    These facts are exact, hence not differentially private.
    """
    if schema is not None:
        header, separator = schema.header, schema.separator
        unit = () if schema.unit is None else (schema.unit.name,)
        columns = [*schema.columns, schema.target.column, *unit]
    n_tables = None if rows is None else -(-rows // ROWS_AT_ONCE)
    table = taken(table)
    if isinstance(table, Table):
        stored = table.opened(header, separator)
        names = stored.names if columns is None else list(columns)
        parts = stored.tables(names)
    else:
        known = Columns(table)
        names = list(known.names if columns is None else columns)
        for name in names:
            known.arrow(name)  # raises if there is none
        parts = (
            rows_of(table, slice(at, min(at + ROWS_AT_ONCE, len(known)))) for at in range(0, len(known), ROWS_AT_ONCE)
        )
    return findings(islice(parts, n_tables), schema, names, target)


def _describe_unit(columns: Columns | StoredTable, name: str) -> tuple[int, PrivacyUnit, set[str]]:
    """How many units there are, one with the usual number of rows, and which texts for no value their ids hold."""
    ids = columns.arrow(name)
    membership = Membership.of(PrivacyUnit(name, 1), codes_of_column(ids, name, NOTHING))
    usual = max(1, round(float(np.median(membership.counts))))
    return membership.n, PrivacyUnit(name, usual), set(as_words(ids, name)[1]) & set(NOTHING)


def _describe(
    columns: Columns | StoredTable, name: str, fewest_numbers: int, most_words: int
) -> tuple[Number | Category, set[str]]:  # fmt: skip
    """The column, and which of the usual texts for no value it holds; raises why it cannot be described."""
    if not str(name).strip():
        raise InvalidParameterError("it has no name")
    column = columns.arrow(name)
    many = _many_numbers(column, name, max(fewest_numbers, most_words))
    if many is not None:
        return many, set()
    codes, words = as_words(column, name)
    nothing = set(words) & set(NOTHING)
    known = sorted({word for word in words if word and word not in NOTHING})
    holes = bool(nothing) or bool((codes < 0).any()) or "" in words
    if not known:
        raise InvalidParameterError("it has no values")
    numbers = as_numbers(column, name)
    numbers = numbers[np.isfinite(numbers)]
    if len(known) >= fewest_numbers and all(map(_is_number, known)):
        if len(known) == len(codes) >= _MANY_ROWS and (numbers == np.floor(numbers)).all():
            raise InvalidParameterError(_IDENTIFIER)
        return Number(_round_range(numbers), missing="column" if holes else "middle"), nothing
    if len(known) > most_words:
        raise InvalidParameterError(
            "it holds too many different texts for categories, and they are not all numbers with a decimal point"
        )
    return Category(tuple((word,) for word in known), missing="column" if holes else "none"), nothing


def _as_written(columns: Columns | StoredTable, described: Category, name: str) -> tuple[tuple[Any, ...], ...]:
    """The categories as the table spells them, so that predictions are spelled as the target is."""
    spelled = {as_text(entry): entry for entry in as_written(columns.arrow(name), name)[1]}
    return tuple((spelled[text],) for (text,) in described.values)


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
        raise InvalidParameterError(_IDENTIFIER)
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
