"""Where rows come from. Whatever the source, every row is encoded and bounded by the same code."""

from collections.abc import Sequence
from typing import Any

from dperm.errors import InvalidParameterError
from dperm.kernel.source import Source
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.arrays import ArraySource
from dperm.rows.cluster import ClusterSource
from dperm.rows.dask_client import is_frame
from dperm.rows.files import is_files
from dperm.rows.streamed import FileSource
from dperm.rows.tables import TableSource
from dperm.schema import Schema

__all__ = ["ArraySource", "ClusterSource", "FileSource", "Source", "TableSource", "is_streamed", "source_of"]


def is_streamed(X: Any) -> bool:
    """Whether rows are neither in an array nor in a table: in files, on a cluster, or in a source."""
    return isinstance(X, Source) or is_files(X) or is_frame(X)


def source_of(
    X: Any, y: Any, schema: Schema | None = None, weights: Any = None, class_weights: Sequence[float] | None = None,
    groups: Any = None, unit: PrivacyUnit | None = None,
) -> Source:  # fmt: skip
    """The source for what a caller hands over: itself, files, a Dask frame, a table with a schema, else an array."""
    if schema is not None and groups is not None:
        raise InvalidParameterError("groups cannot be combined with a schema: ids are a column of the table.")
    if not is_streamed(X):
        if schema is None:
            return ArraySource(X, y, weights, groups, unit)
        return TableSource(X, y, schema, class_weights, weights)
    if y is not None or weights is not None or groups is not None:
        raise InvalidParameterError("y, weights and groups cannot be combined with a source of rows.")
    source = X if isinstance(X, Source) else ClusterSource(X) if is_frame(X) else FileSource(X)
    return source if schema is None else source.with_schema(schema, class_weights)
