"""One answer per mechanism, one file each; every file in this package is imported."""

import importlib
import pkgutil

from dperm.kernel.answers.base import Asked, answer_to, answers

__all__ = ["Asked", "answer_to", "answers"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
