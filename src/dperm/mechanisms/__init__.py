"""What may be asked of rows, one folder per mechanism: the query, and beside it the module `answer`.

Only the trusted kernel imports an `answer`.
"""

from dperm.mechanisms.adapted_objective import AdaptedObjectiveQuery
from dperm.mechanisms.base import Query, check_sampling_rate
from dperm.mechanisms.descent_output import DescentOutputQuery
from dperm.mechanisms.difference import DifferenceQuery
from dperm.mechanisms.gradient import GradientQuery
from dperm.mechanisms.hessian import HessianQuery, SmallestEigenvalueQuery
from dperm.mechanisms.histogram import HistogramQuery
from dperm.mechanisms.last_iterate import LastIterateQuery
from dperm.mechanisms.local_gradient import LocalGradientQuery
from dperm.mechanisms.moments import MomentsQuery
from dperm.mechanisms.objective_perturbation import ObjectivePerturbationQuery
from dperm.mechanisms.output_perturbation import OutputPerturbationQuery
from dperm.mechanisms.printed_epoch import PrintedEpochQuery
from dperm.mechanisms.range import RangeQuery
from dperm.mechanisms.slope_size import SlopeSizeQuery
from dperm.mechanisms.stochastic_steps import StochasticStepsQuery
from dperm.mechanisms.vertex import VertexQuery

__all__ = [
    "AdaptedObjectiveQuery",
    "DescentOutputQuery",
    "DifferenceQuery",
    "GradientQuery",
    "HessianQuery",
    "HistogramQuery",
    "LastIterateQuery",
    "LocalGradientQuery",
    "MomentsQuery",
    "ObjectivePerturbationQuery",
    "OutputPerturbationQuery",
    "PrintedEpochQuery",
    "Query",
    "RangeQuery",
    "SlopeSizeQuery",
    "SmallestEigenvalueQuery",
    "StochasticStepsQuery",
    "VertexQuery",
    "check_sampling_rate",
]
