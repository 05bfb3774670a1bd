"""The bound on a coefficient's noise, for error bars: never below what noise does."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from dperm import FitOptions, Guarantee, Problem, minimize
from dperm.problem import L2, Logistic, Squared
from dperm.problem.domains import L2Ball
from dperm.solvers import DPObjective


def rms(fits):
    """Root mean square of what noise does to a coefficient, where it does the same to all."""
    return math.sqrt(np.mean(np.concatenate(fits) ** 2))


PURE = ("dp-objective", "kifer-objective", "chaudhuri-objective", "chaudhuri-output")


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize(
    ("solver", "delta"), [*((name, delta) for name in PURE for delta in (0.0, 1e-6)), ("zhang-output", 1e-6)]
)
def test_without_curvature_the_bound_is_met(solver, delta):
    # Rows of zeros: nothing but the ridge holds against noise, so the bound is what noise does, before shrinking.
    problem, n, p = Problem(Logistic(), L2(0.05)), 1000, 60
    more = {"guarantee": Guarantee(1.0, delta), "solver": solver}
    bound = FitOptions(problem, **more).plan(n, p).statement.coefficient_noise
    fits = [minimize(problem, csr_matrix((n, p)), np.ones(n), random_state=seed, **more).w for seed in range(40)]
    found = rms(fits)
    # 2400 coefficients; for Gamma noise the lengths of 40 vectors vary by 1/√60 each. Five standard deviations.
    assert found <= bound * (1.0 + 5.0 / math.sqrt(2 * 2400) + 5.0 / math.sqrt(40 * 60))
    if solver != "dp-objective":  # which shrinks
        assert found >= 0.8 * bound


def test_the_noise_that_hides_the_end_of_a_minimisation_is_counted():
    # A weak ridge and many rows, where that noise is as large as the other one.
    problem, n, p = Problem(Logistic(), L2(1e-6)), 10**6, 900
    more = {"guarantee": Guarantee(10.0, 1e-7), "solver": DPObjective(n_stages=1)}
    bound = FitOptions(problem, **more).plan(n, p).statement.coefficient_noise
    found = rms([minimize(problem, csr_matrix((n, p)), np.ones(n), random_state=seed, **more).w for seed in range(3)])
    assert 0.5 * bound < found <= bound * (1.0 + 5.0 / math.sqrt(2 * 2700) + 5.0 / math.sqrt(3 * 900))


def test_where_no_bound_is_known_none_is_given():
    for solver in ("dp-gd", "dp-sgd", "dp-newton"):
        fit = FitOptions(Problem(Logistic(), L2(0.01)), guarantee=Guarantee(1.0, 1e-6), solver=solver).plan(10_000, 5)
        assert fit.statement.coefficient_noise is None
    nothing = FitOptions(Problem(Squared(), domain=L2Ball(1.0)), guarantee=None, noise=None).plan(10_000, 5)
    assert nothing.statement.coefficient_noise is None


@pytest.mark.parametrize(("solver", "delta"), [("kifer-objective", 1e-6), ("chaudhuri-output", 0.0)])
def test_the_bound_holds_for_sums_with_weights_of_norm_one(solver, delta):
    """Bands of the pictures rest on it: neighbouring bins are drawn as (1 − t, t), scaled to norm 1."""
    problem, n, p, fits = Problem(Logistic(), L2(0.05)), 1000, 60, 40
    more = {"guarantee": Guarantee(1.0, delta), "solver": solver}
    bound = FitOptions(problem, **more).plan(n, p).statement.coefficient_noise
    found = np.array(
        [minimize(problem, csr_matrix((n, p)), np.ones(n), random_state=seed, **more).w for seed in range(fits)]
    )
    for t in (0.5, 0.8):
        weights = np.array([1.0 - t, t]) / math.hypot(1.0 - t, t)
        sums = found[:, ::2] * weights[0] + found[:, 1::2] * weights[1]
        # 1200 sums; for Gamma noise the lengths of 40 vectors vary by 1/√60 each. Five standard deviations.
        slack = 5.0 / math.sqrt(2 * fits * p / 2) + 5.0 / math.sqrt(fits * p)
        assert 0.8 * bound <= rms(list(sums)) <= bound * (1.0 + slack)
