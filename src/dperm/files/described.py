"""Objects as plain data: losses, penalties, domains, mechanisms and solvers by the name and the fields of their class.

Reading runs nothing that a file names. A class of dperm is looked up among those of its package, and a user's own among
those that are imported already: whoever reads a file decides what is imported.
"""

import dataclasses
import importlib
import math
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from dperm import mechanisms, problem, solvers
from dperm.errors import InvalidParameterError
from dperm.mechanisms.base import Mechanism
from dperm.privacy.unit import PrivacyUnit
from dperm.problem.domains import Domain
from dperm.problem.losses.base import RowLoss
from dperm.problem.losses.function import FunctionLoss, FunctionShapes
from dperm.problem.regularizers import Regularizer
from dperm.solvers import Solver

# What a file may name, and where dperm's own are.
_FAMILIES = (RowLoss, Regularizer, Domain, Mechanism, Solver)
_PACKAGES = (problem, mechanisms, solvers)


class NotDescribableError(InvalidParameterError):
    """Something that no file can describe, such as a function."""


class NotImportedError(InvalidParameterError):
    """A file names a class that is not dperm's and that nobody has imported."""


def described(value: Any) -> Any:
    """A value as plain data, ready for JSON.

    Parameters
    ----------
    value : object
        A number, a text, a list, an array, or an object of dperm's families: a dataclass of such values.

    Raises
    ------
    NotDescribableError
        If it holds anything else, a function for instance.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return described(value.tolist())
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    if isinstance(value, FunctionLoss) and not isinstance(value, FunctionShapes):
        value = value.shapes()
    if isinstance(value, PrivacyUnit):
        return value.to_dict()
    if not isinstance(value, _FAMILIES):
        raise NotDescribableError(f"a file cannot describe {value!r}: it is not a number, string or dperm object.")
    return {"class": class_name(type(value))} | fields_of(value)


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that its constructor takes, but for a mechanism's setting, which is derived."""
    names = [part.name for part in dataclasses.fields(value) if part.init] if dataclasses.is_dataclass(value) else []
    hidden = set(vars(value)) - set(names)
    if hidden and not isinstance(value, FunctionLoss) and not dataclasses.is_dataclass(value):
        raise NotDescribableError(
            f"a file cannot describe {type(value).__name__}: make it a frozen dataclass, whose fields are its numbers."
        )
    return {
        name: described(getattr(value, name))
        for name in names
        if not (name == "setting" and isinstance(value, Mechanism))
    }


def class_name(kind: type) -> str:
    """How a file names a class: dperm's own by its name, a user's by module and name."""
    return kind.__name__ if _is_ours(kind) else f"{kind.__module__}:{kind.__qualname__}"


def class_named(name: object, family: type) -> Any:
    """The class of this name in a family.

    Raises
    ------
    NotImportedError
        If it is a user's own, and not imported.
    ValueError
        If there is no such class.
    """
    if not isinstance(name, str):
        raise ValueError("class")
    found = [kind for kind in _known(family) if class_name(kind) == name]
    if found:
        return found[-1]  # of one that was defined again, in a notebook for instance, the last
    if ":" in name:
        module = name.partition(":")[0]
        raise NotImportedError(f"the file names {name}, which is not imported: dperm verify --import {module}.")
    raise ValueError("class")


def rebuilt(content: Any, family: type, **derived: Any) -> Any:
    """The object that `described` described; `derived` are fields that a file does not hold."""
    if not isinstance(content, dict):
        raise TypeError("an object")
    kind = class_named(content["class"], family)
    values = {name: value_of(entry) for name, entry in content.items() if name != "class"}
    check_types(kind, values)
    return kind(**values, **derived)


def check_types(kind: Any, values: dict[str, Any]) -> None:
    """Raise unless values are of the types that a dataclass declares: 0 is no truth value, and "1" no number."""
    for part in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        value = values.get(part.name, part.default)
        if part.type in (bool, int, str) and part.name in values and type(value) is not part.type:
            raise TypeError(part.name)
        if part.type is float and part.name in values and type(value) not in (int, float):
            raise TypeError(part.name)


def value_of(content: Any) -> Any:
    """A value that `described` described: lists are tuples, and objects those of their family."""
    if isinstance(content, list):
        return tuple(map(value_of, content))
    if not isinstance(content, dict):
        return content
    if set(content) == {"number"}:
        return _NUMBERS[content["number"]]
    return rebuilt(content, object)


_NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def _known(family: type) -> Iterator[type]:
    """All classes of a family, or of all: dperm's own, and those that the user has imported."""
    _import_our_own()
    bases: tuple[type, ...] = _FAMILIES if family is object else (family,)
    for base in bases:
        yield from _below(base)


def _below(base: type) -> Iterator[type]:
    yield base
    below: list[type] = base.__subclasses__()
    for kind in below:
        yield from _below(kind)


def _import_our_own() -> None:
    for package in _PACKAGES:
        import_modules_of(package)
    list(solvers.SOLVERS)  # those of the paper too, which nothing imports


@cache
def import_modules_of(package: ModuleType) -> None:
    """Import every module of a package, so that its classes can be looked up."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
