"""What every solver promises: a public plan, a kept budget, an answer in the domain, and the optimum without noise."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy import sparse

from contracts.solvers import CONVERGING_EXAMPLES, METHODS, SOLVER_EXAMPLES, noiseless_gap
from dperm import FitOptions, Guarantee, Problem, minimize
from dperm.accounting.composition import epsilon_of
from dperm.errors import UnsupportedProblemError
from dperm.paper.printed import has_published_noise
from dperm.privacy.caveats import Caveat
from dperm.privacy.guarantee import Adjacency
from dperm.problem import (
    L1,
    L2,
    Box,
    ElasticNet,
    GroupBall,
    GroupL2,
    Huber,
    L1Ball,
    L2Ball,
    Logistic,
    Poisson,
    Sigmoid,
    Simplex,
    SmoothedHinge,
    Softmax,
    Squared,
    Welsch,
)
from dperm.solvers import AUTOMATIC, DPGD, SOLVERS
from dperm.unsafe import empirical_risk

GUARANTEE = Guarantee(1.0, 1e-6)
N, P = 600, 6
PROBLEMS = [
    Problem(Logistic(), L2(0.05)),
    Problem(Logistic(), L2(0.05), intercept=True),
    Problem(Logistic(), ElasticNet(0.05, 0.5), L2Ball(2.0)),
    Problem(Logistic(), L1(0.01), L1Ball(3.0)),
    Problem(Logistic(), GroupL2(0.02, ((0, 1), (2, 3))), Box(-2.0, 2.0)),
    Problem(Softmax(3), L2(0.05), intercept=True),
    Problem(SmoothedHinge(), L2(0.05)),
    Problem(Squared(), L2(0.05), L2Ball(1.5)),
    Problem(Squared(), L2(0.05), L2Ball(1.5), intercept=True),
    Problem(Squared(), domain=Simplex()),
    Problem(Logistic(), domain=L1Ball(3.0)),
    Problem(Logistic(), domain=L1Ball(3.0), intercept=True, row_norm=2.0, entry_bound=0.5),
    Problem(Logistic(), domain=L2Ball(2.0), intercept=True),
    Problem(Logistic(), domain=Box(-0.5, 2.0)),
    Problem(Logistic(), domain=GroupBall(2.0, ((0, 1), (2, 3, 4), (5,)))),
    Problem(Softmax(3), domain=L1Ball(3.0)),
    Problem(Huber(0.5), L2(0.05)),
    Problem(Poisson(target_bound=4.0), L2(0.1)),
]
NON_CONVEX = [Problem(Sigmoid(), L2(0.05)), Problem(Welsch(), domain=L2Ball(2.0))]


def table_for(problem, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P)) / np.sqrt(P)
    margin = X @ rng.normal(size=P) + 0.3
    if problem.loss.n_outputs > 1:
        return X, np.digitize(margin, [-0.5, 0.7]).astype(float)
    if problem.loss.name == "poisson":
        return X, np.minimum(rng.poisson(np.exp(margin)), 4).astype(float)
    return (
        (X, margin) if problem.loss.target_range != (-1.0, 1.0) or problem.loss.clipped_range else (X, np.sign(margin))
    )


@functools.cache
def least_risk(problem):
    """The risk that exact gradient descent reaches, found once for all solvers."""
    X, y = table_for(problem)
    return empirical_risk(problem, X, y, minimize(problem, X, y, guarantee=None, noise=None, solver="dp-gd").w)


def names(problem):
    return f"{problem.loss.name}-{problem.regularizer.name}-{problem.domain.name}{'-intercept' * problem.intercept}"


def takes(solver, problem):
    return solver.refusal(problem) is None


# A problem of every kind for all solvers; `make test-slow` takes the others as well.
SOME_PROBLEMS = [*(PROBLEMS[i] for i in (0, 2, 5, 7, 10)), NON_CONVEX[0]]


def pairs(solvers, problems):
    """Every solver with every problem that it takes."""
    sample = {True: [], False: [pytest.mark.slow]}
    return [
        pytest.param(solver, problem, id=f"{solver!r}-{names(problem)}", marks=sample[problem in SOME_PROBLEMS])
        for solver in solvers
        for problem in problems
        if takes(solver, problem)
    ]


def first_taken_by(solver, intercept=False):
    """A problem that the solver takes, logistic if it takes one."""
    taken = [p for p in PROBLEMS if takes(solver, p) and p.intercept == intercept]
    return min(taken, key=lambda problem: problem.loss != Logistic())


def test_every_solver_is_listed_by_its_name():
    """But for the published forms, which are there to compare with and not for "auto"."""
    listed = {cls.name: cls for cls in METHODS if not cls.__module__.startswith("dperm.paper.printed.")}
    assert listed == SOLVERS
    assert [cls.listed for cls in AUTOMATIC] == sorted(cls.listed for cls in AUTOMATIC)
    for solver in METHODS:
        assert all(dataclasses.asdict(solver.profile).values())


@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
def test_what_a_plan_decided_is_a_frozen_dataclass(solver):
    settings = FitOptions(first_taken_by(solver), guarantee=GUARANTEE, solver=solver).plan(500, P).settings
    assert dataclasses.is_dataclass(settings)
    assert type(settings).__dataclass_params__.frozen


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("solver", "problem"), pairs(SOLVER_EXAMPLES, PROBLEMS + NON_CONVEX))
def test_the_plan_is_public_and_calibrated_and_keeps_the_guarantee(solver, problem, adjacency):
    first, second = (
        FitOptions(problem, guarantee=GUARANTEE, solver=solver, adjacency=adjacency).plan(5000, P) for _ in range(2)
    )
    assert first.calibrated == second.calibrated
    assert epsilon_of(first.event, GUARANTEE.delta, adjacency) <= GUARANTEE.epsilon
    assert first.calibrated.noise_multiplier > 0
    assert first.privacy.caveats == (Caveat.PLAN_ONLY,)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize(("solver", "problem"), pairs(SOLVER_EXAMPLES, PROBLEMS + NON_CONVEX))
def test_the_answer_is_finite_and_in_the_domain(solver, problem):
    X, y = table_for(problem)
    w = minimize(problem, X, y, guarantee=GUARANTEE, solver=solver).w
    assert w.shape == (problem.dimension(P),)
    assert np.isfinite(w).all()
    np.testing.assert_allclose(problem.domain.project(w), w, atol=1e-9)


@pytest.mark.one_case_in(7, of_each="solver")
@pytest.mark.parametrize(("solver", "problem"), pairs(CONVERGING_EXAMPLES, PROBLEMS))
def test_without_noise_it_reaches_the_optimum(solver, problem):
    """No point near the answer, and none on the way to a long independent run, has a lower risk."""
    X, y = table_for(problem)
    release = minimize(problem, X, y, guarantee=None, noise=None, solver=solver)
    risk, gap = empirical_risk(problem, X, y, release.w), noiseless_gap(solver, problem, N, P)
    assert gap < 0.01
    rng = np.random.default_rng(1)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(25):
            other = problem.domain.project(release.w + size * rng.normal(size=release.w.size))
            assert empirical_risk(problem, X, y, other) >= risk - gap
    assert risk <= least_risk(problem) + gap + 1e-6
    assert not release.privacy.for_release


def many_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8_000, P)) / np.sqrt(P)
    return X, np.sign(X @ rng.normal(size=P))


@functools.cache
def least_risk_of_many_rows(problem):
    X, y = many_rows()
    return empirical_risk(problem, X, y, minimize(problem, X, y, guarantee=None, noise=None).w)


@pytest.mark.one_case_in(2, of_each="solver")
@pytest.mark.parametrize("n_fits", [4, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
def test_more_budget_brings_less_excess_risk(solver, n_fits):
    problem = first_taken_by(solver)
    X, y = many_rows()
    best = least_risk_of_many_rows(problem)

    def excess(epsilon):
        fits = (
            minimize(problem, X, y, guarantee=Guarantee(epsilon, 1e-6), solver=solver, random_state=s)
            for s in range(n_fits)
        )
        return np.mean([empirical_risk(problem, X, y, fit.w) - best for fit in fits])

    assert excess(0.05) > excess(1.0) > -1e-9


@pytest.mark.long
@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
def test_sparse_rows_give_the_same_answer_as_dense_ones(solver):
    problem = first_taken_by(solver, intercept=True)
    X, y = table_for(problem)
    X[np.abs(X) < 0.3] = 0.0
    dense = minimize(problem, X, y, guarantee=GUARANTEE, solver=solver, random_state=3)
    thin = minimize(problem, sparse.csr_matrix(X), y, guarantee=GUARANTEE, solver=solver, random_state=3)
    np.testing.assert_allclose(thin.w, dense.w, rtol=1e-8, atol=1e-10)


def test_the_uniform_iterate_is_drawn_from_the_start_to_the_last_but_one():
    problem = PROBLEMS[0]
    X, y = table_for(problem)
    only = DPGD(n_steps=1, release="uniform")
    np.testing.assert_array_equal(minimize(problem, X, y, guarantee=GUARANTEE, solver=only).w, np.zeros(P))
    two = DPGD(n_steps=2, release="uniform")
    drawn = [minimize(problem, X, y, guarantee=GUARANTEE, solver=two, random_state=s).w.any() for s in range(40)]
    assert 0 < sum(drawn) < 40


@pytest.mark.parametrize("solver", SOLVER_EXAMPLES, ids=repr)
def test_the_paper_noise_is_never_for_release(solver):
    problem = first_taken_by(solver)
    if not has_published_noise(solver):  # no formula was ever given for it
        with pytest.raises(
            UnsupportedProblemError, match="noise='certified', or a method that has some: dp-gd, dp-svrg, "
        ):
            FitOptions(problem, guarantee=GUARANTEE, solver=solver, noise="paper").plan(100, P)
        return
    fit = FitOptions(problem, guarantee=GUARANTEE, solver=solver, noise="paper").plan(100, P)
    assert not fit.statement.for_release
    assert fit.calibrated.noise_multiplier > 0
