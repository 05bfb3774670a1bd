"""Output perturbation of Chaudhuri and Monteleoni 2009: the exact minimiser, plus noise, with pure ε."""

from dataclasses import dataclass

from dperm.mechanisms import OutputPerturbationQuery
from dperm.mechanisms.base import why_not_solvable
from dperm.mechanisms.plan import Plan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.solvers.base import Array, Oracle, Profile, Solver
from dperm.solvers.expected import moved_risk
from dperm.solvers.perturbation.tolerance import needs_a_stable_minimiser, tolerance_for
from dperm.solvers.refusals import needs_strong_convexity


@dataclass(frozen=True)
class OutputSettings:
    """How exactly the minimiser is solved for."""

    tolerance: float


@dataclass(frozen=True)
class ChaudhuriOutput(Solver):
    """argmin F^r + b with a density of b ∝ exp(−nμε‖b‖/(2G)).

    Examples
    --------
    >>> from dperm import Guarantee, Problem, FitOptions
    >>> from dperm.problem import L2, Logistic
    >>> from dperm.solvers import ChaudhuriOutput
    >>> problem = Problem(Logistic(), L2(0.01))
    >>> options = FitOptions(problem, guarantee=Guarantee(1.0, 0.0), solver=ChaudhuriOutput())
    >>> options.plan(10_000, 20).privacy.certified_delta
    0.0
    """

    name = "chaudhuri-output"
    listed = 7
    pure = True
    profile = Profile(
        summary="the exact minimiser with Gamma noise on it, pure ε",
        source="Chaudhuri and Monteleoni 2009; Chaudhuri, Monteleoni and Sarwate 2011, Algorithm 1",
        table="Table 1, Chaudhuri et al.; output perturbation",
        utility="p² log²(p)/(μn²ε²)",
        gradients="until the minimiser is solved for",
        regularizers="published for differentiable ones; here every strongly convex one; any domain",
        adjacency="published for replace_one; certified for both",
        needs="convex smooth loss, strongly convex F^r",
    )

    def is_pure(self, guarantee: Guarantee) -> bool:
        """Whatever δ is."""
        return True

    def refusal(self, problem: Problem) -> str | None:
        """The minimiser must not move far when a row does."""
        return needs_strong_convexity(problem) or needs_a_stable_minimiser(problem)

    def refusal_at(self, setting: Setting, guarantee: Guarantee) -> str | None:
        """The minimiser must be solvable on every table, or that it was not would show."""
        strong_convexity = setting.constants.strong_convexity
        return why_not_solvable(setting, tolerance_for(setting, strong_convexity), strong_convexity)

    def plan(self, setting: Setting, guarantee: Guarantee | None) -> Plan[OutputSettings]:
        """One minimisation."""
        if guarantee is not None:
            self.check_at(setting, guarantee)
        query = OutputPerturbationQuery(setting, tolerance_for(setting, setting.constants.strong_convexity))
        mechanism = "chaudhuri-output, the exact minimiser plus noise of density ∝ exp(−‖b‖/scale)"
        return Plan(mechanism, (PlannedQuery(query),), OutputSettings(query.tolerance))

    def expected_risk(self, setting: Setting, guarantee: Guarantee) -> float:
        """What Gamma noise does, E‖noise‖² = p(p + 1) scale²."""
        p = setting.constants.dimension
        scale = self.plan(setting, guarantee).planned[0].query.sensitivity / guarantee.epsilon
        return moved_risk(setting, p * (p + 1.0) * scale**2)

    def run(self, oracle: Oracle, problem: Problem, plan: Plan[OutputSettings], start: Array) -> Array:
        """Ask once; the projection is post-processing."""
        return problem.domain.project(oracle.ask(plan.planned[0], start))
