"""What a fit was asked to do, as plain data in its file: the parameters of the estimator that a loaded model has."""

import dataclasses
from typing import Any

from dperm.files.described import described, value_of
from dperm.schema import Schema, schema_from_dict, schema_to_dict

# What a file holds elsewhere, or what changes no plan.
_ELSEWHERE = frozenset(
    ("epsilon", "delta", "adjacency", "noise", "n", "classes", "schema", "bounds", "budget", "random_state",
     "verbose", "row_warnings", "n_jobs", "unit", "max_rows_per_unit", "contribution", "missing_units",
     "solver")
)  # fmt: skip


def parameters_to_dict(model: Any, schema: Schema | None = None) -> dict[str, Any]:
    """The parameters of an estimator.

    Parameters
    ----------
    model : estimator
        What was asked.
    schema : Schema or None
        The one that was planned with, every encoding decided.

    Raises
    ------
    NotDescribableError
        If one of them cannot be written down.
    """
    values = {part.name: getattr(model, part.name) for part in dataclasses.fields(model) if part.init}
    values |= model.description()
    for name in ("start", "class_weight"):
        if isinstance(values.get(name), dict):
            values[name] = list(values[name].items())
    content = {name: described(values[name]) for name in sorted(set(values) - _ELSEWHERE)}
    if schema is not None and (schema.private_ranges or schema.private_edges):  # else the model's own says it all
        content["schema"] = schema_to_dict(dataclasses.replace(schema, n=None))
    return content


def parameters_from_dict(content: Any) -> dict[str, Any]:
    """Parameters of an estimator, from what `parameters_to_dict` gave; the schema only if a fit released a part of it.

    Raises
    ------
    ValueError, KeyError, TypeError, DpermError
        If it is not that.
    """
    values = {name: value_of(value) for name, value in dict(content).items() if name != "schema"}
    if values.get("class_weight") is not None:
        values["class_weight"] = dict(values["class_weight"])
    if "schema" in content:
        values["schema"] = schema_from_dict(content["schema"])
    return values
