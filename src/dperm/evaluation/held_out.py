"""Rows on which a public model is evaluated: tables in memory, and files that are read a few rows at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.evaluation.scores import predicted_row_by_row
from dperm.kernel.units import Membership
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.cells import number_table
from dperm.rows.columns import Columns, as_numbers, as_words, number_columns
from dperm.rows.encoding import check_table, label_numbers, target_numbers
from dperm.rows.ids import membership_of, membership_of_array
from dperm.rows.labels import class_numbers, numeric_target, read_target
from dperm.rows.table import Table
from dperm.schema import Classes, Schema
from dperm.schema.checks import as_text

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """Rows and their targets. Making one looks at names, types and shapes, and at no value but the ids of units.

    Attributes
    ----------
    n_rows : int
        How many rows there are.
    read : callable
        Rows as the model takes them, and their true classes (places among the classes) or numbers, block by block.
    takes_anything : bool
        Whether it is a model of dperm, which takes every value. Any other is shown no row with a number that is not
        finite: it could raise, which would tell that there is one.
    membership : Membership or None
        Whose every row is; None where every row is protected by itself.
    """

    n_rows: int
    read: Callable[[], Iterable[tuple[Any, Array]]]
    takes_anything: bool
    membership: Membership | None = None

    @property
    def n_units(self) -> int:
        """How many units there are, or rows: what the public n is compared with."""
        return self.n_rows if self.membership is None else self.membership.n

    def __reduce__(self) -> Any:
        """Rows are not to be written anywhere."""
        raise TypeError("rows cannot be pickled or copied: they never leave the trusted kernel.")

    def predicted(self, model: Any, kind: str, classes: Sequence[Any] | None) -> Iterator[tuple[Array, Any]]:
        """Truth and prediction, block by block; `kind` and `classes` as of `predicted_by`.

        A row at which a model raises counts nowhere. If it raises at all of them, that is said.
        """
        failed: list[InvalidTableError | None] = []
        for rows, truth in self.read():
            if not len(truth):  # of which many models refuse to say anything
                continue
            shown, bad = (rows, False) if self.takes_anything else _finite(rows)
            found, why = predicted_row_by_row(model, shown, kind, classes, len(truth))
            failed.append(why)
            yield np.where(bad, np.nan, truth), found
        if failed and None not in failed:
            raise failed[0]  # type: ignore[misc]


def held_out(
    model: Any,
    X: Any,
    y: Any,
    *,
    schema: Schema | None,
    classes: Sequence[Any] | None,
    target: str | None,
    takes_anything: bool,
    unit: PrivacyUnit | None = None,
    groups: Any = None,
) -> HeldOut:
    """The rows that a caller hands over.

    Parameters
    ----------
    model : object
        Names its columns in `feature_names_in_`, or counts them in `n_features_in_`, where it can.
    X : array, table, path, pattern, list of paths or pyarrow dataset
        The rows.
    y : array or None
        Targets; None for files, and for a table whose schema names its target column.
    schema : Schema or None
        How the model reads a table.
    classes : sequence or None
        The public classes, None for a number.
    target : str or None
        The target column of files without a schema.
    takes_anything : bool
        As of `HeldOut`.
    unit : PrivacyUnit or None
        Whose rows are protected together; the schema's own if there is one.
    groups : array or None
        The id of every row's unit, for a table in memory without a schema.
    """
    if isinstance(X, Table):
        if y is not None or groups is not None:
            raise InvalidParameterError("y and groups cannot be combined with files: target and ids are columns.")
        return _stored(model, X, schema, classes, target, takes_anything, unit)
    if target is not None:
        raise InvalidParameterError("target names a column of files; for a table in memory pass y.")
    if schema is not None:
        check_table(X, y, schema)
        whose = membership_of(X, schema)
        return HeldOut(len(Columns(X)), lambda: [(X, _truth(X, y, schema))], takes_anything, whose)
    if takes_anything:
        X = number_table(X, majority=unit is None)
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2 or min(shape) < 1:
        raise InvalidParameterError("the rows must be an array, a data frame or files.")
    expected = getattr(model, "n_features_in_", shape[1])
    if shape[1] != expected:
        raise InvalidParameterError(f"the model takes {expected} columns, and the table has {shape[1]}.")
    # By the types alone. A frame for a model of somebody else may hold text, which is that model's business.
    types = [X.dtype] if hasattr(X, "dtype") else list(X.dtypes) if hasattr(X, "iloc") and takes_anything else []
    if any(kind.kind not in "iufb" for kind in types):
        raise InvalidParameterError("the rows must be real numbers; encode text first.")
    labels = read_target(model, y, shape[0])
    whose = membership_of_array(groups, shape[0], unit)
    if classes is None:
        return HeldOut(
            shape[0],
            lambda: [(X, np.asarray(numeric_target(labels, unit is None), dtype=np.float64))],
            takes_anything,
            whose,
        )
    class_numbers(labels[:0], classes)  # raises for a type that cannot be right
    return HeldOut(shape[0], lambda: [(X, class_numbers(labels, classes, unit is None))], takes_anything, whose)


def _truth(table: Any, y: Any, schema: Schema) -> Array:
    return label_numbers(table, y, schema) if isinstance(schema.target, Classes) else target_numbers(table, y, schema)


def _stored(
    model: Any,
    table: Table,
    schema: Schema | None,
    classes: Sequence[Any] | None,
    target: str | None,
    takes_anything: bool,
    unit: PrivacyUnit | None,
) -> HeldOut:
    if schema is not None:
        if target not in (None, schema.target.column):
            raise InvalidParameterError(f"the model's schema names the target {schema.target.column!r}: remove target.")
        columns, target = list(schema.columns), schema.target.column
        stored = table.opened(schema.header, schema.separator)
    else:
        if target is None:
            raise InvalidParameterError("pass target: the model has no schema that names it.")
        if not hasattr(model, "feature_names_in_"):
            raise InvalidParameterError("the model has no column names, so it cannot be evaluated on files.")
        columns, stored = [str(name) for name in model.feature_names_in_], table.opened()
    read = [*dict.fromkeys([*columns, target])]
    if unit is not None and unit.name in read:
        raise InvalidParameterError(f"{unit.name!r} is the privacy unit and cannot also be a feature or the target.")
    stored.require(read if unit is None else [*read, unit.name])
    if schema is not None:
        check_table(stored.empty(), None, schema)

    def blocks() -> Iterator[tuple[Any, Array]]:
        for rows in stored.tables(read):
            if schema is not None:
                yield rows, _truth(rows, None, schema)
            else:
                # By themselves a few rows, or one, must not decide what a column holds.
                yield (
                    number_columns(rows, columns, majority=False),
                    _column_truth(rows.column(target), target, classes),
                )

    whose = stored.membership(unit, () if schema is None else schema.missing)
    return HeldOut(len(stored), blocks, takes_anything, whose)


def _column_truth(column: Any, name: str, classes: Sequence[Any] | None) -> Array:
    """Places among the classes by how they are written, or numbers."""
    if classes is None:
        return as_numbers(column, name)
    positions = {as_text(label): float(place) for place, label in enumerate(classes)}
    codes, words = as_words(column, name)
    return np.array([*(positions.get(word, np.nan) for word in words), np.nan])[codes]


def _finite(rows: Any) -> tuple[Any, NDArray[np.bool_]]:
    """The rows with zeros in place of those with a number that is not finite, and which those are.

    Columns of texts and categories are the model's own business.
    """
    if sparse.issparse(rows):
        rows = rows.tocsr().copy()
        wrong = ~np.isfinite(rows.data)
        bad = np.zeros(rows.shape[0], dtype=bool)
        bad[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[wrong]] = True
        rows.data[wrong] = 0.0
        return rows, bad
    if hasattr(rows, "to_pandas"):  # polars and Arrow, of which not every model takes tables
        rows = rows.to_pandas()
    if not hasattr(rows, "iloc"):
        rows = np.asarray(rows)
        bad = ~np.isfinite(rows).all(axis=1)
        return np.where(bad[:, None], 0, rows), bad
    rows, numbers = rows.copy(), rows.select_dtypes("number")
    bad = ~np.isfinite(numbers.to_numpy(dtype=np.float64, na_value=np.nan)).all(axis=1)
    rows.loc[bad, numbers.columns] = 0
    return rows, bad
