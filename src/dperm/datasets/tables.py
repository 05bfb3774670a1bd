"""What the loaders of example tables return."""

from typing import Any, NamedTuple

from dperm.schema import Schema


class Tables(NamedTuple):
    """A table to fit, one to test on, and the public facts about both.

    Attributes
    ----------
    schema : Schema
        Ranges, categories and classes; no row was looked at for it.
    train, test : pyarrow.Table
        Rows with column names.
    """

    schema: Schema
    train: Any
    test: Any
