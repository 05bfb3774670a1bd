"""From pieces of a table to encoded rows: what tables, files and clusters share."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.kernel.coded import CodedRows
from dperm.kernel.source import EncodedRows
from dperm.kernel.threads import n_threads
from dperm.problem import Problem
from dperm.rows.columns import Columns, as_numbers, is_array
from dperm.rows.encoding import (
    encode_rows,
    encode_target,
    label_numbers,
    layout_of,
    target_numbers,
)
from dperm.rows.labels import weights_by_class
from dperm.rows.row_facts import facts_of, outside
from dperm.schema import Amount, Schema

Array = NDArray[np.float64]

# Rows that are encoded at once: what is made on the way then stays in the processor's cache.
ROWS_AT_ONCE = 2**14


@dataclass(frozen=True, eq=False, repr=False)
class _Encoded:
    """A few encoded rows."""

    X: Any
    target: Array
    weights: Array | None
    outside: NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False, repr=False)
class Encoder:
    """How rows are encoded, whatever they come from: plain data, so that it can be sent to where the rows are.

    Attributes
    ----------
    schema : Schema
        Says how.
    class_weights : sequence of float or None
        A public weight for every declared class.
    """

    schema: Schema
    class_weights: Sequence[float] | None = None

    @property
    def bytes_per_row(self) -> int:
        """About what an encoded row takes: public."""
        return layout_of(self.schema).bytes_per_row + 24 + (0 if self.schema.unit is None else 16)

    @property
    def bytes_at_work(self) -> int:
        """About what a row takes while it is encoded, as it is read and on the way: public."""
        return 16 * len(self.encoded_columns) + 2 * self.bytes_per_row

    @property
    def columns(self) -> list[str]:
        """What a table must have."""
        unit = self.schema.unit
        return [*self.encoded_columns, *(() if unit is None else (unit.name,))]

    @property
    def encoded_columns(self) -> list[str]:
        """What is read to encode rows: ids were read before."""
        return [*self.schema.columns, self.schema.target.column]

    def blocks(
        self, tables: Iterable[Any], problem: Problem, rows: int, memory: int, threads: int | None = None
    ) -> Iterator[EncodedRows]:  # fmt: skip
        """Encode tables in blocks of about this many rows, a few tables ahead of the consumer.

        Parameters
        ----------
        tables : iterable of tables
            With at most `ROWS_AT_ONCE` rows each; they are read by one thread.
        problem : Problem
            Declares the bounds.
        rows : int
            Of a block; no table is cut.
        memory : int
            For tables that are being encoded: as many at once as fit, and one at least.
        threads : int, optional
            That encode; by default as many as this machine has.
        """
        waiting: list[_Encoded] = []
        for encoded in self._encoded(tables, problem, memory, threads or n_threads()):
            waiting.append(encoded)
            if sum(part.target.size for part in waiting) >= rows:
                yield _together(waiting)
                waiting = []
        if waiting:
            yield _together(waiting)

    def all_rows(self, table: Any, problem: Problem, y: Any = None, weights: Array | None = None) -> EncodedRows:
        """All rows of a table in memory; y and weights stand beside it.

        Parameters
        ----------
        table : pandas, polars or Arrow table
            It has the schema's columns.
        problem : Problem
            Declares the bounds.
        y : Arrow array, optional
            The target, if it is not the table's own column.
        weights : array, optional
            Weight per row; it multiplies that of the row's class.
        """
        n_rows, pieces = len(Columns(table)), []
        for first in range(0, max(n_rows, 1), ROWS_AT_ONCE):
            chosen = slice(first, min(first + ROWS_AT_ONCE, n_rows))
            given = None if y is None else y.slice(first, chosen.stop - first)
            pieces.append(self._piece(rows_of(table, chosen), problem, given, weights, chosen))
        return _together(pieces)

    def columns_of(self, tables: Iterable[Any], names: Sequence[str]) -> Iterator[dict[str, Array]]:
        """Raw columns as numbers, table by table."""
        return ({name: self.numbers(table, None, name) for name in names} for table in tables)

    def numbers(self, table: Any, y: Any, column: str) -> Array:
        """One column, the target among them, as numbers: NaN where there is none."""
        if column == self.schema.target.column:
            return target_numbers(table, y, self.schema)
        return as_numbers(Columns(table).arrow(column), column, self.schema.missing)

    def _encoded(self, tables: Iterable[Any], problem: Problem, memory: int, threads: int) -> Iterator[_Encoded]:
        """In order, by several threads."""
        running, sizes, at_work = deque[Future[_Encoded]](), deque[int](), self.bytes_at_work
        with ThreadPoolExecutor(threads, thread_name_prefix="dperm-encode") as pool:
            for table in tables:
                sizes.append(at_work * len(table))
                while running and (len(running) >= 2 * threads or sum(sizes) > memory):
                    yield running.popleft().result()
                    sizes.popleft()
                running.append(pool.submit(self._piece, table, problem))
            while running:
                yield running.popleft().result()

    def _piece(
        self, table: Any, problem: Problem, y: Any = None, weights: Array | None = None, chosen: slice = slice(None)
    ) -> _Encoded:  # fmt: skip
        X = encode_rows(table, self.schema, fitting=True)
        # The declared range of a number becomes the range of the loss.
        target = encode_target(table, y, self.schema, problem.loss.clipped_range or (-1.0, 1.0))
        clipped = None
        if isinstance(self.schema.target, Amount):
            clipped = outside(target_numbers(table, y, self.schema), *self.schema.target.number.bounds)
        given = None if weights is None else weights[chosen]
        if self.class_weights is not None:
            given = weights_by_class(label_numbers(table, y, self.schema), self.class_weights, given)
        return _Encoded(X, target, given, clipped)


def _together(pieces: Sequence[_Encoded]) -> EncodedRows:
    first = pieces[0]
    if len(pieces) == 1:
        X, target, weights = first.X, first.target, first.weights
    else:
        tables = [piece.X for piece in pieces]
        X = CodedRows.together(tables) if isinstance(first.X, CodedRows) else np.concatenate(tables)
        target = np.concatenate([piece.target for piece in pieces])
        given = [piece.weights for piece in pieces if piece.weights is not None]
        weights = np.concatenate(given) if given else None
    clipped = [piece.outside for piece in pieces if piece.outside is not None]
    facts = partial(facts_of, clipped=np.concatenate(clipped)) if clipped else facts_of
    return EncodedRows(X, target, weights, facts)


def rows_of(table: Any, chosen: slice) -> Any:
    """Consecutive rows of a pandas, polars or Arrow table, or of an array."""
    if is_array(table):
        return table[chosen]
    return table.iloc[chosen] if hasattr(table, "iloc") else table.slice(chosen.start, chosen.stop - chosen.start)
