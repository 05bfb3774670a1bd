"""What every mirror map promises: strong convexity, the two argmins of Algorithm 3, and the sizes of its bound."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from contracts.discovered import DOMAINS
from contracts.test_every_domain import FAR, fits, inside
from dperm.problem.domains import Box, GroupBall, L1Ball, L2Ball, Simplex
from dperm.problem.domains.polytope import EntropicDomain
from dperm.problem.geometry.mirror import MirrorDomain, best_length

CASES = [
    (domain, p)
    for domain in (*DOMAINS, GroupBall(1.3, [[3 * j, 3 * j + 1, 3 * j + 2] for j in range(10)]))
    for p in (1, 2, 6, 11, 30, 50)
    if isinstance(domain, MirrorDomain) and fits(domain, p)
]
every_map = pytest.mark.parametrize(("domain", "p"), CASES, ids=str)


def point_of(domain, size, rng):
    """A point of K: inside, on faces, or almost at a corner."""
    direction = rng.choice([0.01, 0.3, 3.0, 30.0]) * rng.normal(size=size)
    if isinstance(domain, EntropicDomain):
        # The weights must be positive where a mirror step starts: the map's gradient is infinite at 0.
        weights = np.exp(direction - direction.max())
        return weights / weights.sum()
    return domain.project(domain.centre(size) + domain.norm_bound(size) * direction)


def points_of(domain, p, rng, number):
    return [point_of(domain, domain.centre(p).size, rng) for _ in range(number)]


def support(domain, v):
    """Max over C of ⟨w, v⟩, as the projection knows it; not with more than FAR's precision."""
    return float(domain.project(FAR * v) @ v)


def support_error(domain, p):
    return domain.norm_bound(p) * domain.diameter(p) / FAR + 1e-9


@pytest.mark.cases_with_every_value
@every_map
def test_the_map_is_strongly_convex_in_its_norm(domain, p):
    rng = np.random.default_rng(0)
    for u, z in zip(points_of(domain, p, rng, 200), points_of(domain, p, rng, 200), strict=True):
        for near in (u, z + 1e-3 * (u - z)):
            assert domain.divergence(near, z) >= 0.5 * domain.step_norm(near - z) ** 2 * (1 - 1e-7) - 1e-12


def test_the_strong_convexity_of_the_group_map_is_not_far_from_tight():
    # Spread evenly over the groups Hölder's inequality is an equality, along the points themselves.
    domain = GroupBall(1.0, [[j] for j in range(20)])
    z = np.full(20, 1.0 / 20)
    u = z * (1 - 1e-4)
    assert domain.divergence(u, z) == pytest.approx(0.5 * domain.step_norm(u - z) ** 2, rel=1e-3)


@pytest.mark.cases_with_every_value
@every_map
def test_the_divergence_from_the_centre_is_bounded_and_the_bound_is_reached(domain, p):
    rng = np.random.default_rng(0)
    centre, bound = domain.centre(p), domain.divergence_bound(p)
    for u in points_of(domain, p, rng, 100):
        assert domain.divergence(u, centre) <= bound + 1e-12
    corner = domain.descent_step(centre, np.arange(1.0, 1.0 + centre.size), 1e-9, centre)
    assert domain.divergence(corner, centre) == pytest.approx(bound, rel=1e-6, abs=1e-12)


@pytest.mark.cases_with_every_value
@every_map
def test_points_stand_for_coefficients_in_the_domain(domain, p):
    rng = np.random.default_rng(0)
    for point in (domain.centre(p), *points_of(domain, p, rng, 20)):
        assert inside(domain, domain.coefficients(point))
        gradient = rng.normal(size=p)
        assert domain.pull_back(gradient) @ point == pytest.approx(gradient @ domain.coefficients(point), abs=1e-12)


@pytest.mark.cases_with_every_value
@every_map
def test_every_direction_of_the_domain_can_be_reached(domain, p):
    rng = np.random.default_rng(0)
    for gradient in rng.normal(size=(10, p)):
        x = point_of(domain, domain.centre(p).size, rng)
        lowest = domain.descent_step(x, domain.pull_back(gradient), 1e-9, x)
        assert gradient @ domain.coefficients(lowest) == pytest.approx(
            -support(domain, -gradient), abs=1e-6 + support_error(domain, p)
        )


