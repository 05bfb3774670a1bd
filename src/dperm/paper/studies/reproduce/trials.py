"""Methods on losses that are not convex: where they are tried, and what was measured there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.accounting.curve import gaussian_mu
from dperm.paper.studies.reproduce.gradients import GradientNorm
from dperm.paper.studies.reproduce.lab import Measurement
from dperm.paper.studies.reproduce.verdicts import Exponent, fit_exponent, slope
from dperm.privacy.guarantee import Guarantee
from dperm.solvers import Solver

DELTA = 1e-5

# A method has come somewhere if its ‖∇F‖² is below so much of that of the start.
MOVED = 0.5

# Fewer points do not make a power.
FEWEST_POINTS = 3


@dataclass(frozen=True)
class Place:
    """Where it is measured."""

    n: int
    epsilon: float

    @property
    def mu(self) -> float:
        """What (ε, δ) allow a Gaussian."""
        return gaussian_mu(Guarantee(self.epsilon, DELTA))


@dataclass(frozen=True)
class Method:
    """A solver and its seeds."""

    label: str
    solver: Solver
    seeds: int


@dataclass(frozen=True)
class Trial:
    """Methods on one problem: at `base`, with other n, and with other ε."""

    title: str
    kind: str
    methods: tuple[Method, ...]
    base: Place
    ns: tuple[int, ...]
    epsilons: tuple[float, ...]

    @property
    def axes(self) -> dict[str, tuple[Place, ...]]:
        """The places of each axis."""
        return {
            "n": tuple(replace(self.base, n=n) for n in self.ns),
            "ε": tuple(replace(self.base, epsilon=epsilon) for epsilon in self.epsilons),
        }

    def places(self) -> list[Place]:
        """Those of both axes."""
        return list(dict.fromkeys(at for places in self.axes.values() for at in places))

    def fit(self, method: Method, at: Place, seed: int) -> GradientNorm:
        """One fit."""
        return GradientNorm(self.kind, at.n, method.solver, at.epsilon, DELTA, seed)

    def method(self, label: str) -> Method | None:
        """The method of this name, if it is tried here."""
        return next((method for method in self.methods if method.label == label), None)


class Measured:
    """What was measured on one problem."""

    def __init__(self, trial: Trial, results: Mapping[Measurement, dict[str, Any]]) -> None:
        self.trial, self._results = trial, results

    def runs(self, method: Method, at: Place) -> list[dict[str, Any]]:
        """A result for every seed."""
        return [self._results[self.trial.fit(method, at, seed)] for seed in range(method.seeds)]

    def squares(self, method: Method, at: Place) -> list[float]:
        """‖∇F‖² over seeds; infinite for a fit that failed."""
        return [math.inf if run["square"] is None else float(run["square"]) for run in self.runs(method, at)]

    def mean(self, method: Method, at: Place) -> float:
        """The mean of ‖∇F‖² over seeds."""
        return float(np.mean(self.squares(method, at)))

    def bound(self, method: Method, at: Place) -> float:
        """What the solver knows to bound its expectation."""
        bound = self.runs(method, at)[0].get("bound")
        return math.inf if bound is None else float(bound)

    def moved(self, method: Method, axis: str) -> list[Place]:
        """The places at which the method came somewhere."""
        return [
            at
            for at in self.trial.axes[axis]
            if self.mean(method, at) < MOVED * np.mean([run["at_start"] for run in self.runs(method, at)])
        ]

    def power(self, method: Method, axis: str) -> Exponent | None:
        """How ‖∇F‖² changes along an axis, beside its bound."""
        places = self.moved(method, axis)
        bounds = [self.bound(method, at) for at in places]
        if len(places) < FEWEST_POINTS or not np.all(np.isfinite(bounds)):
            return None
        series = np.array([self.squares(method, at) for at in places]).T.tolist()
        return fit_exponent([_scale(at, axis) for at in places], series, [bounds])

    def why_not_moved(self, method: Method, axis: str) -> str:
        """Why there is no power along this axis, or not one of all its points."""
        places = self.trial.axes[axis]
        if not np.all(np.isfinite([self.squares(method, at) for at in places])):
            return f"a fit of {method.label} failed along {axis}"
        if not np.all(np.isfinite([self.bound(method, at) for at in places])):
            return f"no bound is known for {method.label} along {axis}"
        shares = [
            self.mean(method, at) / float(np.mean([run["at_start"] for run in self.runs(method, at)])) for at in places
        ]
        stayed = [share for share in shares if share >= MOVED]
        return (
            f"{method.label} moved too little at {len(stayed)} of {len(places)} points along {axis}: its mean is "
            f"{min(shares):.2g} to {max(shares):.2g} of that of the start, and only below {MOVED:g} counts"
        )

    def per_seed(self, method: Method, places: Sequence[Place]) -> list[float]:
        """Geometric means over places, one for every seed."""
        with np.errstate(divide="ignore"):
            logs = np.log([self.squares(method, at) for at in places])
        return [float(one) for one in np.exp(logs.mean(axis=0))]

    def slopes(self, method: Method, places: Sequence[Place]) -> list[float]:
        """Powers of n, one for every seed."""
        series = np.array([self.squares(method, at) for at in places]).T
        return [slope([at.n for at in places], one.tolist()) for one in series]


def _scale(at: Place, axis: str) -> float:
    return float(at.n) if axis == "n" else at.mu
