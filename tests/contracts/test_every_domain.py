"""What every domain promises: the nearest point, and the sizes that the theory speaks of."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dperm
from contracts.discovered import DOMAINS, SIX_HIGH, SIX_LOW, concrete
from dperm.problem import L2, Logistic
from dperm.problem.domains import BlockDomain, Box, Domain, GroupBall, L1Ball, L2Ball, Simplex, WholeSpace

quick = settings(deadline=None, max_examples=15, derandomize=True)


def fits(domain, p):
    """Whether C is a set of vectors of that length; a box with one bound per coefficient fits only one."""
    try:
        domain.check_dimension(p)
    except dperm.InvalidParameterError:
        return False
    return True


CASES = [(domain, p) for domain in DOMAINS for p in (1, 2, 6, 50) if fits(domain, p)]


def is_bounded(domain, p):
    """Whether C is bounded; blocks bound only the coefficients that are in one of them."""
    if isinstance(domain, BlockDomain):
        return sum(stop - start for start, stop, _ in domain.blocks) == p
    return not isinstance(domain, WholeSpace)


BOUNDED = [(domain, p) for domain, p in CASES if is_bounded(domain, p)]
every_domain = pytest.mark.parametrize(("domain", "p"), CASES, ids=str)
every_bounded_domain = pytest.mark.parametrize(("domain", "p"), BOUNDED, ids=str)

# As many columns as the largest p; zeros and ties come up by themselves.
two_points = arrays(np.float64, (2, 50), elements=st.floats(-10.0, 10.0))

# Projecting FAR · v gives a point of C that is furthest in direction v, up to norm_bound · diameter / FAR:
# with z the projection and u the furthest point, 0 ≥ ⟨FAR·v − z, u − z⟩.
FAR = 1e6


def inside(domain, w):
    """Whether w lies in C, without asking `project`."""
    if isinstance(domain, Simplex):
        return bool((w >= 0).all()) and abs(w.sum() - domain.total) <= 1e-9 * domain.total
    return domain.minkowski_norm(w) <= 1 + 1e-9


def test_every_exported_domain_is_discovered():
    assert all(getattr(dperm.problem, cls.__name__) is cls for cls in concrete(Domain))


@pytest.mark.cases_with_every_value
@every_domain
@quick
@given(points=two_points)
def test_projection_lands_inside_and_stays_there(domain, p, points):
    for v in points[:, :p]:
        before = v.copy()
        projected = domain.project(v)
        np.testing.assert_array_equal(v, before)
        assert inside(domain, projected)
        np.testing.assert_allclose(domain.project(projected), projected, atol=1e-12)


@pytest.mark.cases_with_every_value
@every_domain
@quick
@given(points=two_points)
def test_projection_is_the_nearest_point(domain, p, points):
    v, other = points[:, :p]
    nearest = domain.project(v)
    for u in (domain.project(other), domain.project(nearest + 1e-3 * other), domain.project(-v)):
        assert (v - nearest) @ (u - nearest) <= 1e-9


@pytest.mark.cases_with_every_value
@every_domain
@quick
@given(points=two_points)
def test_projection_brings_no_two_points_further_apart(domain, p, points):
    v, w = points[:, :p]
    assert np.linalg.norm(domain.project(v) - domain.project(w)) <= np.linalg.norm(v - w) + 1e-12


@every_domain
@pytest.mark.parametrize("distance", [1e6, 1e12, 1e20])
def test_projection_lands_inside_from_far_away(domain, p, distance):
    v = distance * np.random.default_rng(0).normal(size=p)
    for far in (v, -v, np.full(p, distance)):
        assert inside(domain, domain.project(far))


@pytest.mark.cases_with_every_value
@every_domain
@quick
@given(points=two_points, factor=st.floats(1e-3, 1e3))
def test_minkowski_norm_is_homogeneous(domain, p, points, factor):
    for w in (points[0, :p], np.abs(points[1, :p])):
        assert domain.minkowski_norm(factor * w) == pytest.approx(factor * domain.minkowski_norm(w), rel=1e-9)


@every_bounded_domain
def test_minkowski_norm_is_the_smallest_multiple_that_holds_the_point(domain, p):
    rng = np.random.default_rng(0)
    for w in (*rng.normal(size=(5, p)), *np.abs(rng.normal(size=(5, p)))):
        norm = domain.minkowski_norm(w)
        if math.isinf(norm):
            for multiple in np.geomspace(1e-3, 1e3, 25):
                assert np.linalg.norm(domain.project(w / multiple) - w / multiple) > 1e-9
        else:
            boundary = w / norm
            assert domain.minkowski_norm(boundary) == pytest.approx(1.0, rel=1e-12)
            np.testing.assert_allclose(domain.project(boundary), boundary, atol=1e-12)
            beyond = 1.001 * boundary
            assert np.linalg.norm(domain.project(beyond) - beyond) > 1e-6


@pytest.mark.parametrize(
    ("domain", "w", "norm"),
    [
        (Box(-0.5, 2.0), [1.0, 0.0], 0.5),
        (Box(-0.5, 2.0), [1.0, -1.0], 2.0),
        (Box(0.0, 1.0), [0.5, -1e-9], math.inf),
        (Box((-1.0, 0.0), (0.5, 4.0)), [0.25, 3.0], 0.75),
        (GroupBall(2.0, ((0, 2), (1,))), [3.0, -1.0, 4.0], 3.0),
        (L1Ball(2.0), [3.0, -1.0], 2.0),
        (L2Ball(2.0), [3.0, -4.0], 2.5),
        (Simplex(2.0), [3.0, 1.0], 2.0),
        (Simplex(2.0), [3.0, -1.0], math.inf),
        (WholeSpace(), [3.0, -1.0], 0.0),
    ],
    ids=str,
)
def test_minkowski_norm_of_known_points(domain, w, norm):
    assert domain.minkowski_norm(np.array(w)) == pytest.approx(norm, rel=1e-15)


@pytest.mark.cases_with_every_value
@every_bounded_domain
@quick
@given(points=two_points)
def test_dual_norm_is_the_largest_product_and_is_reached(domain, p, points):
    v, other = points[:, :p]
    dual = domain.dual_norm(v)
    assert abs(domain.project(other) @ v) <= dual + 1e-9
    reached = max(abs(domain.project(sign * FAR * v) @ v) for sign in (1.0, -1.0))
    assert dual == pytest.approx(reached, rel=1e-7, abs=1e-7 + domain.norm_bound(p) * domain.diameter(p) / FAR)


@pytest.mark.cases_with_every_value
@every_bounded_domain
@quick
@given(points=two_points)
def test_sizes_bound_every_point_and_every_pair(domain, p, points):
    u, v = (domain.project(10.0 * point) for point in points[:, :p])
    assert np.linalg.norm(u - v) <= domain.diameter(p) + 1e-9
    assert np.linalg.norm(u) <= domain.norm_bound(p) + 1e-9
    assert np.abs(u).sum() <= domain.l1_bound(p) + 1e-9


def furthest_pair(domain, p):
    """Two points of C that are as far apart as C allows."""
    first, last = np.eye(p)[0], np.eye(p)[-1]
    match domain:
        case Box():
            return np.broadcast_to(domain.low, p), np.broadcast_to(domain.high, p)
        case L1Ball() | L2Ball() | GroupBall():
            return domain.radius * first, -domain.radius * first
        case Simplex():
            return domain.total * first, domain.total * last
        case BlockDomain():
            parts = [furthest_pair(part, stop - start) for start, stop, part in domain.blocks]
            return tuple(np.concatenate(side) for side in zip(*parts, strict=True))
    raise NotImplementedError(f"name two extreme points of {domain}")


def furthest_from_zero(domain, p):
    """A point of C that is as far from 0 as C allows."""
    if isinstance(domain, BlockDomain):
        return np.concatenate([furthest_from_zero(part, stop - start) for start, stop, part in domain.blocks])
    one, other = furthest_pair(domain, p)
    return np.where(np.abs(one) > np.abs(other), one, other) if isinstance(domain, Box) else one


@every_bounded_domain
def test_sizes_are_reached(domain, p):
    one, other = furthest_pair(domain, p)
    far = furthest_from_zero(domain, p)
    for point in (one, other, far):
        np.testing.assert_allclose(domain.project(point), point, atol=1e-12)
    assert domain.diameter(p) == pytest.approx(np.linalg.norm(one - other), abs=1e-9)
    assert domain.norm_bound(p) == pytest.approx(np.linalg.norm(far), abs=1e-9)


@pytest.mark.cases_with_every_value
@every_bounded_domain
def test_gaussian_width_is_the_mean_of_the_support_function(domain, p):
    draws = np.random.default_rng(p).standard_normal((4000, p))
    supports = np.array([domain.project(FAR * g) @ g for g in draws])
    standard_error = supports.std() / math.sqrt(len(supports))
    # Five standard errors: with another seed a right width fails once in 1.7 million cases (2Φ(−5) = 6e-7).
    allowed = 5.0 * standard_error + domain.norm_bound(p) * domain.diameter(p) / FAR
    assert abs(supports.mean() - domain.gaussian_width(p)) <= allowed


@pytest.mark.parametrize(
    ("domain", "p", "width"),
    [
        (L2Ball(2.0), 1, 2.0 * math.sqrt(2.0 / math.pi)),
        (L2Ball(2.0), 2, 2.0 * math.sqrt(math.pi / 2.0)),
        (L2Ball(2.0), 3, 2.0 * 2.0 * math.sqrt(2.0 / math.pi)),
        (L1Ball(2.0), 1, 2.0 * math.sqrt(2.0 / math.pi)),
        (L1Ball(2.0), 2, 2.0 * 2.0 / math.sqrt(math.pi)),
        (Simplex(2.0), 1, 0.0),
        (Simplex(2.0), 2, 2.0 / math.sqrt(math.pi)),
        (Simplex(2.0), 3, 2.0 * 1.5 / math.sqrt(math.pi)),
        (Box(-1.0, 2.0), 4, 4 * 1.5 * math.sqrt(2.0 / math.pi)),
        (GroupBall(2.0, ((0, 1, 2),)), 3, 2.0 * 2.0 * math.sqrt(2.0 / math.pi)),
        (GroupBall(2.0, ((0,), (1,))), 2, 2.0 * 2.0 / math.sqrt(math.pi)),
        # Two Rayleigh variables: E max = 2 E R − E min, and their minimum is Rayleigh with half the square.
        (GroupBall(2.0, ((0, 1), (2, 3))), 4, 2.0 * math.sqrt(math.pi / 2.0) * (2.0 - math.sqrt(0.5))),
    ],
    ids=str,
)
def test_gaussian_width_of_known_cases(domain, p, width):
    assert domain.gaussian_width(p) == pytest.approx(width, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("domain", [L1Ball(), L2Ball(), Simplex()], ids=repr)
def test_gaussian_width_is_finite_and_growing_in_a_million_dimensions(domain):
    widths = [domain.gaussian_width(p) for p in (10, 1000, 1_000_000)]
    assert widths == sorted(widths)
    # E max of p normals is at most √(2 log 2p), and E‖g‖ at most √p.
    assert widths[-1] <= (1000.0 if isinstance(domain, L2Ball) else math.sqrt(2.0 * math.log(2e6)))
    assert widths[-1] >= (999.0 if isinstance(domain, L2Ball) else 4.5)


def test_the_group_ball_has_the_width_of_the_balls_between_which_it_lies():
    singles, together = ([[j] for j in range(3000)], [range(3000)])
    assert GroupBall(2.0, singles).gaussian_width(3000) == pytest.approx(L1Ball(2.0).gaussian_width(3000), rel=1e-9)
    assert GroupBall(2.0, together).gaussian_width(3000) == pytest.approx(L2Ball(2.0).gaussian_width(3000), rel=1e-9)


def test_the_whole_space_is_infinite_in_every_direction():
    space = WholeSpace()
    assert space.norm_bound(3) == space.diameter(3) == space.gaussian_width(3) == math.inf
    assert space.dual_norm(np.array([0.0, 1e-9, 0.0])) == math.inf
    assert space.dual_norm(np.zeros(3)) == 0.0


@pytest.mark.parametrize(("domain", "p"), [(d, p) for d, p in CASES if not is_bounded(d, p)], ids=str)
def test_what_no_block_bounds_is_infinite(domain, p):
    assert domain.norm_bound(p) == domain.l1_bound(p) == domain.diameter(p) == domain.gaussian_width(p) == math.inf
    assert domain.dual_norm(np.eye(p)[-1]) == math.inf
    assert domain.dual_norm(np.zeros(p)) == 0.0


def test_a_block_bounds_its_own_coefficients_alone():
    domain = BlockDomain(((1, 3, L2Ball(2.0)),))
    np.testing.assert_allclose(domain.project(np.array([9.0, 3.0, 4.0, -9.0])), [9.0, 1.2, 1.6, -9.0], rtol=1e-15)
    assert domain.dual_norm(np.array([0.0, 3.0, 4.0, 0.0])) == pytest.approx(10.0, rel=1e-15)


@pytest.mark.parametrize(
    "wrong",
    [(), None, "ab", ((0, 2),), ((0, 0, L2Ball()),), ((3, 1, L2Ball()),), ((-1, 2, L2Ball()),),
     ((0, 3, L2Ball()), (2, 4, L2Ball())), ((0.5, 2, L2Ball()),)],
    ids=str,
)  # fmt: skip
def test_blocks_of_a_domain_must_hold_indices_and_not_overlap(wrong):
    with pytest.raises(dperm.InvalidParameterError, match="blocks must be"):
        BlockDomain(wrong)


def test_a_block_must_hold_a_domain_that_fits_it():
    with pytest.raises(dperm.InvalidParameterError, match="needs a dperm Domain"):
        BlockDomain(((0, 2, L2(1.0)),))
    with pytest.raises(dperm.InvalidParameterError, match="6 bounds"):
        BlockDomain(((0, 2, Box(SIX_LOW, SIX_HIGH)),))
    with pytest.raises(dperm.InvalidParameterError, match="needs 4 coefficients"):
        BlockDomain(((2, 4, L2Ball()),)).check_dimension(3)


def test_blocks_may_come_in_any_order_and_as_lists():
    first, second = (0, 2, L2Ball()), (2, 3, Box())
    assert BlockDomain([list(second), first]) == BlockDomain((first, second))


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_domains_are_frozen_and_equal_by_value(domain):
    twin = dataclasses.replace(domain)
    assert twin is not domain
    assert twin == domain
    assert hash(twin) == hash(domain)
    for field in dataclasses.fields(domain):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(domain, field.name, 1.0)


def test_bounds_of_a_box_may_be_arrays():
    assert Box(np.array(SIX_LOW), list(SIX_HIGH)) == Box(SIX_LOW, SIX_HIGH)
    assert hash(Box(np.array(SIX_LOW), list(SIX_HIGH))) == hash(Box(SIX_LOW, SIX_HIGH))


@pytest.mark.parametrize(
    ("cls", "name"), [(GroupBall, "radius"), (L1Ball, "radius"), (L2Ball, "radius"), (Simplex, "total")]
)
@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, "a", None, True])
def test_wrong_sizes_are_refused(cls, name, wrong):
    with pytest.raises(dperm.InvalidParameterError, match=name):
        dataclasses.replace(cls.example(), **{name: wrong})


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0.5, 1.0),
        (-1.0, -0.5),
        (0.0, 0.0),
        (-math.inf, 1.0),
        (-1.0, math.nan),
        ("a", 1.0),
        (None, 1.0),
        ((-1.0, 0.0), (1.0, 0.0)),
        ((-1.0, 0.5), 1.0),
        ((-1.0, -1.0), (1.0, 1.0, 1.0)),
        ((-1.0, math.nan), 1.0),
        ((-1.0, "a"), 1.0),
        ((-1.0, None), 1.0),
        (((-1.0, -1.0), (-1.0, -1.0)), 1.0),
    ],
    ids=repr,
)
def test_wrong_boxes_are_refused(low, high):
    with pytest.raises(dperm.InvalidParameterError):
        Box(low, high)


@pytest.mark.parametrize("domain", [Box(SIX_LOW, SIX_HIGH), Box(-1.0, SIX_HIGH), Box(SIX_LOW, 3.0)], ids=repr)
def test_boxes_must_fit_the_number_of_coefficients(domain):
    domain.check_dimension(6)
    for p in (1, 5, 7):
        with pytest.raises(dperm.InvalidParameterError, match="6 bounds"):
            domain.check_dimension(p)
    with pytest.raises(dperm.InvalidParameterError, match="6 bounds"):
        dperm.Problem(Logistic(), domain=domain).constants(n_features=5)


@pytest.mark.parametrize("wrong", [(), ((),), ((0, 1), (1, 2)), ((0, 2),), ((1, 2), (3,)), ((-1, 0),), "ab", 5, None])
def test_groups_of_a_ball_must_hold_every_index_once(wrong):
    with pytest.raises(dperm.InvalidParameterError, match="groups"):
        GroupBall(1.0, wrong)


def test_a_group_ball_fits_one_number_of_coefficients():
    domain = GroupBall(1.0, ((0, 1), (2,)))
    domain.check_dimension(3)
    for p in (2, 4):
        with pytest.raises(dperm.InvalidParameterError, match="holds 3 coefficients"):
            domain.check_dimension(p)


def test_groups_of_a_ball_may_be_lists():
    assert GroupBall(1.0, [[0, 1], [2]]) == GroupBall(1.0, ((0, 1), (2,)))
    assert hash(GroupBall(1.0, [[0, 1], [2]])) == hash(GroupBall(1.0, ((0, 1), (2,))))
