"""Accounting events: what ran, one folder each.

The event owns its privacy curve; the module `check` beside it bounds it once more, by ball arithmetic.
"""

import importlib
import pkgutil

from dperm.accounting.events.base import Event, SingleEvent
from dperm.accounting.events.bounded_range import BoundedRange
from dperm.accounting.events.composed import Composed, Repeated
from dperm.accounting.events.concentrated import ZCDP
from dperm.accounting.events.gaussian import Gaussian
from dperm.accounting.events.not_private import NotPrivate
from dperm.accounting.events.objective_perturbation import ObjectivePerturbation
from dperm.accounting.events.one_of import OneOf
from dperm.accounting.events.plain_data import event_from_list, event_to_list
from dperm.accounting.events.pure import Pure
from dperm.accounting.events.random_trials import RandomTrials
from dperm.accounting.events.sampled import PoissonSampledGaussian
from dperm.accounting.events.softmax_perturbation import SoftmaxPerturbation
from dperm.accounting.events.unit_perturbation import UnitPerturbation

__all__ = [
    "ZCDP",
    "BoundedRange",
    "Composed",
    "Event",
    "Gaussian",
    "NotPrivate",
    "ObjectivePerturbation",
    "OneOf",
    "PoissonSampledGaussian",
    "Pure",
    "RandomTrials",
    "Repeated",
    "SingleEvent",
    "SoftmaxPerturbation",
    "UnitPerturbation",
    "event_from_list",
    "event_to_list",
]

for _module in pkgutil.iter_modules(__path__):  # plain data may name any event that has a folder here
    importlib.import_module(f"{__name__}.{_module.name}")