@pytest.mark.cases_with_every_value
@every_map
def test_the_norm_is_that_of_the_half_difference_body(domain, p):
    """What the smoothness and the noise are bounded by: ‖v‖₂ ≤ (diameter/2) ‖v‖, and the dual norm."""
    rng = np.random.default_rng(0)
    for u, z in zip(points_of(domain, p, rng, 50), points_of(domain, p, rng, 50), strict=True):
        norm = domain.step_norm(u - z)
        assert norm <= 2 + 1e-9
        moved = domain.coefficients(u) - domain.coefficients(z)
        assert np.linalg.norm(moved) <= 0.5 * domain.diameter(p) * norm + 1e-12
        v = rng.normal(size=p)
        dual = 0.5 * (support(domain, v) + support(domain, -v))
        assert abs(v @ moved) <= (dual + support_error(domain, p)) * norm + 1e-12


@pytest.mark.cases_with_every_value
@every_map
def test_width_and_diameter_bound_the_square_of_the_dual_norm_of_noise(domain, p):
    draws = np.random.default_rng(p).standard_normal((3000, p))
    squares = np.array([(0.5 * (support(domain, b) + support(domain, -b))) ** 2 for b in draws])
    bound = domain.gaussian_width(p) ** 2 + (0.5 * domain.diameter(p)) ** 2
    # Five standard errors, as in test_every_domain.
    allowed = 5.0 * squares.std() / math.sqrt(len(squares)) + 3.0 * support_error(domain, p)
    assert squares.mean() <= bound + allowed
    assert bound <= 2.0 * squares.mean() + allowed


@pytest.mark.cases_with_every_value
@every_map
@pytest.mark.parametrize("alpha", [0.01, 0.3, 3.0])
def test_noise_costs_a_mirror_step_no_more_than_declared(domain, p, alpha):
    rng = np.random.default_rng(p)
    for z in (domain.centre(p), *points_of(domain, p, rng, 3)):
        costs = []
        for b in rng.standard_normal((1000, p)):
            slope = alpha * domain.pull_back(b)
            u = domain.mirror_step(z, 2.0 * slope)  # where ⟨slope, z − u⟩ − ½ B_w(u, z) is largest
            costs.append(slope @ (z - u) - 0.5 * domain.divergence(u, z))
        # Five standard errors, as above.
        allowed = 5.0 * np.std(costs) / math.sqrt(len(costs)) + 1e-9
        assert np.mean(costs) <= alpha**2 * domain.noise_bound(p) + allowed


@pytest.mark.cases_with_every_value
@every_map
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_the_mirror_step_minimises(domain, p, scale):
    """The three-point inequality, which is all that the proof takes from this step."""
    rng = np.random.default_rng(0)
    for z in points_of(domain, p, rng, 20):
        slope = scale * rng.normal(size=z.size)
        found = domain.mirror_step(z, slope)
        for u in (z, *points_of(domain, p, rng, 10), found + 1e-3 * (z - found)):
            slack = domain.divergence(u, z) - domain.divergence(found, z) - domain.divergence(u, found)
            assert slope @ (u - found) + slack >= -1e-8 * (1.0 + scale)


@pytest.mark.cases_with_every_value
@every_map
def test_the_mirror_step_bears_slopes_of_any_size(domain, p):
    rng = np.random.default_rng(0)
    z = domain.centre(p)
    for scale in (1e8, 1e3, 1e8, 1e-300, 0.0):
        z = domain.mirror_step(z, scale * rng.normal(size=z.size))
        assert np.isfinite(z).all()
        assert inside(domain, domain.coefficients(z))


def test_a_weight_that_was_driven_to_nothing_can_come_back():
    domain = Simplex()
    gone = domain.mirror_step(np.array([0.5, 0.5]), np.array([0.0, 1e6]))
    assert domain.mirror_step(gone, np.array([1000.0, 0.0]))[1] > 0.999


def model(domain, x, slope, curvature, y):
    return 0.5 * curvature * domain.step_norm(y - x) ** 2 + slope @ (y - x)


