"""Accounting events: what ran, each in a file of its own that owns its privacy curve."""

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
