"""Schemas: the public facts that turn a table into bounded rows, with nothing learned from the data."""

from dperm.schema.columns import Bins, Category, Column
from dperm.schema.number import Number
from dperm.schema.plain import load_schema, schema_from_dict, schema_to_dict
from dperm.schema.table import Amount, Classes, Schema

__all__ = [
    "Amount", "Bins", "Category", "Classes", "Column", "Number", "Schema", "load_schema", "schema_from_dict",
    "schema_to_dict",
]  # fmt: skip
