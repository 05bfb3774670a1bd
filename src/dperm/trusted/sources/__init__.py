"""Where rows come from. Whatever the source, every row is encoded and bounded by the same code."""

from typing import Any

from dperm.errors import InvalidParameter
from dperm.schema import Schema
from dperm.trusted.sources.arrays import ArraySource
from dperm.trusted.sources.base import Source
from dperm.trusted.sources.tables import TableSource

__all__ = ["ArraySource", "Source", "TableSource", "source_of"]


def source_of(X: Any, y: Any, schema: Schema | None = None, weights: Any = None) -> Source:
    """The source for what a caller hands over: itself, a table where a schema describes it, else an array."""
    if isinstance(X, Source):
        if y is not None or weights is not None:
            raise InvalidParameter("a source of rows has its own target and weights: leave y and weights out.")
        return X
    return ArraySource(X, y, weights) if schema is None else TableSource(X, y, schema, weights=weights)
