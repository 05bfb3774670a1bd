"""Every model by its name in files and on the command line."""

import functools
import importlib
import pkgutil

import dperm.models
from dperm.models.base import PrivateEstimator


@functools.cache
def models() -> dict[str, type[PrivateEstimator]]:
    """All models that this package holds, by `kind`; a new file is found automatically."""
    found = {}
    for module in pkgutil.iter_modules(dperm.models.__path__):
        for thing in vars(importlib.import_module(f"{dperm.models.__name__}.{module.name}")).values():
            if isinstance(thing, type) and issubclass(thing, PrivateEstimator) and "kind" in vars(thing):
                found[thing.kind] = thing
    return dict(sorted(found.items()))
