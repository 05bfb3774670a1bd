"""What was published, as it was published: printed steps and prescribed noise, for reproduction and never for release.

One file for every method. A solver without one has no published noise, and does not have to say so.
"""

import importlib
import pkgutil

from dperm.paper.printed.adassp import PublishedAdaSSP
from dperm.paper.printed.dp_svrg import PrintedSVRG
from dperm.paper.printed.dp_svrg_plus_plus import PrintedSVRGPlusPlus
from dperm.paper.printed.registry import PublishedPlan, has_published_noise, published, published_plan

__all__ = [
    "PrintedSVRG",
    "PrintedSVRGPlusPlus",
    "PublishedAdaSSP",
    "PublishedPlan",
    "has_published_noise",
    "published",
    "published_plan",
]

for _file in pkgutil.iter_modules(__path__):  # every file registers what it publishes
    importlib.import_module(f"{__name__}.{_file.name}")
