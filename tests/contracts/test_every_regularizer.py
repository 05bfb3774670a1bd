"""What every regularizer promises: a convex value, and the proximal step that belongs to it."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dperm
from contracts.discovered import REGULARIZERS, concrete
from dperm.problem import L2Ball, Logistic
from dperm.problem.regularizers import L1, L2, BlockRegularizer, ElasticNet, GroupL2, NoRegularizer, Regularizer

quick = settings(deadline=None, max_examples=40, derandomize=True)
every_regularizer = pytest.mark.parametrize("regularizer", REGULARIZERS, ids=repr)

two_points = arrays(np.float64, (2, 6), elements=st.floats(-10.0, 10.0))
steps = st.floats(1e-3, 20.0)


def test_every_exported_regularizer_is_discovered():
    assert all(getattr(dperm.problem, cls.__name__) is cls for cls in concrete(Regularizer))


@every_regularizer
@quick
@given(points=two_points, step=steps)
def test_prox_minimises_what_it_claims_to(regularizer, points, step):
    v, u = points
    z = regularizer.prox(v, step)
    # v − z is a subgradient of step·r at z, and step·r is strongly convex with step·μ.
    for other in (u, z + 1e-3 * u, np.zeros(6), v):
        gap = other - z
        quadratic = 0.5 * step * regularizer.strong_convexity * (gap @ gap)
        lower = step * regularizer.value(z) + (v - z) @ gap + quadratic
        assert step * regularizer.value(other) >= lower - 1e-10 * (1.0 + abs(lower))


@every_regularizer
@quick
@given(points=two_points, share=st.floats(0.0, 1.0))
def test_value_is_as_strongly_convex_as_declared(regularizer, points, share):
    u, z = points
    chord = share * regularizer.value(u) + (1.0 - share) * regularizer.value(z)
    sag = 0.5 * regularizer.strong_convexity * share * (1.0 - share) * ((u - z) @ (u - z))
    assert regularizer.value(share * u + (1.0 - share) * z) <= chord - sag + 1e-10 * (1.0 + chord)


@every_regularizer
def test_prox_leaves_its_argument_alone(regularizer):
    v = np.array([3.0, -2.0, 0.0, 1e-3, 5.0, -0.5])
    before = v.copy()
    regularizer.prox(v, 2.0)
    np.testing.assert_array_equal(v, before)


@every_regularizer
def test_zero_costs_nothing_and_is_where_prox_leaves_it(regularizer):
    assert regularizer.value(np.zeros(6)) == 0.0
    np.testing.assert_array_equal(regularizer.prox(np.zeros(6), 2.0), np.zeros(6))


@pytest.mark.parametrize(
    ("regularizer", "value"),
    [
        (NoRegularizer(), 0.0),
        (L1(2.0), 14.0),
        (L2(2.0), 25.0),
        (ElasticNet(2.0, l1_ratio=0.25), 2.0 * (0.25 * 7.0 + 0.5 * 0.75 * 25.0)),
        (GroupL2(2.0, groups=((0, 1),)), 10.0),
        (GroupL2(2.0, groups=((1,), (0,))), 14.0),
        (BlockRegularizer(((0, 1, L1(2.0)), (1, 2, L2(3.0)))), 30.0),
        (BlockRegularizer(((1, 2, L1(2.0)),)), 8.0),
    ],
    ids=repr,
)
def test_value_of_a_known_point(regularizer, value):
    # The properties above would also hold for another function with its own prox.
    assert regularizer.value(np.array([3.0, -4.0])) == pytest.approx(value, rel=1e-15)


@every_regularizer
def test_regularizers_are_frozen_and_equal_by_value(regularizer):
    twin = dataclasses.replace(regularizer)
    assert twin is not regularizer
    assert twin == regularizer
    assert hash(twin) == hash(regularizer)
    for field in dataclasses.fields(regularizer):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(regularizer, field.name, 1.0)


def test_groups_may_be_lists():
    assert GroupL2(0.1, groups=[[0, 1], [2]]) == GroupL2(0.1, groups=((0, 1), (2,)))
    assert hash(GroupL2(0.1, groups=[[0, 1], [2]])) == hash(GroupL2(0.1, groups=((0, 1), (2,))))


WITH_STRENGTH = [
    cls for cls in concrete(Regularizer) if dataclasses.fields(cls) and not issubclass(cls, BlockRegularizer)
]


@pytest.mark.parametrize("cls", WITH_STRENGTH)
@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, "a", None, True])
def test_wrong_strengths_are_refused(cls, wrong):
    with pytest.raises(dperm.InvalidParameterError, match="strength"):
        dataclasses.replace(cls.example(), strength=wrong)


@pytest.mark.parametrize(
    "wrong",
    [(), None, "ab", ((0, 2),), ((0, 0, L1(1.0)),), ((3, 1, L1(1.0)),), ((-1, 2, L1(1.0)),),
     ((0, 3, L1(1.0)), (2, 4, L2(1.0))), ((0.5, 2, L1(1.0)),)],
    ids=str,
)  # fmt: skip
def test_blocks_must_hold_indices_and_not_overlap(wrong):
    with pytest.raises(dperm.InvalidParameterError, match="blocks must be"):
        BlockRegularizer(wrong)


def test_a_block_must_hold_a_regularizer_that_fits_it():
    with pytest.raises(dperm.InvalidParameterError, match="needs a dperm Regularizer"):
        BlockRegularizer(((0, 2, L2Ball()),))
    with pytest.raises(dperm.InvalidParameterError, match="coefficients"):
        BlockRegularizer(((0, 2, GroupL2(1.0, groups=((0, 5),))),))
    with pytest.raises(dperm.InvalidParameterError, match="4"):
        BlockRegularizer(((2, 4, L1(1.0)),)).check_dimension(3)


def test_blocks_may_come_in_any_order_and_as_lists():
    first, second = (0, 2, L1(1.0)), (2, 3, L2(1.0))
    assert BlockRegularizer([list(second), first]) == BlockRegularizer((first, second))


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan, math.inf, "a", None])
def test_wrong_mixtures_are_refused(wrong):
    with pytest.raises(dperm.InvalidParameterError, match="l1_ratio"):
        ElasticNet(0.1, l1_ratio=wrong)


@pytest.mark.parametrize(
    "wrong",
    [(), ((),), ((0, 1), ()), ((0, 1), (1, 2)), ((0, 0),), ((-1, 0),), ((0.5, 1),), (("a",),), "ab", (0, 1), 5, None],
    ids=repr,
)
def test_wrong_groups_are_refused(wrong):
    with pytest.raises(dperm.InvalidParameterError, match="groups"):
        GroupL2(0.1, groups=wrong)


def test_groups_must_fit_the_number_of_coefficients():
    GroupL2.example().check_dimension(5)
    with pytest.raises(dperm.InvalidParameterError, match="5 coefficients"):
        GroupL2.example().check_dimension(4)
    with pytest.raises(dperm.InvalidParameterError, match="5 coefficients"):
        dperm.Problem(Logistic(), GroupL2.example()).constants(n_features=4)


@every_regularizer
def test_every_regularizer_takes_six_coefficients(regularizer):
    regularizer.check_dimension(6)
