"""AdaSSP as published: λ_min, XᵀX and Xᵀy with noise, then one solution of the normal equations."""

import math
from dataclasses import dataclass, replace

import numpy as np

from dperm.mechanisms import HessianQuery, LocalGradientQuery, Query, SmallestEigenvalueQuery
from dperm.mechanisms.plan import CalibratedPlan, Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.paper.printed.registry import published, published_as
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Solver
from dperm.solvers.second_order.adassp import AdaSSP

# ϱ: the published ridge is large enough with probability 1 − ϱ.
_FAILURE = 0.05


@dataclass(frozen=True)
class PublishedAdaSSPSettings:
    """By how much the noisy λ_min is lowered, and the ridge that is wanted where it is 0."""

    lowered: float
    wanted: float


@dataclass(frozen=True)
class PublishedAdaSSP(Solver):
    """Algorithm 2 of Wang 2018: least squares with a ridge as large as the noisy λ_min leaves it necessary.

    The shares of the noise are the published ones; certified noise is calibrated for all three answers together.

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.problem import L2Ball, Squared
    >>> from dperm.paper.printed import PublishedAdaSSP
    >>> problem = Problem(Squared(), domain=L2Ball(3.0))
    >>> options = FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver=PublishedAdaSSP())
    >>> options.plan(20_000, 8).statement.n_steps
    3
    """

    name = "adassp as published"
    profile = replace(
        AdaSSP.profile,
        summary="least squares from noisy second moments, solved once",
        source="Wang 2018, Algorithm 2 (AdaSSP)",
    )

    def refusal(self, problem: Problem) -> str | None:
        """Squared loss, a ridge or none, an l2 ball."""
        return AdaSSP().refusal(problem)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[PublishedAdaSSPSettings]:
        """λ_min, XᵀX and Xᵀy with ε/3 and δ/3 each, the first two times R², the last R·sup|y|."""
        smallest, moments, gradient = (
            SmallestEigenvalueQuery(setting),
            HessianQuery(setting),
            LocalGradientQuery(setting),
        )
        mechanism = f"{self.name}, λ_min, XᵀX and Xᵀy with noise"
        if guarantee is None:
            planned = tuple(PlannedQuery(query) for query in (smallest, moments, gradient))
            return Plan(mechanism, planned, PublishedAdaSSPSettings(0.0, 0.0))
        log_term, share = math.log(6.0 / guarantee.delta), guarantee.epsilon / 3.0
        scale, constants, n = math.sqrt(log_term) / share, setting.constants, setting.n
        of_moments = scale * constants.smoothness / n
        noise: tuple[tuple[Query, float], ...] = (
            (smallest, of_moments / smallest.sensitivity),
            (moments, of_moments / moments.sensitivity),
            (gradient, scale * constants.lipschitz_at_zero / n / gradient.sensitivity_at_norm(0.0)),
        )
        p = constants.dimension
        wanted = math.sqrt(p * log_term * math.log(2.0 * p**2 / _FAILURE)) / share * constants.smoothness / n
        settings = PublishedAdaSSPSettings(log_term / share * constants.smoothness / n, wanted)
        return Plan(mechanism, tuple(PlannedQuery(query, 1, multiplier) for query, multiplier in noise), settings)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[PublishedAdaSSPSettings], start: Array) -> Array:
        """Ask three times at 0, solve once."""
        smallest, moments, gradient = (oracle.ask(item, np.zeros(start.size)) for item in plan.planned)
        certain = max(float(smallest[0]) - plan.settings.lowered, 0.0)
        ridge = max(0.0, plan.settings.wanted - certain) + problem.regularizer.strong_convexity
        found = -np.linalg.solve(moments + ridge * np.eye(start.size), gradient)
        return problem.domain.project(np.asarray(found, dtype=np.float64))


@published_as(AdaSSP)
def as_published(solver: AdaSSP) -> PublishedAdaSSP:
    """The published form has no settings."""
    return PublishedAdaSSP()


@published(PublishedAdaSSP)
def algorithm_2(solver: PublishedAdaSSP, setting: Setting, guarantee: Guarantee) -> CalibratedPlan:
    """The plan has the published noise already."""
    return CalibratedPlan(solver.plan(setting, guarantee), 1.0)
