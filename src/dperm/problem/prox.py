"""Proximal steps of a regularizer together with a domain: argmin over w in C of ½‖w − v‖² + step · r(w)."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dperm.problem.domains import BlockDomain, Box, Domain, GroupBall, L1Ball, L2Ball, Simplex, WholeSpace
from dperm.problem.dykstra import dykstra
from dperm.problem.regularizers import L1, BlockRegularizer, GroupL2, NoRegularizer, Regularizer

Array = NDArray[np.float64]


def prox_is_exact(regularizer: Regularizer, domain: Domain) -> bool:
    """Whether `composite_prox` is computed exactly for this pair, hence does not expand distances."""
    parts = _by_blocks(regularizer, domain)
    if parts is not None:
        return all(prox_is_exact(r, c) for _, r, c in parts)
    easier = regularizer.simplified_on(domain.name)
    return _projects_exactly(easier, domain) or (type(easier), type(domain)) in _PAIRS


def composite_prox(regularizer: Regularizer, domain: Domain, v: Array, step: float) -> Array:
    """Proximal step of r plus the indicator of C."""
    parts = _by_blocks(regularizer, domain)
    if parts is not None:
        w = v if isinstance(regularizer, BlockRegularizer) else regularizer.prox(v, step)
        w = w.copy()
        for block, r, c in parts:
            w[block] = composite_prox(r, c, v[block], step)
        return w
    easier = regularizer.simplified_on(domain.name)
    if _projects_exactly(easier, domain):
        return domain.project(easier.prox(v, step))
    pair = _PAIRS.get((type(easier), type(domain)))
    if pair is not None:
        return pair(easier, domain, v, step)
    return dykstra(easier, domain, v, step)


@dataclass(frozen=True)
class CoordinateProx:
    """A proximal step that works coordinate by coordinate: shrink(v_j, step, *parameters), then clip to [low, high].

    What comes out longer than `radius` is shortened to it.
    """

    shrink: Callable[..., Any]
    parameters: tuple[float, ...]
    low: float | tuple[float, ...]
    high: float | tuple[float, ...]
    radius: float = np.inf

    def __call__(self, v: Array, step: float) -> Array:
        """The step from v."""
        w = np.clip(self.shrink(v, step, *self.parameters), self.low, self.high)
        norm = float(np.linalg.norm(w))
        return np.asarray(w if norm <= self.radius else w * (self.radius / norm))


def coordinate_prox(regularizer: Regularizer, domain: Domain) -> CoordinateProx | None:
    """The proximal step of this pair in a form that native code has, or None if there is none."""
    if regularizer.shrink is None or domain.name not in regularizer.projects_exactly_onto:
        return None
    if isinstance(domain, Box):
        return CoordinateProx(regularizer.shrink, regularizer.parameters, domain.low, domain.high)
    if isinstance(domain, WholeSpace):
        return CoordinateProx(regularizer.shrink, regularizer.parameters, -np.inf, np.inf)
    if isinstance(domain, L2Ball):
        return CoordinateProx(regularizer.shrink, regularizer.parameters, -np.inf, np.inf, domain.radius)
    return None


def _by_blocks(regularizer: Regularizer, domain: Domain) -> list[tuple[slice, Regularizer, Domain]] | None:
    """The pair as pairs on blocks of coefficients, None if it is not one of blocks or does not separate along them.

    Coefficients outside of all blocks have no domain, and the regularizer itself if that has no blocks.
    """
    if not isinstance(domain, BlockDomain):
        if not (isinstance(regularizer, BlockRegularizer) and isinstance(domain, WholeSpace)):
            return None
        return [(slice(start, stop), part, domain) for start, stop, part in regularizer.blocks]
    if not isinstance(regularizer, BlockRegularizer):
        separates = regularizer.shrink is not None  # coordinate by coordinate
        return [(slice(start, stop), regularizer, part) for start, stop, part in domain.blocks] if separates else None
    domains = {(start, stop): part for start, stop, part in domain.blocks}
    regularizers = {(start, stop): part for start, stop, part in regularizer.blocks}
    edges = sorted({*domains, *regularizers})
    if any(stop > start for (_, stop), (start, _) in itertools.pairwise(edges)):
        return None
    return [
        (slice(*edge), regularizers.get(edge, NoRegularizer()), domains.get(edge, WholeSpace())) for edge in edges
    ]  # fmt: skip


def _projects_exactly(regularizer: Regularizer, domain: Domain) -> bool:
    """Whether the proximal step is: prox of r, then projection onto C."""
    if isinstance(regularizer, GroupL2) and isinstance(domain, GroupBall):
        # If r penalises whole groups of the ball, the ball's multiplier only adds to their threshold.
        return set(map(frozenset, regularizer.groups)) <= set(map(frozenset, domain.groups))
    return domain.name in regularizer.projects_exactly_onto


def _groups_on_l1_ball(regularizer: GroupL2, domain: L1Ball, v: Array, step: float) -> Array:
    # The ball's multiplier θ adds θ‖w‖₁, and the sparse-group prox is: threshold, then shrink the groups.
    def at(theta: float) -> Array:
        return regularizer.prox(np.asarray(L1.shrink(v, theta, 1.0)), step)

    if float(np.abs(at(0.0)).sum()) <= domain.radius:
        return at(0.0)
    theta = brentq(lambda t: np.abs(at(t)).sum() - domain.radius, 0.0, float(np.abs(v).max()), xtol=1e-300, rtol=1e-15)
    return domain.project(at(theta))


def _groups_on_simplex(regularizer: GroupL2, domain: Simplex, v: Array, step: float) -> Array:
    # The same with θ Σ w_j and w ≥ 0: clip at θ from below, then shrink the groups.
    def at(theta: float) -> Array:
        return regularizer.prox(np.maximum(v - theta, 0.0), step)

    top = float(v.max())
    reach = domain.total
    while at(top - reach).sum() < domain.total:
        reach *= 2.0
    theta = brentq(lambda t: at(t).sum() - domain.total, top - reach, top, xtol=1e-300, rtol=1e-15)
    return domain.project(at(theta))


def _groups_on_box(regularizer: GroupL2, domain: Box, v: Array, step: float) -> Array:
    # Groups separate; in each, w = clip(v · ν/(ν + t)) with ν = ‖w‖, one equation in one unknown.
    # Completing the square takes the ridge out first.
    shrink = 1.0 + step * regularizer.ridge
    v, threshold = v / shrink, step * regularizer.strength / shrink
    low, high = np.broadcast_to(domain.low, v.shape), np.broadcast_to(domain.high, v.shape)
    w = np.clip(v, low, high)
    for group in map(list, regularizer.groups):
        part, bounds = v[group], (low[group], high[group])
        movable = np.where(np.where(part > 0, bounds[1] > 0, bounds[0] < 0), part, 0.0)
        if float(np.linalg.norm(movable)) <= threshold:
            w[group] = 0.0
            continue

        def at(norm: float, part: Array = part, bounds: tuple[Array, Array] = bounds) -> Array:
            return np.clip(part * (norm / (norm + threshold)), *bounds)

        top = float(np.linalg.norm(w[group]))
        norm = brentq(
            lambda size, at=at: float(np.linalg.norm(at(size))) / size - 1.0, top * 1e-15, top, xtol=1e-300, rtol=1e-15
        )
        w[group] = at(norm)
    return w


_PAIRS: dict[tuple[type, type], Callable[..., Array]] = {
    (GroupL2, L1Ball): _groups_on_l1_ball,
    (GroupL2, Simplex): _groups_on_simplex,
    (GroupL2, Box): _groups_on_box,
}
