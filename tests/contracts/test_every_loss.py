"""What every loss promises: the derivative is right, and the bounds that privacy rests on hold and are tight."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dperm
from contracts.discovered import LOSSES, concrete
from dperm.kernel import native
from dperm.kernel.objectives.margin_rows import slope_of
from dperm.kernel.objectives.written_slopes import WrittenSlope
from dperm.problem.losses import (
    Huber,
    Logistic,
    Loss,
    OneVsRestHinge,
    Poisson,
    Sigmoid,
    SmoothedHinge,
    Softmax,
    Squared,
    Welsch,
)

quick = settings(deadline=None, max_examples=30, derandomize=True)
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)

# Half the distance over which slopes and curvatures are measured.
STEP = 1e-4

# Three columns, of which a loss takes as many as it has outputs.
margin_rows = arrays(np.float64, (10, 3), elements=st.floats(-40.0, 40.0))


def targets(loss):
    """Allowed targets, both ends among them."""
    encoded = loss.encode(np.linspace(*loss.target_range, 7))
    return np.unique(encoded[~np.isnan(encoded)])


def values(loss, margins, target):
    """ℓ of every row of margins."""
    margin = margins if loss.n_outputs > 1 else margins[:, 0]
    return loss.value(margin, np.full(len(margins), target), *loss.parameters)


def gradients(loss, margins, target):
    """∇ℓ of every row of margins, with one column per output."""
    if loss.n_outputs == 1:
        return loss.derivative(margins[:, 0], np.full(len(margins), target), *loss.parameters)[:, None]
    return native.slopes(slope_of(loss, 1.0), np.ascontiguousarray(margins), np.full(len(margins), float(target)))


def grid(loss, margin_bound):
    """Margins that cover the allowed range, with room for a step beyond each."""
    edge = min(margin_bound, 40.0) - STEP
    if loss.n_outputs == 1:
        return np.linspace(-edge, edge, 8001)[:, None]
    near = np.linspace(-5.0 + STEP, 5.0 - STEP, 17)
    if getattr(loss, "cut", 1.0) < 1.0:  # it bends most just before its rows are cut
        near = np.union1d(near, [math.log(1.0 / loss.cut - 1.0) + 0.01])
    return np.array(list(itertools.product(np.union1d(near, [-edge, edge]), repeat=loss.n_outputs)))


def directions(loss):
    """Unit vectors: the axes, and the differences of two of them, where the softmax bends most."""
    axes = np.eye(loss.n_outputs)
    return [*axes, *((a - b) / math.sqrt(2.0) for a, b in itertools.combinations(axes, 2))]


BOUNDED = [
    pytest.param(loss, bound, id=f"{loss}-{bound}")
    for loss in LOSSES
    for bound in (5.0, math.inf)
    if math.isfinite(loss.slope_bound(bound))
]


def test_every_exported_loss_is_discovered():
    assert all(getattr(dperm.problem, cls.__name__) is cls for cls in concrete(Loss))


@every_loss
@quick
@given(rows=margin_rows)
def test_derivative_is_the_slope_of_the_value(loss, rows):
    margins, step = rows[:, : loss.n_outputs], 1e-5
    # Within a step the slope changes by at most curvature · step; the rest is rounding of the two values.
    slack = step * loss.curvature_bound(41.0)
    for target in targets(loss):
        exact = gradients(loss, margins, target)
        for k, axis in enumerate(np.eye(loss.n_outputs)):
            above, below = values(loss, margins + step * axis, target), values(loss, margins - step * axis, target)
            tolerance = slack + 1e-10 * (1.0 + np.abs(above))
            assert (np.abs((above - below) / (2 * step) - exact[:, k]) <= tolerance).all()


@pytest.mark.parametrize(
    ("loss", "margin", "target", "value"),
    [
        (Huber(threshold=2.0), 1.5, 0.5, 0.5),
        (Huber(threshold=2.0), 4.0, -1.0, 8.0),
        (Logistic(), math.log(3.0), 1.0, math.log(4.0 / 3.0)),
        (Logistic(), math.log(3.0), -1.0, math.log(4.0)),
        (OneVsRestHinge(2, smoothing=0.5), [1.0, 1.0], 0.0, 1.75),
        (Poisson(margin_cap=3.0), math.log(4.0), 2.0, 2.0 - 2.0 * math.log(2.0)),
        (Sigmoid(), math.log(3.0), 1.0, 0.25),
        (Sigmoid(), math.log(3.0), -1.0, 0.75),
        (SmoothedHinge(0.5), 0.75, 1.0, 0.0625),
        (SmoothedHinge(0.5), 0.75, -1.0, 1.5),
        (Softmax(2), [math.log(3.0), 0.0], 1.0, math.log(4.0)),
        (Squared(), 3.0, 1.0, 2.0),
        (Welsch(scale=2.0), 3.0, 1.0, 2.0 * (1.0 - math.exp(-1.0))),
    ],
    ids=str,
)
def test_value_of_a_known_point(loss, margin, target, value):
    # The other properties would also hold for another function with its own derivative and bounds.
    assert values(loss, np.atleast_2d(margin), target)[0] == pytest.approx(value, rel=1e-12)


@every_loss
def test_value_is_never_below_zero(loss):
    for target in targets(loss):
        found = values(loss, grid(loss, math.inf), target)
        assert found.min() >= -1e-12 * (1.0 + abs(target)), (target, found.min())


@pytest.mark.parametrize(("loss", "margin_bound"), BOUNDED)
def test_slope_bound_holds_and_is_within_five_percent(loss, margin_bound):
    bound, margins = loss.slope_bound(margin_bound), grid(loss, margin_bound)
    largest = max(np.linalg.norm(gradients(loss, margins, target), axis=1).max() for target in targets(loss))
    assert 0.95 * bound <= largest <= bound * (1 + 1e-12)


@pytest.mark.cases_with_every_value
@pytest.mark.parametrize(("loss", "margin_bound"), BOUNDED)
def test_curvature_bound_holds_and_is_within_five_percent(loss, margin_bound):
    bound, margins = loss.curvature_bound(margin_bound), grid(loss, margin_bound)
    largest = 0.0
    for target, direction in itertools.product(targets(loss), directions(loss)):
        change = gradients(loss, margins + STEP * direction, target) - gradients(
            loss, margins - STEP * direction, target
        )
        largest = max(largest, np.linalg.norm(change, axis=1).max() / (2 * STEP))
    assert 0.95 * bound <= largest <= bound * (1 + 1e-8)


@every_loss
def test_derivative_is_monotone_exactly_if_the_loss_is_convex(loss):
    rng = np.random.default_rng(0)
    a = rng.uniform(-5.0, 5.0, (2000, loss.n_outputs))
    b = a + rng.normal(size=a.shape) * 10.0 ** rng.uniform(-3.0, 0.5, (2000, 1))
    lowest = math.inf
    for target in targets(loss):
        change = gradients(loss, a, target) - gradients(loss, b, target)
        lowest = min(lowest, ((change * (a - b)).sum(axis=1) / ((a - b) ** 2).sum(axis=1)).min())
    if loss.convex:
        assert lowest >= -1e-10
    else:
        assert lowest < -0.01


@every_loss
def test_huge_margins_give_no_nan_and_keep_the_slope_bound(loss):
    margins = np.array(list(itertools.product((-1e300, -1e3, 0.0, 1e3, 1e300), repeat=loss.n_outputs)))
    for target in targets(loss):
        # A squared residual of 1e600 is infinity, as it should be; "invalid" would still be an error.
        with np.errstate(over="ignore"):
            assert not np.isnan(values(loss, margins, target)).any()
            found = gradients(loss, margins, target)
            assert np.isfinite(found).all()
            assert np.linalg.norm(found, axis=1).max() <= loss.slope_bound(math.inf) * (1 + 1e-12)


@every_loss
def test_the_native_derivative_agrees_with_the_python_one(loss):
    rng = np.random.default_rng(0)
    margins = np.concatenate([rng.normal(size=(100, loss.n_outputs)) * 5, [[1e300] * loss.n_outputs]])
    margins = np.concatenate([margins, -margins])
    for target in map(float, targets(loss)):
        given = np.full(len(margins), target)
        found = native.slopes(slope_of(loss, 1.0), margins, given)
        np.testing.assert_allclose(found, WrittenSlope(loss, 1.0, 0.0).of(margins, given), rtol=1e-12, atol=1e-15)


@every_loss
@quick
@given(raw=arrays(np.float64, 8, elements=st.floats()))
def test_encode_brings_every_target_into_range_or_marks_it(loss, raw):
    hostile = [math.nan, math.inf, -math.inf, 1e308, -1e308, -5.0, 0.0, 0.5, 1.0]
    target = np.concatenate([hostile, raw])
    before = target.copy()
    encoded = loss.encode(target)
    low, high = loss.target_range
    assert (np.isnan(encoded) | ((encoded >= low) & (encoded <= high))).all()
    assert np.isnan(encoded[np.isnan(target)]).all()
    np.testing.assert_array_equal(target, before)
    np.testing.assert_array_equal(loss.encode(encoded), encoded)
    # One row's target must not depend on another's: sensitivity counts rows one by one.
    np.testing.assert_array_equal(np.concatenate([loss.encode(one) for one in target[:, None]]), encoded)


@every_loss
def test_both_ends_of_the_target_range_are_allowed(loss):
    np.testing.assert_array_equal(loss.encode(np.array(loss.target_range)), loss.target_range)


@every_loss
def test_value_at_zero_is_the_largest_loss_of_zero_coefficients(loss):
    origin = np.zeros((1, loss.n_outputs))
    assert loss.value_at_zero == pytest.approx(max(values(loss, origin, target)[0] for target in targets(loss)))


@every_loss
def test_losses_are_frozen_and_equal_by_value(loss):
    twin = dataclasses.replace(loss)
    assert twin is not loss
    assert twin == loss
    assert hash(twin) == hash(loss)
    for field in dataclasses.fields(loss):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(loss, field.name, 1.0)


def test_losses_with_other_parameters_differ():
    assert len(set(LOSSES)) == len(LOSSES)


# A log-rate may be 0 or negative.
SIGNED = {(Poisson, "margin_cap")}
WRONG = [
    pytest.param(cls, field.name, wrong, id=f"{cls.__name__}-{field.name}-{wrong}")
    for cls in concrete(Loss)
    for field in dataclasses.fields(cls)
    for wrong in (0, -1.0, math.nan, math.inf, "a", None, True)
    if not ((cls, field.name) in SIGNED and wrong in (0, -1.0))
]


@pytest.mark.parametrize(("cls", "name", "wrong"), WRONG)
def test_wrong_parameters_are_refused(cls, name, wrong):
    with pytest.raises(dperm.InvalidParameterError, match=name):
        dataclasses.replace(cls.example(), **{name: wrong})


@pytest.mark.parametrize("cls", [Softmax, OneVsRestHinge])
@pytest.mark.parametrize("wrong", [1, 2.5])
def test_losses_for_classes_need_a_whole_number_of_at_least_two(cls, wrong):
    # With one class they would claim a single output and yet have the derivative of a vector.
    with pytest.raises(dperm.InvalidParameterError, match="n_classes"):
        cls(n_classes=wrong)


def test_a_cap_whose_rate_overflows_is_refused():
    with pytest.raises(dperm.InvalidParameterError):
        dperm.Problem(Poisson(margin_cap=1000.0)).constants(n_features=3)


def test_softmax_gradient_reaches_its_bound_only_in_the_limit():
    norms = []
    for size in (1.0, 5.0, 30.0):
        out = np.empty(3)
        Softmax.derivative(np.array([-size, size, -size]), 0.0, out)
        norms.append(np.linalg.norm(out))
    assert norms[0] < norms[1] < norms[2]
    assert norms[1] < math.sqrt(2.0)
    assert norms[2] == pytest.approx(math.sqrt(2.0), rel=1e-15)


def understated(loss, bound_name):
    """The same loss with one of its bounds declared 5 % too small."""
    honest = getattr(type(loss), bound_name)
    liar = type("Liar", (type(loss),), {bound_name: lambda self, margin_bound: 0.95 * honest(self, margin_bound)})
    return liar(*dataclasses.astuple(loss))


@pytest.mark.parametrize(("loss", "margin_bound"), [case for case in BOUNDED if case.values[0].n_outputs == 1])
def test_check_bounds_accepts_the_truth_and_catches_five_percent_less(loss, margin_bound):
    loss.check_bounds(margin_bound)
    with pytest.raises(dperm.InvalidParameterError, match="slope"):
        understated(loss, "slope_bound").check_bounds(margin_bound)
    with pytest.raises(dperm.InvalidParameterError, match="curvature"):
        understated(loss, "curvature_bound").check_bounds(margin_bound)


def test_a_loss_without_a_bounded_slope_needs_a_bounded_domain():
    class Unbounded(Squared):
        @staticmethod
        def derivative(margin, target, target_bound):
            return margin - target

        def slope_bound(self, margin_bound):
            return margin_bound + self.target_bound

    Unbounded().check_bounds(5.0)
    with pytest.raises(dperm.InvalidParameterError, match="bounded domain"):
        Unbounded().check_bounds(math.inf)


def test_the_squared_loss_is_squared_for_every_prediction_within_the_range_of_the_target():
    loss = Squared(target_bound=3.0)
    margins, target = np.linspace(-3.0, 3.0, 101), np.full(101, -3.0)
    np.testing.assert_allclose(loss.value(margins, target, 3.0), 0.5 * (margins - target) ** 2)
    np.testing.assert_array_equal(loss.derivative(margins, target, 3.0), margins - target)
    assert loss.slope_bound(math.inf) == 6.0
    assert loss.slope_bound(1.0) == 4.0
