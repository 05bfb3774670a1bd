"""Where a package adds solvers, noise modes and accountants without dperm importing it."""

import importlib
from collections.abc import Iterator, Mapping
from typing import TypeVar

# Imported when a name is asked for that is not known, or all names are.
PACKAGES = ("dperm.paper",)

Entry = TypeVar("Entry")


class Registry(Mapping[str, Entry]):
    """Entries by name: dperm's own, and those that a package registers when it is imported."""

    def __init__(self, own: Mapping[str, Entry]) -> None:
        self._entries = dict(own)

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry; a name is given once."""
        if self._entries.setdefault(name, entry) is not entry:
            raise ValueError(f"{name!r} is already registered.")

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            _import_packages()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        _import_packages()
        return iter(self._entries)

    def __len__(self) -> int:
        _import_packages()
        return len(self._entries)


def _import_packages() -> None:
    for package in PACKAGES:
        importlib.import_module(package)
