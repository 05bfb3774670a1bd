"""What a fit was asked to do, as plain data in its file: enough to plan it again."""

import dataclasses
from typing import Any

import numpy as np

from dperm.problem import domains, regularizers
from dperm.schema import Schema, schema_from_dict, schema_to_dict
from dperm.solvers import SOLVERS, Solver

# What a file holds elsewhere, or what does not change a plan.
_ELSEWHERE = frozenset(
    ("epsilon", "delta", "adjacency", "noise", "n", "classes", "schema", "bounds", "budget", "random_state",
     "verbose", "row_warnings", "n_jobs", "unit", "max_rows_per_unit", "contribution", "missing_units")
)  # fmt: skip

_PARTS = {name: getattr(package, name) for package in (regularizers, domains) for name in package.__all__}


def parameters_to_dict(model: Any, solver: Solver, schema: Schema | None) -> dict[str, Any] | None:
    """The parameters of an estimator and the solver that was chosen, None where an object is not one of dperm's own.

    Parameters
    ----------
    model : estimator
        What was asked.
    solver : Solver
        The one that ran.
    schema : Schema or None
        The one that was planned with, every encoding decided.
    """
    values = {part.name: getattr(model, part.name) for part in dataclasses.fields(model) if part.init}
    values |= model.description()
    if isinstance(values.get("start"), dict):
        values["start"] = list(values["start"].items())
    content = {}
    try:
        for name in sorted(set(values) - _ELSEWHERE - {"solver", "class_weight"}):
            content[name] = _plain(values[name])
        if values.get("class_weight") is not None:
            content["class_weight"] = [
                [_plain(label), _plain(weight)] for label, weight in values["class_weight"].items()
            ]
        if SOLVERS.get(solver.name) is not type(solver):
            return None
        content["solver"] = solver_to_dict(solver)
    except TypeError:
        return None
    if schema is not None and (schema.private_ranges or schema.private_edges):  # else the model's own says it all
        content["schema"] = schema_to_dict(dataclasses.replace(schema, n=None))
    return content


def solver_to_dict(solver: Solver) -> dict[str, Any]:
    """A solver's name and settings."""
    return _fields(solver.name, solver)


def parameters_from_dict(content: Any) -> dict[str, Any]:
    """Parameters of an estimator, from what `parameters_to_dict` gave; the schema only if a fit released a part of it.

    Raises
    ------
    ValueError, KeyError, TypeError, DpermError
        If it is not that.
    """
    values = {name: _object(value) for name, value in dict(content).items() if name not in ("solver", "schema")}
    settings = dict(content["solver"])
    values["solver"] = SOLVERS[settings.pop("kind")](**{name: _object(value) for name, value in settings.items()})
    if "class_weight" in values:
        values["class_weight"] = dict(values["class_weight"])
    if "schema" in content:
        values["schema"] = schema_from_dict(content["schema"])
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if _PARTS.get(type(value).__name__) is type(value):
        return _fields(type(value).__name__, value)
    raise TypeError(type(value).__name__)


def _fields(kind: str, value: Any) -> dict[str, Any]:
    return {"kind": kind} | {part.name: _plain(getattr(value, part.name)) for part in dataclasses.fields(value)}


def _object(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_object(entry) for entry in value)
    if isinstance(value, dict):
        settings = {name: _object(entry) for name, entry in value.items()}
        return _PARTS[settings.pop("kind")](**settings)
    return value
