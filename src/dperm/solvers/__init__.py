"""Solvers: one file each, in a folder for their family. A class that is written there is found; nothing lists it.

`from dperm.solvers import DPGD`, or by name: `SOLVERS["dp-gd"]`. A solver of another package is known by its name once
that package has called `SOLVERS.register`; "auto" chooses among those of this one.
"""

import importlib
import inspect
import pkgutil
from typing import Any

from dperm.extensions import Registry
from dperm.solvers.base import Solver

__all__ = ["AUTOMATIC", "SOLVERS", "Solver"]


def _found() -> tuple[type[Solver], ...]:
    """Every solver that the folders define."""
    kinds: list[type[Solver]] = []
    for file in pkgutil.walk_packages(__path__, f"{__name__}."):
        module = importlib.import_module(file.name)
        kinds += [kind for _, kind in inspect.getmembers(module, _is_solver) if kind.__module__ == file.name]
    return tuple(sorted(kinds, key=lambda kind: (kind.listed, kind.name)))


def _is_solver(member: object) -> bool:
    """Whether it is a method; what several of them share has no name."""
    return inspect.isclass(member) and issubclass(member, Solver) and hasattr(member, "name")


# What "auto" chooses among; of two predictions that are equal it takes the first.
AUTOMATIC = _found()
SOLVERS: Registry[type[Solver]] = Registry({kind.name: kind for kind in AUTOMATIC})

_CLASSES = {kind.__name__: kind for kind in AUTOMATIC}


def __getattr__(name: str) -> Any:
    """A solver by the name of its class."""
    if name in _CLASSES:
        return _CLASSES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_CLASSES]
