"""Every mechanism of the package with ordinary settings, and how it is asked."""

import numpy as np

from contracts.discovered import concrete
from dperm import Problem
from dperm.mechanisms import (
    AdaptedObjectiveQuery,
    DescentOutputQuery,
    DifferenceQuery,
    GradientQuery,
    HessianQuery,
    HistogramQuery,
    LastIterateQuery,
    LocalGradientQuery,
    MomentsQuery,
    ObjectivePerturbationQuery,
    OutputPerturbationQuery,
    PrintedEpochQuery,
    Query,
    RangeQuery,
    SmallestEigenvalueQuery,
    StochasticStepsQuery,
    VertexQuery,
)
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, L1Ball, Logistic

N, P = 300, 4
# A problem that every mechanism takes.
PROBLEM = Problem(Logistic(), L2(0.1), L1Ball(2.0))
SETTING = Setting(PROBLEM.constants(P), N, Adjacency.REPLACE_ONE)
CANDIDATES = tuple(np.linspace(-60.0, 60.0, 400).tolist())

# What is released before a solver runs, about a table with a schema.
FIXED = (RangeQuery, HistogramQuery)

LISTED = [
    GradientQuery(SETTING),
    GradientQuery(SETTING, 0.3),
    LocalGradientQuery(SETTING),
    DifferenceQuery(SETTING, 0.3),
    HessianQuery(SETTING),
    SmallestEigenvalueQuery(SETTING),
    MomentsQuery(SETTING, 0.7, 1.5),
    LastIterateQuery(SETTING, 5, 0.5),
    DescentOutputQuery(SETTING, 5, 0.5),
    OutputPerturbationQuery(SETTING, 1e-6),
    ObjectivePerturbationQuery(SETTING, 0.05, 1e-6, 0.01, "Gaussian"),
    ObjectivePerturbationQuery(SETTING, 0.05, 1e-6, 0.01, "Gamma"),
    AdaptedObjectiveQuery(SETTING, 0.05, 1e-6, 0.01, "Gaussian"),
    PrintedEpochQuery(SETTING, 0.3, 4, 0.5),
    StochasticStepsQuery(SETTING, 0.3, 4),
    VertexQuery(SETTING),
    VertexQuery(SETTING, "laplace"),
    HistogramQuery(SETTING, ("x0", "x2"), 3.0),
    HistogramQuery(SETTING, ("x0", "x2"), 3.0, "Laplace"),
    RangeQuery(SETTING, "x0", CANDIDATES, 3.0),
    RangeQuery(SETTING, "x0", CANDIDATES, 3.0, "Laplace"),
]
# One that needs no settings of its own is tested unasked.
MECHANISMS = [*(cls(SETTING) for cls in concrete(Query) if cls not in {type(query) for query in LISTED}), *LISTED]


def name(query):
    """For a test's identifier: the settings are the same in all."""
    return f"{type(query).__name__}-{query.distribution}-{query.sampling_rate:g}"


def question(query):
    """Released points, and a step size where one belongs to it."""
    rng = np.random.default_rng(7)
    # Numbers that a mechanism takes besides points are shares or strengths, above 0.
    points = [
        rng.normal(size=size) / 4.0 if size == SETTING.constants.dimension else np.full(size, 0.25)
        for size in query.point_sizes
    ]
    sizes = {PrintedEpochQuery: 0.5, StochasticStepsQuery: np.full(query.n_steps, 0.5)}
    return points, {"step_size": sizes[type(query)]} if query.takes_step_size else {}
