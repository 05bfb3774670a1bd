"""DP-AccMD: the rate of Theorem 5.4, its proof step by step under noise, and what the solver refuses."""

import math

import numpy as np
import pytest

from dperm import FitOptions, Guarantee, InvalidParameterError, Problem, minimize
from dperm.errors import UnsupportedProblemError
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Adjacency
from dperm.problem import L2, Box, GroupBall, L1Ball, L2Ball, Logistic, Sigmoid, Simplex
from dperm.problem.domains import Domain
from dperm.solvers import DPAccMD

P = 40
FIVES = tuple(tuple(range(5 * j, 5 * j + 5)) for j in range(P // 5))
DOMAINS = [
    L2Ball(1.5),
    L1Ball(2.0),
    Simplex(3.0),
    Box(-0.5, 2.0),
    Box(tuple(-0.1 * j for j in range(P)), 1.0),
    GroupBall(2.0, FIVES),
]
every_y_step = pytest.mark.parametrize("y_step", ["average", "argmin"])
every_domain = pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)


class Chain:
    """F(w) = ½(w − w*)ᵀH(w − w*) with Nesterov's tridiagonal H: nearly as hard as a smooth function can be.

    It stands in for the oracle, and adds the noise that it is told to.
    """

    def __init__(self, domain, setting, optimum, sigma=0.0):
        # 2I − (shift + shiftᵀ) has its eigenvalues in (0, 4).
        second_difference = 2.0 * np.eye(P) - np.eye(P, k=1) - np.eye(P, k=-1)
        self.hessian = setting.smoothness / 4.0 * second_difference
        self.optimum, self.sigma, self.rng = optimum, sigma, np.random.default_rng(0)
        self.noises = []

    def risk(self, w):
        return 0.5 * (w - self.optimum) @ self.hessian @ (w - self.optimum)

    def ask(self, item, w):
        self.noises.append(self.sigma * self.rng.standard_normal(P))
        return self.hessian @ (w - self.optimum) + self.noises[-1]


def optima(domain):
    """Points of C: what the chain would like best, a corner, and one in between."""
    rng = np.random.default_rng(0)
    yield domain.project(np.linspace(1.0, 0.0, P) * domain.norm_bound(P) / math.sqrt(P / 3))
    yield domain.project(1e6 * rng.normal(size=P))
    yield domain.project(0.3 * rng.normal(size=P))


def setting_for(domain):
    return Setting(Problem(Logistic(), domain=domain).constants(P), 1000, Adjacency.REPLACE_ONE)


def run(domain, chain, n_steps, y_step):
    solver, problem = DPAccMD(n_steps=n_steps, y_step=y_step), Problem(Logistic(), domain=domain)
    plan = solver.plan(setting_for(domain), None)
    return solver.run(chain, problem, plan, problem.start(P)), plan.settings.smoothness


@pytest.mark.one_case_in(4)
@every_y_step
@every_domain
def test_without_noise_the_gap_falls_as_the_theorem_says(domain, y_step):
    for optimum in optima(domain):
        for n_steps in (*range(1, 65), 256):
            chain = Chain(domain, setting_for(domain), optimum)
            w, smoothness = run(domain, chain, n_steps, y_step)
            assert chain.risk(w) <= 8.0 * smoothness * domain.divergence_bound(P) / (n_steps + 1) ** 2


def lift(domain, w):
    """A point of K that stands for w."""
    match domain:
        case Simplex():
            return w / domain.total
        case L1Ball():
            sides = np.concatenate([np.maximum(w, 0.0), np.maximum(-w, 0.0)]) / domain.radius
            return sides + (1.0 - sides.sum()) / sides.size
    return w


def dual_norm(domain, v):
    """Max of ⟨v, w⟩ over the half-difference body."""
    match domain:
        case Simplex():
            return 0.5 * domain.total * (v.max() - v.min())
        case Box():
            return 0.5 * float(np.abs(v) @ np.broadcast_to(np.subtract(domain.high, domain.low), P))
    return domain.dual_norm(v)


@pytest.mark.cases_with_every_value
@every_y_step
@every_domain
@pytest.mark.parametrize("sigma", [0.0, 1e-3, 0.03, 1.0])
def test_every_step_keeps_the_inequality_of_the_proof(domain, sigma, y_step, monkeypatch):
    """2α²L'(F(y₊) − F*) + B(u, z₊) ≤ (2α²L' − α)(F(y) − F*) + B(u, z) + α⟨b, u − z⟩ + cost of b, for every noise b."""
    kind, mirrored, descended = type(domain), [], []
    mirror_step, descent_step = kind.mirror_step, kind.descent_step
    monkeypatch.setattr(kind, "mirror_step", lambda *given: mirrored.append(mirror_step(*given)) or mirrored[-1])
    monkeypatch.setattr(kind, "descent_step", lambda *given: descended.append(descent_step(*given)) or descended[-1])
    for optimum in optima(domain):
        chain = Chain(domain, setting_for(domain), optimum, sigma)
        mirrored[:] = descended[:] = [domain.centre(P)]
        w, smoothness = run(domain, chain, 64, y_step)
        if y_step == "average":
            for k, z in enumerate(mirrored[1:]):
                descended.append((2 * z + k * descended[-1]) / (k + 2))  # r_k = 2/(k + 2)
        np.testing.assert_allclose(domain.coefficients(descended[-1]), w, atol=1e-12)
        u = lift(domain, optimum)
        gaps = [chain.risk(domain.coefficients(y)) for y in descended]
        divergences = [domain.divergence(u, z) for z in mirrored[:65]]
        assert len(chain.noises) == 64
        for k, noise in enumerate(chain.noises):
            alpha, z = (k + 2) / (4.0 * smoothness), mirrored[k]
            weight = 2.0 * alpha**2 * smoothness
            before = (weight - alpha) * gaps[k] + divergences[k]
            if y_step == "argmin":
                cost = alpha**2 * dual_norm(domain, noise) ** 2
            else:  # the largest ⟨αb, z − u⟩ − ½ B_w(u, z)
                slope = alpha * domain.pull_back(noise)
                worst = mirror_step(domain, z, 2.0 * slope)
                cost = slope @ (z - worst) - 0.5 * domain.divergence(worst, z)
            allowed = before + alpha * noise @ (optimum - domain.coefficients(z)) + cost
            assert weight * gaps[k + 1] + divergences[k + 1] <= allowed + 1e-9 * (1.0 + abs(allowed))


class Unshaped(Domain):
    """A set without a mirror map."""

    name = "unshaped"
    project = minkowski_norm = dual_norm = norm_bound = diameter = gaussian_width = None


@pytest.mark.parametrize(
    ("problem", "word"),
    [
        (Problem(Sigmoid(), domain=L1Ball()), "convex"),
        (Problem(Logistic(), L2(0.1), L1Ball()), "regularizer"),
        (Problem(Logistic()), "bounded domain"),
    ],
    ids=["non-convex", "regularized", "unbounded"],
)
def test_what_it_cannot_take_is_refused_and_dp_gd_takes_it(problem, word):
    with pytest.raises(UnsupportedProblemError, match=word):
        FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver="dp-accmd").plan(1000, P)
    FitOptions(problem, guarantee=Guarantee(1.0, 1e-6), solver="dp-gd").plan(1000, P)


