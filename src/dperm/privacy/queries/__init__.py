"""What a solver may ask, one file a query."""

from dperm.privacy.queries.base import Query, check_sampling_rate
from dperm.privacy.queries.descent_output import DescentOutputQuery
from dperm.privacy.queries.difference import DifferenceQuery
from dperm.privacy.queries.gradient import GradientQuery
from dperm.privacy.queries.hessian import HessianQuery, SmallestEigenvalueQuery
from dperm.privacy.queries.last_iterate import LastIterateQuery
from dperm.privacy.queries.local_gradient import LocalGradientQuery
from dperm.privacy.queries.objective_perturbation import ObjectivePerturbationQuery
from dperm.privacy.queries.output_perturbation import OutputPerturbationQuery
from dperm.privacy.queries.printed_epoch import PrintedEpochQuery
from dperm.privacy.queries.stochastic_steps import StochasticStepsQuery
from dperm.privacy.queries.vertex import VertexQuery

__all__ = [
    "DescentOutputQuery",
    "DifferenceQuery",
    "GradientQuery",
    "HessianQuery",
    "LastIterateQuery",
    "LocalGradientQuery",
    "ObjectivePerturbationQuery",
    "OutputPerturbationQuery",
    "PrintedEpochQuery",
    "Query",
    "SmallestEigenvalueQuery",
    "StochasticStepsQuery",
    "VertexQuery",
    "check_sampling_rate",
]
