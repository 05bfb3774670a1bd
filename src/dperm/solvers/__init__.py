"""Solvers: one file each, in a folder for their family. A class that is written there is found; nothing lists it."""

import importlib
import inspect
import pkgutil

from dperm.solvers.base import Solver

__all__ = ["SOLVERS", "Solver"]


def _found() -> list[type[Solver]]:
    """Every solver that the folders define, but for the published forms, which are there to compare with."""
    kinds: list[type[Solver]] = []
    for file in pkgutil.walk_packages(__path__, f"{__name__}."):
        if not file.name.startswith(f"{__name__}.published"):
            module = importlib.import_module(file.name)
            kinds += [kind for _, kind in inspect.getmembers(module, _is_solver) if kind.__module__ == file.name]
    return sorted(kinds, key=lambda kind: (kind.listed, kind.name))


def _is_solver(member: object) -> bool:
    """Whether it is a method; what several of them share has no name."""
    return inspect.isclass(member) and issubclass(member, Solver) and hasattr(member, "name")


SOLVERS: dict[str, type[Solver]] = {kind.name: kind for kind in _found()}