@pytest.mark.cases_with_every_value
@every_map
@pytest.mark.parametrize("curvature", [0.1, 1.0, 30.0])
def test_no_point_is_better_than_the_descent_step(domain, p, curvature):
    rng = np.random.default_rng(0)
    for x in points_of(domain, p, rng, 20):
        slope, v = rng.normal(size=x.size), point_of(domain, x.size, rng)
        found = domain.descent_step(x, slope, curvature, v)
        assert inside(domain, domain.coefficients(found))
        value = model(domain, x, slope, curvature, found)
        others = [x, v]
        if not isinstance(domain, GroupBall):  # whose step is not the argmin
            others += [*points_of(domain, p, rng, 20), found + 1e-3 * (v - found), found + 1e-3 * (x - found)]
        for u in others:
            assert value <= model(domain, x, slope, curvature, u) + 1e-9


SMALL = [(domain, p) for domain, p in CASES if p == 6]


def feasible(domain, size):
    """K as scipy wants it: bounds and constraints."""
    match domain:
        case Box():
            low, high = np.broadcast_to(domain.low, size), np.broadcast_to(domain.high, size)
            return list(zip(low, high, strict=True)), []
        case L1Ball() | Simplex():
            return [(1e-15, 1.0)] * size, [{"type": "eq", "fun": lambda u: u.sum() - 1.0}]
        case L2Ball() | GroupBall():
            return None, [{"type": "ineq", "fun": lambda u: 1.0 - domain.minkowski_norm(u)}]
    raise NotImplementedError(f"state {domain} for scipy")


@pytest.mark.parametrize(("domain", "p"), SMALL, ids=str)
def test_a_general_solver_finds_no_better_mirror_step(domain, p):
    rng = np.random.default_rng(1)
    for z in points_of(domain, p, rng, 5):
        slope = rng.normal(size=z.size)

        def objective(u, z=z, slope=slope):
            return domain.divergence(np.maximum(u, 1e-15) if isinstance(domain, EntropicDomain) else u, z) + slope @ u

        bounds, constraints = feasible(domain, z.size)
        start = 0.5 * (z + domain.centre(p)) + 1e-3 * isinstance(domain, GroupBall)  # off the kink at 0
        found = scipy_minimize(objective, start, bounds=bounds, constraints=constraints, method="SLSQP")
        assert objective(domain.mirror_step(z, slope)) <= found.fun + 1e-6


def descent_value_by_scipy(domain, x, slope):
    """The least value of the model, made smooth: more unknowns, every part of the norm at most one of them."""
    size = x.size
    bounds, constraints = feasible(domain, size)
    constraints = [{**one, "fun": lambda s, fun=one["fun"]: fun(s[:size])} for one in constraints]
    if isinstance(domain, L2Ball):
        norm, start = (lambda s: domain.step_norm(s - x)), x + 1e-3
    else:
        half = 0.5 * np.broadcast_to(np.subtract(domain.high, domain.low), size) if isinstance(domain, Box) else 1.0
        more = 1 if isinstance(domain, Box) else size
        norm, start = (lambda s: s[size:].sum()), np.concatenate([x, np.zeros(more)])
        bounds = [*bounds, *[(0.0, 2.0)] * more]
        for sign in (1.0, -1.0):
            constraints.append({"type": "ineq", "fun": lambda s, sign=sign: s[size:] - sign * (s[:size] - x) / half})
    return scipy_minimize(
        lambda s: 0.5 * norm(s) ** 2 + slope @ (s[:size] - x), start,
        bounds=bounds, constraints=constraints, method="SLSQP",
    ).fun  # fmt: skip


@pytest.mark.parametrize(("domain", "p"), SMALL, ids=str)
def test_a_general_solver_finds_no_better_descent_step(domain, p):
    if isinstance(domain, GroupBall):  # whose step is not the argmin
        return
    rng = np.random.default_rng(1)
    for x in points_of(domain, p, rng, 5):
        slope = rng.normal(size=x.size)
        found = model(domain, x, slope, 1.0, domain.descent_step(x, slope, 1.0, x))
        best = descent_value_by_scipy(domain, x, slope)
        assert found <= best + 1e-6
        assert found == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize(
    ("curvature", "length"),
    [(8.0, 0.25), (4.0, 0.5), (3.0, 0.5), (2.0, 0.5), (1.0, 1.0), (0.8, 1.25), (0.1, 2.0)],
)
def test_the_best_length_of_a_step_whose_gain_bends_twice(curvature, length):
    # Slope 2 up to 0.5, then 1 up to 2.
    assert best_length(np.array([0.5, 2.0]), np.array([2.0, 1.0]), curvature) == pytest.approx(length)
