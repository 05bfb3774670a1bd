"""Section 6.2: squared gradient norms on losses that are not convex, against n and against ε."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.paper.solvers.rrpsgd import RRPSGD
from dperm.paper.studies.reproduce.gradients import CLIP, HIDDEN, NETWORK, SIGMOID
from dperm.paper.studies.reproduce.lab import Measurement
from dperm.paper.studies.reproduce.pictures import Panel, Trend, draw_trends
from dperm.paper.studies.reproduce.section import ADJACENCY, Cell, Section, Sheet
from dperm.paper.studies.reproduce.trials import DELTA, FEWEST_POINTS, MOVED, Measured, Method, Place, Trial
from dperm.paper.studies.reproduce.verdicts import (
    ROOM,
    TOLERANCE,
    Verdict,
    all_of,
    is_smaller,
    mean_is_below,
    slope,
    undecided,
)
from dperm.solvers.descent.dp_gd import DPGD
from dperm.solvers.variance_reduced.dp_spider import DPSpider
from dperm.solvers.variance_reduced.dp_svrg import DPSVRG

GD, RR, SVRG, SPIDER = "DP-GD", "RRPSGD", "DP-SVRG", "DP-Spider"


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
        title = "Section 6.2: gradient norms where the loss is not convex"
        return Section(
            name=self.name,
            title=title,
            setting=f"Covertype, δ = {DELTA:g}, {ADJACENCY}",
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
                f"where the mean is above {MOVED:g} of that of the start is left out.",
            ),
            rule=f"A bound on ‖∇F‖² is kept if the upper end of every power's interval is at most the bound's power + "
            f"{TOLERANCE:g}, and fails if a lower end is above that and a mean above {ROOM:g} times the bound. Where a "
            "point is left out, the claim is undecided at best. One method is better than another if Welch's 95 % "
            "interval over seeds says so.",
            headlines=tuple(_headline(found[0], gd) for gd in [found[0].trial.method(GD)] if gd is not None),
            verdicts=[verdict for one in found for verdict in _verdicts(one)],
            summary=(_summary(found),),
            measurements=_sheet(found),
            pictures={self.name: _picture(title, found)},
        )


def _headline(found: Measured, method: Method) -> str:
    """How Theorem 6.3 fares."""
    power, places = found.power(method, "n"), found.trial.places()
    most = max(found.mean(method, at) / found.bound(method, at) for at in places)
    falls = "does not fall visibly with n" if power is None else (
        f"changes with n to the power {power.value:.2f} [{power.low:.2f}, {power.high:.2f}], its bound (Theorem 6.3) "
        f"with {power.bound:.2f}"
    )  # fmt: skip
    return f"On the {found.trial.title} ‖∇F‖² of {method.label} {falls}; it is at most {most:.2g} of that bound."


def _verdicts(found: Measured) -> list[Verdict]:
    trial = found.trial
    gd, rr, svrg, spider = [trial.method(label) for label in (GD, RR, SVRG, SPIDER)]
    long = any(len(places) >= FEWEST_POINTS for places in trial.axes.values())
    verdicts = [_rate(found, method) for method in trial.methods if long]
    verdicts.append(_below(found))
    pairs = [(gd, rr), (svrg, gd), (spider, gd)]
    verdicts += [_against(found, ours, other) for ours, other in pairs if ours is not None and other is not None]
    if long and spider is not None and gd is not None:
        verdicts.append(_steeper(found, spider, gd))
    return verdicts


def _rate(found: Measured, method: Method) -> Verdict:
    """Whether ‖∇F‖² falls as its bound does."""
    texts, findings = [], []
    for axis, places in found.trial.axes.items():
        power = found.power(method, axis)
        if power is not None:
            findings.append(power.keeps_the_bound().about(f"power of {axis}"))
        if power is None or len(found.moved(method, axis)) < len(places):
            findings.append(undecided(found.why_not_moved(method, axis)))
        texts.append(f"{axis} {power or 'not seen, it hardly moved'}")
    theorem = " of Theorem 6.3" if method.label == GD else ""
    return Verdict(
        f"{method.label}, {found.trial.title}: ‖∇F‖² falls as fast as its bound{theorem}.", all_of(findings),
        f"Powers of {', '.join(texts)}.",
    )  # fmt: skip


def _below(found: Measured) -> Verdict:
    trial = found.trial
    points = [(method, at) for method in trial.methods for at in trial.places()]
    findings = [
        mean_is_below(found.squares(method, at), found.bound(method, at), len(points)).about(
            f"{method.label} at n = {at.n}, ε = {at.epsilon:g}"
        )
        for method, at in points
    ]
    shares = [
        f"{method.label} {max(found.mean(method, at) / found.bound(method, at) for at in trial.places()):.2g}"
        for method in trial.methods
    ]
    return Verdict(
        f"On the {trial.title} all mean ‖∇F‖² are below their bounds.", all_of(findings),
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
    stayed = [one for one in (ours, other) if len(found.moved(one, "n")) < len(found.trial.axes["n"])]
    finding = undecided("; ".join(found.why_not_moved(one, "n") for one in stayed) or "there are too few points")
    text = "not seen, one of them hardly moved"
    if len(places) >= FEWEST_POINTS:
        slopes = found.slopes(ours, places), found.slopes(other, places)
        finding = is_smaller(*[np.exp(one).tolist() for one in slopes])  # Welch's interval for the powers themselves
        bounds = [slope([at.n for at in places], [found.bound(one, at) for at in places]) for one in (ours, other)]
        text = (
            f"{np.mean(slopes[0]):.2f} against {np.mean(slopes[1]):.2f}; the bounds have {bounds[0]:.2f} and "
            f"{bounds[1]:.2f}, and −4/3 and −1 with as many steps as one likes"
        )
    return Verdict(
        f"{ours.label}'s ‖∇F‖² falls faster with n than {other.label}'s, {found.trial.title}.", finding,
        f"Powers of n: {text}.",
    )  # fmt: skip


def _ratio(first: Sequence[float], second: Sequence[float]) -> float:
    """The second over the first, geometric means."""
    return math.exp(float(np.mean(np.log(second))) - float(np.mean(np.log(first))))


def _picture(title: str, found: Sequence[Measured]) -> bytes:
    drawn = "solid: means over seeds, bars from the least to the largest; dashed: the bounds on them"
    panels = [[_panel(one, axis) for axis in one.trial.axes] for one in found]
    return draw_trends(f"{title}\n{drawn}", "‖∇F(w)‖²", panels)


def _panel(found: Measured, axis: str) -> Panel:
    trial, curves = found.trial, []
    places = trial.axes[axis]
    for method in trial.methods:
        x = [float(at.n) if axis == "n" else at.epsilon for at in places]
        squares = [found.squares(method, at) for at in places]
        curves.append(Trend(method.label, x, squares, [found.bound(method, at) for at in places]))
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
            Trial("sigmoid loss", SIGMOID, _methods(200, 3, 2, 2), Place(2_000, 2.0), (1_000, 2_000, 4_000),
                  (1.0, 2.0)),
            Trial("network with few rows", NETWORK, _methods(50, 2, 2, 2), Place(500, 8.0), (250, 500), (4.0, 8.0)),
        ))  # fmt: skip
    ns, epsilons = (2_500, 5_000, 10_000, 20_000), (1.0, 2.0, 4.0, 8.0)
    return NonConvex((
        Trial("sigmoid loss", SIGMOID, _methods(2_000, 48, 4, 8), Place(5_000, 2.0), ns, epsilons),
        Trial("network", NETWORK, _methods(300, 16, 4, 8)[:2], Place(10_000, 8.0), ns[1:], (4.0, 8.0, 16.0)),
        Trial("network with few rows", NETWORK, _methods(300, 24, 4, 12), Place(2_500, 8.0), (1_250, 2_500),
              (4.0, 8.0)),
    ))  # fmt: skip


def _methods(max_steps: int, seeds: int, of_svrg: int, of_spider: int) -> tuple[Method, ...]:
    """All methods, those with gradient differences with fewer seeds; DP-Spider is cut at so many steps."""
    spider = DPSpider(release="uniform", max_steps=max_steps)
    return (
        Method(GD, DPGD(), seeds),
        Method(RR, RRPSGD(), seeds),
        Method(SVRG, DPSVRG(), of_svrg),
        Method(SPIDER, spider, of_spider),
    )
