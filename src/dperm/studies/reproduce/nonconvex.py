"""Section 6.2: squared gradient norms on losses that are not convex, against n and against ε."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.accounting.curve import gaussian_mu
from dperm.accounting.guarantee import Guarantee
from dperm.solvers import Solver
from dperm.solvers.descent.dp_gd import DPGD
from dperm.solvers.descent.rrpsgd import RRPSGD
from dperm.solvers.variance_reduced.dp_spider import DPSpider
from dperm.solvers.variance_reduced.dp_svrg import DPSVRG
from dperm.studies.reproduce.gradients import CLIP, HIDDEN, NETWORK, SIGMOID, GradientNorm
from dperm.studies.reproduce.lab import Measurement
from dperm.studies.reproduce.pictures import Bounded, draw_bounded
from dperm.studies.reproduce.section import Cell, Section, Sheet
from dperm.studies.reproduce.verdicts import (
    Exponent,
    Outcome,
    Verdict,
    all_of,
    fit_exponent,
    is_smaller,
    mean_is_below,
    slope,
)

DELTA = 1e-5
GD, RR, SVRG, SPIDER = "DP-GD", "RRPSGD", "DP-SVRG", "DP-Spider"

# A method has come somewhere if its ‖∇F‖² is below so much of that of the start.
MOVED = 0.5

# Fewer points do not make a power.
_FEWEST_POINTS = 3


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
        if len(places) < _FEWEST_POINTS or not np.all(np.isfinite(bounds)):
            return None
        series = np.array([self.squares(method, at) for at in places]).T.tolist()
        return fit_exponent([_scale(at, axis) for at in places], series, [bounds])

    def per_seed(self, method: Method, places: Sequence[Place]) -> list[float]:
        """Geometric means over places, one for every seed."""
        with np.errstate(divide="ignore"):
            logs = np.log([self.squares(method, at) for at in places])
        return [float(one) for one in np.exp(logs.mean(axis=0))]

    def slopes(self, method: Method, places: Sequence[Place]) -> list[float]:
        """Powers of n, one for every seed."""
        series = np.array([self.squares(method, at) for at in places]).T
        return [slope([at.n for at in places], one.tolist()) for one in series]


@dataclass(frozen=True)
class NonConvex:
    """The study of section 6.2."""

    trials: tuple[Trial, ...]

    name = "nonconvex"

    def measurements(self) -> list[Measurement]:
        """Every fit."""
        return [
            trial.fit(method, at, seed)
            for trial in self.trials
            for method in trial.methods
            for at in trial.places()
            for seed in range(method.seeds)
        ]

    def section(self, results: Mapping[Measurement, dict[str, Any]]) -> Section:
        """Powers, verdicts, a picture and numbers."""
        found = [Measured(trial, results) for trial in self.trials]
        title = f"Section 6.2: not convex, Covertype, δ = {DELTA:g}, replace_one"
        return Section(
            name=self.name,
            title=title,
            text=(
                "‖∇F(w)‖² of what is released, computed exactly outside of privacy. DP-GD, RRPSGD and DP-Spider return "
                "an iterate drawn at random, as their theorems have it, DP-SVRG the one with the shortest step. Every "
                "seed draws rows, noise and how far along the iterate is. All noise is certified. Bounds are those "
                "that the solvers know, with all constants: Theorem 6.3 for DP-GD, of the order √p/(nε); for DP-Spider "
                "(√p/(nε))^{4/3} as long as its steps are not cut short. DP-SVRG's is proved for a random iterate.",
                f"The network has {HIDDEN} hidden units (tanh) and the logistic loss, as a function of one row in JAX "
                f"whose gradients are clipped to {CLIP:g}. What is measured there is the mean of the clipped "
                "gradients, and the bounds rest on guesses at L and at the gap: they are no theorem. DP-SVRG and "
                "DP-Spider clip differences of gradients row by row, which takes too long with many rows: they are run "
                "on the network with few rows only.",
                "Powers are fitted to every seed's own series, with the 95 % t interval over seeds; for ε they are "
                "powers of μ, what (ε, δ) allow. Beside them is the power of the bound on the same points. A point "
                f"where the mean is above {MOVED:g} of that of the start is left out, and the claim undecided at best.",
            ),
            verdicts=[verdict for one in found for verdict in _verdicts(one)],
            summary=(_summary(found),),
            measurements=_sheet(found),
            picture=draw_bounded(title, [[_panel(one, axis) for axis in one.trial.axes] for one in found]),
        )


def _scale(at: Place, axis: str) -> float:
    return float(at.n) if axis == "n" else at.mu


def _verdicts(found: Measured) -> list[Verdict]:
    trial = found.trial
    gd, rr, svrg, spider = [trial.method(label) for label in (GD, RR, SVRG, SPIDER)]
    long = any(len(places) >= _FEWEST_POINTS for places in trial.axes.values())
    verdicts = [_rate(found, method) for method in trial.methods if long]
    verdicts.append(_below(found))
    pairs = [(gd, rr), (svrg, gd), (spider, gd)]
    verdicts += [_against(found, ours, other) for ours, other in pairs if ours is not None and other is not None]
    if long and spider is not None and gd is not None:
        verdicts.append(_steeper(found, spider, gd))
    return verdicts


def _rate(found: Measured, method: Method) -> Verdict:
    """Whether ‖∇F‖² falls as its bound does."""
    texts, outcomes = [], []
    for axis, places in found.trial.axes.items():
        power = found.power(method, axis)
        outcomes.append(Outcome.OPEN if power is None else power.keeps_the_bound())
        if len(found.moved(method, axis)) < len(places):
            outcomes.append(Outcome.OPEN)
        texts.append(f"{axis} {power or 'not seen, it hardly moved'}")
    theorem = " of Theorem 6.3" if method.label == GD else ""
    return Verdict(
        f"{method.label}, {found.trial.title}: ‖∇F‖² falls as fast as its bound{theorem}.", all_of(outcomes),
        f"Powers of {', '.join(texts)}.",
    )  # fmt: skip


def _below(found: Measured) -> Verdict:
    trial = found.trial
    points = [(method, at) for method in trial.methods for at in trial.places()]
    outcomes = [mean_is_below(found.squares(*point), found.bound(*point), len(points)) for point in points]
    shares = [
        f"{method.label} {max(found.mean(method, at) / found.bound(method, at) for at in trial.places()):.2g}"
        for method in trial.methods
    ]
    return Verdict(
        f"On the {trial.title} all mean ‖∇F‖² are below their bounds.", all_of(outcomes),
        f"The largest mean over its bound, at {len(points)} points: {', '.join(shares)}.",
    )  # fmt: skip


def _against(found: Measured, ours: Method, other: Method) -> Verdict:
    """Whether one has smaller norms than another, over all places."""
    places = found.trial.places()
    pair = found.per_seed(ours, places), found.per_seed(other, places)
    ratios = [found.mean(other, at) / found.mean(ours, at) for at in places]
    return Verdict(
        f"{ours.label} has smaller ‖∇F‖² than {other.label}, {found.trial.title}.",
        is_smaller(*pair),
        f"Over {len(places)} points that of {other.label} is {_ratio(*pair):.2f} times as large in the geometric mean; "
        f"its means are {min(ratios):.2f} to {max(ratios):.2f} times as large.",
    )


def _steeper(found: Measured, ours: Method, other: Method) -> Verdict:
    places = [at for at in found.moved(ours, "n") if at in found.moved(other, "n")]
    outcome, text = Outcome.OPEN, "it hardly moved"
    if len(places) >= _FEWEST_POINTS:
        slopes = found.slopes(ours, places), found.slopes(other, places)
        outcome = is_smaller(*[np.exp(one).tolist() for one in slopes])  # Welch's interval for the powers themselves
        bounds = [slope([at.n for at in places], [found.bound(one, at) for at in places]) for one in (ours, other)]
        text = (
            f"{np.mean(slopes[0]):.2f} against {np.mean(slopes[1]):.2f}; the bounds have {bounds[0]:.2f} and "
            f"{bounds[1]:.2f}, and −4/3 and −1 with as many steps as one likes"
        )
    return Verdict(
        f"{ours.label}'s ‖∇F‖² falls faster with n than {other.label}'s, {found.trial.title}.", outcome,
        f"Powers of n: {text}.",
    )  # fmt: skip


def _ratio(first: Sequence[float], second: Sequence[float]) -> float:
    """The second over the first, geometric means."""
    return math.exp(float(np.mean(np.log(second))) - float(np.mean(np.log(first))))


def _panel(found: Measured, axis: str) -> tuple[str, str, list[Bounded]]:
    trial, curves = found.trial, []
    places = trial.axes[axis]
    for method in trial.methods:
        x = [float(at.n) if axis == "n" else at.epsilon for at in places]
        squares = [found.squares(method, at) for at in places]
        curves.append(Bounded(method.label, x, squares, [found.bound(method, at) for at in places]))
    fixed = f"ε = {trial.base.epsilon:g}" if axis == "n" else f"n = {trial.base.n}"
    return f"{trial.title}, {fixed}", axis, curves


def _summary(found: Sequence[Measured]) -> Sheet:
    rows: list[list[Cell]] = []
    for one in found:
        base = one.trial.base
        for method in one.trial.methods:
            powers = [one.power(method, axis) for axis in one.trial.axes]
            runs = one.runs(method, base)
            rows.append([
                one.trial.title, method.label, *[None if power is None else str(power) for power in powers], base.n,
                base.epsilon, one.mean(method, base), one.bound(method, base), runs[0].get("gradients"),
                float(np.median([run.get("seconds", math.inf) for run in runs])), method.seeds,
            ])  # fmt: skip
    columns = (
        "problem", "method", "power of n", "power of μ(ε)", "n", "ε", "mean ‖∇F‖²", "bound", "gradients", "seconds",
        "seeds",
    )  # fmt: skip
    starts = [
        float(np.mean([run["at_start"] for run in one.runs(one.trial.methods[0], one.trial.base)])) for one in found
    ]
    told = ", ".join(f"{start:.2g} on the {one.trial.title}" for start, one in zip(starts, found, strict=True))
    return Sheet(f"Powers with 95 % intervals, and the norms at one n and ε. The start has {told}.", columns, rows)


def _sheet(found: Sequence[Measured]) -> Sheet:
    rows: list[list[Cell]] = []
    for one in found:
        for method in one.trial.methods:
            for at in one.trial.places():
                for seed, run in enumerate(one.runs(method, at)):
                    rows.append([
                        one.trial.title, method.label, repr(method.solver), at.n, at.epsilon, DELTA, "replace_one",
                        seed, run["square"], run.get("bound"), run["at_start"], run.get("seconds"),
                        run.get("gradients"),
                    ])  # fmt: skip
    columns = (
        "problem", "method", "solver", "n", "epsilon", "delta", "adjacency", "seed", "squared_norm", "bound",
        "squared_norm_at_start", "seconds", "gradients",
    )  # fmt: skip
    return Sheet("Every fit", columns, rows)


def study(quick: bool) -> NonConvex:
    """The sigmoid loss and a small network.

    Methods that ask for one gradient a step have more seeds: the iterate drawn at random decides much.
    """
    if quick:
        return NonConvex((
            Trial("sigmoid loss", SIGMOID, _methods(3, 2, 200), Place(2_000, 2.0), (1_000, 2_000, 4_000), (1.0, 2.0)),
            Trial("network with few rows", NETWORK, _methods(2, 2, 50), Place(500, 8.0), (250, 500), (4.0, 8.0)),
        ))  # fmt: skip
    ns, epsilons = (2_500, 5_000, 10_000, 20_000), (1.0, 2.0, 4.0, 8.0)
    return NonConvex((
        Trial("sigmoid loss", SIGMOID, _methods(12, 4, 2_000), Place(5_000, 2.0), ns, epsilons),
        Trial("network", NETWORK, _methods(6, 4, 300)[:2], Place(10_000, 8.0), ns[1:], (4.0, 8.0, 16.0)),
        Trial("network with few rows", NETWORK, _methods(6, 4, 300), Place(2_500, 8.0), (1_250, 2_500), (4.0, 8.0)),
    ))  # fmt: skip


def _methods(seeds: int, fewer: int, max_steps: int) -> tuple[Method, ...]:
    """All methods, those with gradient differences with fewer seeds; DP-Spider is cut at so many steps."""
    spider = DPSpider(release="uniform", max_steps=max_steps)
    return (
        Method(GD, DPGD(), seeds),
        Method(RR, RRPSGD(), seeds),
        Method(SVRG, DPSVRG(), fewer),
        Method(SPIDER, spider, fewer),
    )