def test_a_domain_without_a_mirror_map_is_refused():
    assert "mirror map, which unshaped is not" in DPAccMD().refusal(Problem(Logistic(), domain=Unshaped()))


def bound(n, n_steps, guarantee, y_step):
    """Theorem 5.4 with constants, on the l1 ball, from the calibrated noise of that many steps."""
    domain = L1Ball(2.0)
    problem, solver = Problem(Logistic(), domain=domain), DPAccMD(n_steps=n_steps, y_step=y_step)
    sigma = FitOptions(problem, guarantee=guarantee, solver=solver).plan(n, P).statement.sigma
    smoothness = 0.25 * domain.radius**2
    alphas = np.arange(2, n_steps + 2) / (4.0 * smoothness)
    cost = domain.radius**2 + (domain.gaussian_width(P) ** 2 if y_step == "argmin" else 0.0)
    noise = sigma**2 * cost * (alphas**2).sum() / (2.0 * alphas[-1] ** 2 * smoothness)
    return 8.0 * smoothness * math.log(2 * P) / (n_steps + 1) ** 2 + noise


@every_y_step
@pytest.mark.parametrize("n", [300, 3_000, 100_000])
def test_the_default_number_of_steps_minimises_the_bound(n, y_step):
    guarantee = Guarantee(1.0, 1e-6)
    setting = Setting(Problem(Logistic(), domain=L1Ball(2.0)).constants(P), n, Adjacency.REPLACE_ONE)
    chosen = DPAccMD(y_step=y_step).plan(setting, guarantee).settings.n_steps
    for other in {max(1, chosen - 1), chosen + 1, 2 * chosen, math.ceil(chosen / 2)}:
        assert bound(n, chosen, guarantee, y_step) <= bound(n, other, guarantee, y_step) * (1 + 1e-6)


def test_steps_grow_with_the_root_of_n_and_stop_at_the_cap():
    def steps(n, **settings):
        setting = Setting(Problem(Logistic(), domain=L1Ball(2.0)).constants(P), n, Adjacency.REPLACE_ONE)
        return DPAccMD(**settings).plan(setting, Guarantee(1.0, 1e-6)).settings.n_steps

    assert steps(1_000_000) / steps(10_000) == pytest.approx(10.0, rel=0.05)
    assert steps(1_000_000, max_steps=17) == 17
    assert steps(1_000_000, n_steps=23) == 23


def test_the_paper_noise_is_that_of_theorem_5_3():
    problem, guarantee = Problem(Logistic(), domain=L1Ball()), Guarantee(0.5, 1e-5)
    solver = DPAccMD(n_steps=9, paper_constant=3.0)
    sigma = FitOptions(problem, guarantee=guarantee, solver=solver, noise="paper").plan(1000, P).statement.sigma
    assert sigma**2 == pytest.approx(3.0 * 9 * math.log(1e5) / (1000 * 0.5) ** 2, rel=1e-12)


def test_a_domain_of_one_point_is_left_alone():
    X, y = np.ones((50, 1)), np.ones(50)
    problem = Problem(Logistic(), domain=Simplex(0.7))
    for noise in ("certified", None):
        w = minimize(problem, X, y, guarantee=Guarantee(1.0, 1e-6), noise=noise, solver="dp-accmd").w
        np.testing.assert_allclose(w, [0.7], rtol=1e-15)


@pytest.mark.parametrize(
    "wrong", [{"n_steps": 0}, {"y_step": "exact"}, {"max_steps": 2.5}, {"paper_constant": -1.0}], ids=str
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        DPAccMD(**wrong)
