"""The proximal step of r on C, for every pair: this tests each claim that projecting after the prox is exact."""

import itertools

import numpy as np
import pytest

from contracts.discovered import DOMAINS, REGULARIZERS
from contracts.test_every_domain import fits
from dperm import Problem
from dperm.kernel import native
from dperm.problem import (
    L1,
    L2,
    BlockDomain,
    BlockRegularizer,
    Box,
    ElasticNet,
    GroupL2,
    L1Ball,
    L2Ball,
    Logistic,
    NoRegularizer,
    Simplex,
    WholeSpace,
)
from dperm.problem.dykstra import dykstra
from dperm.problem.prox import composite_prox, coordinate_prox, prox_is_exact

PAIRS = [
    pytest.param(Problem(Logistic(), regularizer, domain), p, id=f"{regularizer}-{domain}-{p}")
    for regularizer, domain in itertools.product(REGULARIZERS, DOMAINS)
    for p in (6, 11)
    if fits(domain, p)
]
every_pair = pytest.mark.parametrize(("problem", "p"), PAIRS)

SCALES_AND_STEPS = list(itertools.product((0.3, 3.0, 30.0), (0.01, 0.5, 5.0)))


def check_prox(problem, v, step, rng, tolerance):
    """Check that z lies in C and that no u in C contradicts the definition of the proximal step."""
    z = problem.prox(v, step)
    np.testing.assert_allclose(problem.domain.project(z), z, rtol=0, atol=1e-9)
    regularizer = problem.regularizer
    for reach in (1e-3, 0.1, 10.0):
        for direction in rng.normal(size=(4, v.size)):
            u = problem.domain.project(z + reach * direction)
            quadratic = 0.5 * step * regularizer.strong_convexity * ((u - z) @ (u - z))
            lower = step * regularizer.value(z) + (v - z) @ (u - z) + quadratic
            assert step * regularizer.value(u) >= lower - tolerance


@pytest.mark.one_case_in(5)
@every_pair
def test_prox_lies_in_the_domain_and_minimises(problem, p):
    rng = np.random.default_rng(0)
    for scale, step in SCALES_AND_STEPS:
        check_prox(problem, scale * rng.normal(size=p), step, rng, tolerance=1e-7)


@pytest.mark.one_case_in(5)
@every_pair
def test_prox_minimises_where_the_penalty_outweighs_the_domain(problem, p):
    # For rows of norm 0.02 the step 1/L is 1e4 long, and step times gradient at most 200.
    rng = np.random.default_rng(0)
    for scale in (3.0, 200.0):
        check_prox(problem, scale * rng.normal(size=p) / np.sqrt(p), 1e4, rng, tolerance=1e-5)


@pytest.mark.one_case_in(5)
@every_pair
def test_prox_contracts_as_the_strong_convexity_says(problem, p):
    rng = np.random.default_rng(0)
    for scale, step in SCALES_AND_STEPS:
        factor = 1.0 / (1.0 + step * problem.regularizer.strong_convexity)
        v = scale * rng.normal(size=p)
        for distance in (1e-2, 1.0):
            w = v + distance * rng.normal(size=p)
            moved = np.linalg.norm(problem.prox(v, step) - problem.prox(w, step))
            assert moved <= factor * np.linalg.norm(v - w) + 1e-7


@pytest.mark.cases_with_every_value
@every_pair
def test_the_native_form_of_a_prox_is_the_prox(problem, p):
    separable = isinstance(problem.regularizer, (NoRegularizer, L1, L2, ElasticNet))
    separable = separable and isinstance(problem.domain, (WholeSpace, Box, L2Ball))
    form = coordinate_prox(problem.regularizer, problem.domain)
    assert (form is not None) == separable
    if form is None:
        return
    rng, name = np.random.default_rng(0), problem.regularizer.name
    low, high = (np.array(np.broadcast_to(side, p), float) for side in (form.low, form.high))
    for scale, step in SCALES_AND_STEPS:
        v = scale * rng.normal(size=p)
        moved = native.proximal_step(name, form.parameters, low, high, form.radius, v, np.zeros(p), step)
        np.testing.assert_allclose(form(v, step), moved, rtol=1e-14, atol=0)
        expected = composite_prox(problem.regularizer, problem.domain, v, step)
        np.testing.assert_allclose(moved, expected, rtol=1e-14, atol=0)


BALLS = BlockDomain(((0, 3, L2Ball(0.5)), (3, 6, L1Ball(0.8))))
GROUPS_IN_HALF = BlockRegularizer(((0, 3, GroupL2(0.4, groups=((0, 1),))), (3, 6, L1(0.2))))


@pytest.mark.parametrize(
    ("regularizer", "domain", "exact"),
    [
        (NoRegularizer(), BALLS, True),
        (L1(0.2), BALLS, True),
        (L1(0.2), BlockDomain(((1, 4, Simplex(2.0)),)), True),  # outside of the block it is L1 alone
        (ElasticNet(0.3, 0.5), BlockDomain(((1, 4, Box(-0.2, 0.4)),)), True),
        (GROUPS_IN_HALF, WholeSpace(), True),
        (GROUPS_IN_HALF, BlockDomain(((0, 3, Box(-0.2, 0.4)), (3, 6, L1Ball(0.8)))), True),
        (GROUPS_IN_HALF, BlockDomain(((0, 3, Simplex(1.0)),)), True),
        (BlockRegularizer(((1, 3, L2(0.5)),)), BlockDomain(((3, 6, L1Ball(0.8)),)), True),
        (BlockRegularizer(((0, 2, L1(0.5)),)), BALLS, False),  # the blocks overlap without being the same
        (GroupL2(0.4, groups=((2, 3),)), BALLS, False),
        (GROUPS_IN_HALF, L2Ball(0.5), False),
    ],
    ids=str,
)
def test_block_pairs_are_called_exact_where_the_prox_is_that_of_the_blocks(regularizer, domain, exact):
    assert prox_is_exact(regularizer, domain) == exact
    rng = np.random.default_rng(0)
    for scale, step in SCALES_AND_STEPS[:6]:
        v = scale * rng.normal(size=6)
        slow = dykstra(regularizer, domain, v, step)
        np.testing.assert_allclose(composite_prox(regularizer, domain, v, step), slow, rtol=0, atol=1e-9 * scale)


def test_a_prox_that_ties_coordinates_together_has_no_native_form():
    for regularizer in (NoRegularizer(), L2(1.0), L1(1.0)):
        assert coordinate_prox(regularizer, L1Ball(1.0)) is None
