"""Every kind of question that reads gradients, asked without noise: what one row moves, and what was declared."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from dperm import Problem
from dperm.kernel.oracle import Oracle
from dperm.mechanisms import (
    DescentOutputQuery,
    DifferenceQuery,
    GradientQuery,
    LastIterateQuery,
    LocalGradientQuery,
    ObjectivePerturbationQuery,
    OutputPerturbationQuery,
    PrintedEpochQuery,
    StochasticStepsQuery,
)
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, L2Ball, Logistic, Loss
from kernel.harness import P, Table, replay, setting_of

STORAGE = {"float64": None, "float32": lambda X: X.astype(np.float32), "sparse": sparse.csr_array}

# So many rows are there, and so many are declared under add_remove: whoever divides by the first moves five times as
# far as was declared.
ROWS, DECLARED = 40, 200


def _steep(margin, target):
    return 1e9 * target * (1.0 + 0.5 * margin)


def _steep_in_every_output(margin, target, slope):
    for k in range(slope.shape[0]):
        slope[k] = 1e9 * target * (1.0 + 0.5 * margin[k])


@dataclass(frozen=True)
class Steep(Loss):
    """Its slope is a billion times what it declares, at 0 even more so. Clipped, it is a straight line on the ball."""

    name = "steep"
    convex = True
    target_range = (-1.0, 1.0)
    value = staticmethod(lambda margin, target: 1e9 * target * margin)
    derivative = staticmethod(_steep)
    encode = staticmethod(lambda target: np.clip(target, -1.0, 1.0))

    def slope_bound(self, margin_bound):
        return min(1.0, 1e-3 + 0.25 * margin_bound)

    def curvature_bound(self, margin_bound):
        return 0.25

    def check_bounds(self, margin_bound):
        """Would find out."""


@dataclass(frozen=True)
class SteepInEveryOutput(Steep):
    """The same with three outputs."""

    n_outputs = 3
    derivative = staticmethod(_steep_in_every_output)


@dataclass(frozen=True)
class SteepLogistic(Logistic):
    """Called logistic, with another slope: what is known of sigmoids does not hold for it."""

    derivative = staticmethod(_steep)

    def check_bounds(self, margin_bound):
        """Would find out."""


LIARS = [Steep(), SteepLogistic(), SteepInEveryOutput()]


@dataclass(frozen=True)
class Question:
    """A query with the released points it is asked at, and how far its answer may move between adjacent tables."""

    query: object
    points: tuple
    declared: float
    more: dict

    def ask(self, problem, table, **more):
        """The answer without noise."""
        adjacency = self.query.setting.adjacency
        oracle = replay(  # with a seed whose samples have the row that differs
            problem,
            table,
            adjacency,
            self.query,
            [self.points],
            noise=None,
            oracle_type=Oracle,
            seed=1,
            **more,
            **self.more,
        )
        return oracle.answers[0]


def points_for(problem):
    """Two points of the ball; a row of ones has the larger margin at the first, in every output."""
    p = problem.dimension(P)
    return np.full(p, 0.3 / np.sqrt(p)), np.full(p, -0.2 / np.sqrt(p))


def gradient(problem, setting, rate=1.0):
    query, (w, _) = GradientQuery(setting, rate), points_for(problem)
    return Question(query, (w,), query.sensitivity_at(w), {})


def sampled_gradient(problem, setting):
    return gradient(problem, setting, 0.5)


def local_gradient(problem, setting):
    query, (w, _) = LocalGradientQuery(setting), points_for(problem)
    return Question(query, (w,), query.sensitivity_at(w), {})


def local_gradient_at_zero(problem, setting):
    query, w = LocalGradientQuery(setting), np.zeros(problem.dimension(P))
    return Question(query, (w,), query.sensitivity_at_norm(0.0), {})


def gradient_at_zero(problem, setting):
    query, w = GradientQuery(setting), np.zeros(problem.dimension(P))
    return Question(query, (w,), query.sensitivity_at_norm(0.0), {})


def difference(problem, setting, rate=1.0):
    query, (w, anchor) = DifferenceQuery(setting, rate), points_for(problem)
    return Question(query, (w, anchor), query.sensitivity_at(w, anchor), {})


def sampled_difference(problem, setting):
    return difference(problem, setting, 0.5)


def printed_epoch(problem, setting):
    query, points = PrintedEpochQuery(setting, 0.5, 1, 0.4), points_for(problem)
    # Its direction is a sampled difference and the anchor's gradient; the iterates follow from it by steps of 1.
    both = query.sensitivity + setting.sum_sensitivity / setting.n
    return Question(query, points, np.sqrt(3.0) * both, {"step_size": 1.0})


def stochastic_steps(problem, setting):
    query, (w, _) = StochasticStepsQuery(setting, 0.5, 1), points_for(problem)
    return Question(query, (w,), np.sqrt(2.0) * 0.1 * query.sensitivity, {"step_size": np.array([0.1])})


def last_iterate(problem, setting):
    query, (w, _) = LastIterateQuery(setting, 1, 0.1), points_for(problem)
    return Question(query, (w,), query.step_sensitivity, {})


def descent_output(problem, setting):
    query, (w, _) = DescentOutputQuery(setting, 3, 0.1), points_for(problem)
    return Question(query, (w,), query.sensitivity, {})


def output_perturbation(problem, setting):
    query, (w, _) = OutputPerturbationQuery(setting, 1e-9), points_for(problem)
    return Question(query, (w,), query.sensitivity, {})


def objective_perturbation(problem, setting, share=1.0):
    query, (w, _) = ObjectivePerturbationQuery(setting, 2.0, 1e-9, 0.1, "Gaussian", share), points_for(problem)
    # The linear term that belongs to a minimiser moves by `sensitivity`, the minimiser by that over n(μ + ridge).
    moved = query.sensitivity / setting.n + 2.0 * query.tolerance
    return Question(query, (w,), moved / query.strong_convexity, {})


def objective_perturbation_with_slopes_cut(problem, setting):
    return objective_perturbation(problem, setting, 0.25)


QUESTIONS = [
    gradient, gradient_at_zero, sampled_gradient, local_gradient, local_gradient_at_zero, difference,
    sampled_difference, printed_epoch, stochastic_steps, last_iterate, descent_output, output_perturbation,
    objective_perturbation, objective_perturbation_with_slopes_cut,
]  # fmt: skip


def ball_problem(loss, intercept=True):
    """A strongly convex problem on a ball on which the lying losses, once clipped, are straight lines."""
    return Problem(loss, L2(0.5), L2Ball(1.0), row_norm=1.2, intercept=intercept, weight_bound=1.1)


def adjacent_tables(adjacency, seed=0):
    """Two tables of `ROWS` rows and the public n: one row comes, or turns its target around."""
    X = 0.01 * np.random.default_rng(seed).normal(size=(ROWS, P))
    y = np.tile([1.0, -1.0], ROWS // 2)
    one, two = (Table(X.copy(), y.copy(), weights=np.full(ROWS, 1.1)) for _ in range(2))
    one.X[1] = two.X[1] = np.full(P, 5.0)  # far too long
    one.y[1], two.y[1] = (np.nan if adjacency is Adjacency.ADD_REMOVE else -1.0), 1.0  # NaN: it is ignored
    return one, two, DECLARED if adjacency is Adjacency.ADD_REMOVE else ROWS


def pair_of_answers(ask, loss, adjacency, storage="float64", problem=None):
    """The question and its answers on both tables."""
    problem = problem or ball_problem(loss)
    one, two, n = adjacent_tables(adjacency)
    question = ask(problem, setting_of(problem, adjacency, n=n))
    return question, *(question.ask(problem, table, as_rows=STORAGE[storage]) for table in (one, two))
