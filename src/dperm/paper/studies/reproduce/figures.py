"""Figures 1 and 2: DP-SVRG and DP-SVRG++ against DP-GD on Covertype, as printed and with certified noise."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.paper.printed import PrintedSVRG, PrintedSVRGPlusPlus
from dperm.paper.studies.reproduce.lab import Fit, Measurement
from dperm.paper.studies.reproduce.pictures import Panel, Trend, draw_trends
from dperm.paper.studies.reproduce.rows import CovertypeRows
from dperm.paper.studies.reproduce.section import ADJACENCY, Section, Sheet
from dperm.paper.studies.reproduce.verdicts import Verdict, all_of, is_smaller, is_true
from dperm.solvers import Solver
from dperm.solvers.descent.dp_gd import DPGD
from dperm.solvers.perturbation.zhang_output import ZhangOutput
from dperm.solvers.variance_reduced.dp_svrg import DPSVRG
from dperm.solvers.variance_reduced.dp_svrg_plus_plus import DPSVRGPlusPlus

DELTA, EPSILONS = 1e-3, (0.2, 0.5, 1.0)
PRINTED, CERTIFIED = "as printed", "certified"
NOISE = {PRINTED: "paper", CERTIFIED: "certified"}
HEADINGS = {PRINTED: "noise as printed", CERTIFIED: f"noise certified for δ = {DELTA:g}"}


@dataclass(frozen=True)
class Line:
    """A method at several running times, each a whole fit that spends all of (ε, δ); the last one is judged."""

    label: str
    style: int
    panel: str
    fits: tuple[Solver, ...]

    @property
    def noise(self) -> str:
        """The noise mode of its panel."""
        return NOISE[self.panel]


# What was measured at a point of a line, a result for every seed; and the last points of a panel's lines, over ε.
Points = dict[tuple[Line, Solver, float], list[dict[str, Any]]]
Ends = dict[str, list[list[dict[str, Any]]]]


@dataclass(frozen=True)
class Figure:
    """One figure of the paper: its methods on Covertype at several ε.

    The first line of the panel as printed and the first two of the certified one are the paper's method: as printed,
    then with certified noise as printed and corrected. The others are what it is compared with.
    """

    name: str
    title: str
    strength: float
    n: int
    lines: tuple[Line, ...]
    seeds: int
    epsilons: tuple[float, ...]

    def _fits(self) -> dict[tuple[Line, Solver, float], list[Fit]]:
        """For every point of every line a fit for each seed."""
        rows = CovertypeRows(self.n, self.strength)
        return {
            (line, solver, epsilon): [Fit(rows, solver, epsilon, DELTA, line.noise, seed) for seed in range(self.seeds)]
            for line in self.lines
            for solver in line.fits
            for epsilon in self.epsilons
        }

    def measurements(self) -> list[Measurement]:
        """Every fit, all methods in turn for each seed: what slows the machine for a while slows them all."""
        return [fit for fits in zip(*self._fits().values(), strict=True) for fit in fits]

    def section(self, results: Mapping[Measurement, dict[str, Any]]) -> Section:
        """Verdicts, curves and numbers from what was measured."""
        points = {point: [results[fit] for fit in fits] for point, fits in self._fits().items()}
        ridge = f"λ = {self.strength:g}" if self.strength > 0.0 else "no regularizer"
        return Section(
            name=self.name,
            title=self.title,
            setting=f"Covertype, n = {self.n:,}, {ridge}, δ = {DELTA:g}, {ADJACENCY}",
            text=(
                "Every point is a whole fit that spends all of (ε, δ): mean of the optimality gap F(w) − F*, bars from "
                f"the least to the largest of {self.seeds} seeds, against the median of its running time, without "
                "the calibration of the noise, and against per-example gradients as planned. Curves join fits with "
                "more and more epochs or steps; the last one has the paper's own number.",
                "As printed means the paper's step and noise (c = 1, which the paper leaves open), on Poisson samples "
                "of one row on average; SVRG-BB steps come from released values and are kept within [1/(mL), 1/(mμ)]. "
                "Algorithm 4 takes steps of 1/L and every one is accounted for; DP-GD needs less noise if only its "
                "last iterate is released.",
            ),
            rule="The last fit of every curve is judged. One gap is smaller than another if Welch's interval for the "
            "difference of mean logarithms says so at every ε, at 95 % for all of them together. Time is compared "
            "without the slowest fit at every ε.",
            headlines=(self._headline(points),),
            verdicts=self._verdicts(points),
            summary=(self._summary(points),),
            measurements=self._sheet(points),
            pictures={
                self.name: self._picture(points, "seconds", "running time of a fit (seconds)"),
                f"{self.name}-gradients": self._picture(points, "gradients", "per-example gradients of a fit"),
            },
        )

    def _ends(self, panel: str, points: Points) -> Ends:
        """The fits at the paper's own T, a list over ε for every line of a panel."""
        return {
            line.label: [points[line, line.fits[-1], epsilon] for epsilon in self.epsilons]
            for line in self.lines
            if line.panel == panel
        }

    def _verdicts(self, points: Points) -> list[Verdict]:
        printed, certified = self._ends(PRINTED, points), self._ends(CERTIFIED, points)
        ours, *others = printed
        literal, corrected, *rivals = certified
        return [
            *[self._gap("printed", printed, ours, other) for other in others],
            *[self._cost("printed", printed, ours, other) for other in others],
            *[self._gap("certified", certified, literal, other) for other in rivals],
            *[self._gap("certified", certified, corrected, other) for other in rivals],
            *[self._cost("certified", certified, corrected, other) for other in rivals],
        ]

    def _headline(self, points: Points) -> str:
        """How large the error of the paper's method is beside that of DP-GD, over all ε."""
        printed, certified = self._ends(PRINTED, points), self._ends(CERTIFIED, points)
        ours, compared, *_ = printed
        literal, corrected, *rivals = certified
        better = [
            min((_of(certified[rival][k], "excess") for rival in rivals), key=lambda gaps: float(np.mean(gaps)))
            for k in range(len(self.epsilons))
        ]

        def beside(runs: list[list[dict[str, Any]]], others: list[list[float]]) -> str:
            return times([_ratio(other, _of(one, "excess")) for one, other in zip(runs, others, strict=True)])

        seeming = beside(printed[ours], [_of(one, "excess") for one in printed[compared]])
        return (
            f"With the printed noise {_method(ours)} has {seeming} the error of the DP-GD that the paper compares it "
            f"with. With certified noise it has, as printed, {beside(certified[literal], better)} the error of the "
            f"better of two DP-GD; the corrected method has {beside(certified[corrected], better)} that error."
        )

    def _gap(self, noise: str, ends: Ends, ours: str, other: str) -> Verdict:
        pairs = [(_of(a, "excess"), _of(b, "excess")) for a, b in zip(ends[ours], ends[other], strict=True)]
        return Verdict(
            f"{ours} has a smaller gap than {other}, with {noise} noise.",
            all_of(
                is_smaller(a, b, len(pairs)).about(f"ε = {epsilon:g}")
                for epsilon, (a, b) in zip(self.epsilons, pairs, strict=True)
            ),
            f"At ε = {self._at()} the gap of {_short(other)} is {_ratios(pairs)} times as large.",
        )

    def _cost(self, noise: str, ends: Ends, ours: str, other: str) -> Verdict:
        # The slowest fit at every ε is left out: it may have waited for a compiler. Time hardly depends on ε.
        times = [(_fastest(a), _fastest(b)) for a, b in zip(ends[ours], ends[other], strict=True)]
        counts = [(_of(a, "gradients"), _of(b, "gradients")) for a, b in zip(ends[ours], ends[other], strict=True)]
        faster = is_smaller([t for a, _ in times for t in a], [t for _, b in times for t in b]).about("time")
        fewer = all_of(is_true(a[0] < b[0]) for a, b in counts)
        return Verdict(
            f"{ours} needs less time and fewer gradients than {other}, with {noise} noise.",
            all_of([faster, fewer]),
            f"At ε = {self._at()} {_short(other)} takes {_ratios(times)} times the time and "
            f"{_ratios(counts)} times the gradients.",
        )

    def _at(self) -> str:
        return " / ".join(f"{epsilon:g}" for epsilon in self.epsilons)

    def _picture(self, points: Points, quantity: str, unit: str) -> bytes:
        """The optimality gap against costs: a row for every ε, printed noise left, certified right."""
        panels = [[self._panel(name, epsilon, points, quantity, unit) for name in NOISE] for epsilon in self.epsilons]
        return draw_trends(self.title, "optimality gap F(w) − F*", panels, one_scale=True)

    def _panel(self, name: str, epsilon: float, points: Points, quantity: str, unit: str) -> Panel:
        trends = []
        for line in [line for line in self.lines if line.panel == name]:
            runs = [points[line, solver, epsilon] for solver in line.fits]
            note = f"\nδ ≤ {runs[-1][0]['certified_delta']:.2g}" if name == PRINTED else ""
            costs = [float(np.median(_of(one, quantity))) for one in runs]
            label = line.label.replace(" (", "\n(") + note
            trends.append(Trend(label, costs, [_of(one, "excess") for one in runs], style=line.style))
        return f"ε = {epsilon:g}, {HEADINGS[name]}", unit, trends

    def _summary(self, points: Points) -> Sheet:
        rows = []
        for line in self.lines:
            for epsilon in self.epsilons:
                runs = points[line, line.fits[-1], epsilon]
                gaps = _of(runs, "excess")
                rows.append((
                    line.panel, line.label, epsilon, float(np.mean(gaps)), min(gaps), max(gaps),
                    float(np.median(_of(runs, "seconds"))), runs[0]["gradients"], runs[0]["certified_delta"],
                ))  # fmt: skip
        columns = ("noise", "method", "ε", "mean gap", "least", "largest", "seconds", "gradients", "certified δ(ε)")
        caption = f"At the last point of every curve, {self.seeds} seeds. Nominal δ = {DELTA:g}, {ADJACENCY}."
        return Sheet(caption, columns, rows)

    def _sheet(self, points: Points) -> Sheet:
        rows = []
        for (line, solver, epsilon), runs in points.items():
            for seed, run in enumerate(runs):
                rows.append((
                    line.panel, line.label, repr(solver), epsilon, DELTA, "replace_one", seed, run["excess"],
                    run.get("seconds"), run["gradients"], run["certified_delta"],
                ))  # fmt: skip
        columns = (
            "noise", "method", "solver", "epsilon", "delta", "adjacency", "seed", "gap", "seconds", "gradients",
            "certified_delta",
        )  # fmt: skip
        return Sheet("Every fit", columns, rows)


def _of(runs: Sequence[dict[str, Any]], quantity: str) -> list[float]:
    """A quantity over seeds; infinite for a fit that failed."""
    return [math.inf if run.get(quantity) is None else float(run[quantity]) for run in runs]


def _fastest(runs: Sequence[dict[str, Any]]) -> list[float]:
    return sorted(_of(runs, "seconds"))[:-1]


def _ratio(first: Sequence[float], second: Sequence[float]) -> float:
    """The geometric mean of the second over that of the first."""
    return math.exp(float(np.mean(np.log(second)) - np.mean(np.log(first))))


def _ratios(pairs: Sequence[tuple[list[float], list[float]]]) -> str:
    return " / ".join(f"{_ratio(a, b):.3g}" for a, b in pairs)


def times(ratios: Sequence[float]) -> str:
    """How a person says these ratios, before "the error of".

    Examples
    --------
    >>> times([0.21, 0.25]), times([8.21, 8.19]), times([0.9, 1234.5]), times([math.inf])
    ('21 to 25 % of', '8.2 times', '0.9 to 1,200 times', 'an unknown multiple of')
    """
    low, high = min(ratios), max(ratios)
    if not all(math.isfinite(ratio) for ratio in ratios):
        return "an unknown multiple of"
    below = high < 1.0
    ends = [_digits(100.0 * one if below else one) for one in (low, high)]
    span = ends[0] if ends[0] == ends[1] else " to ".join(ends)
    return f"{span} % of" if below else f"{span} times"


def _digits(value: float) -> str:
    """Two digits that count."""
    return f"{float(f'{value:.2g}'):,.10g}"


def _method(label: str) -> str:
    """The name of the method alone: DP-SVRG of DP-SVRG as printed."""
    return label.partition(" as ")[0]


def _short(label: str) -> str:
    """The name of the method alone: DP-GD of DP-GD of Zhang et al."""
    return label.partition(" of ")[0]


def _gradient_descents(
    panel: str, steps: Sequence[int], step_size: float | None, own_steps: Sequence[int | None]
) -> tuple[Line, Line]:  # fmt: skip
    """The DP-GD of Zhang et al. 2017, which the paper compares itself with, and its own Algorithm 4 with η = 1/L."""
    output = tuple(ZhangOutput(n_steps=t, step_size=step_size) for t in steps)
    gradient = tuple(DPGD(n_steps=t, accounting="composition") for t in own_steps)
    return (
        Line("DP-GD of Zhang et al. (noise on the output)", 1, panel, output),
        Line("DP-GD of Algorithm 4 (noise on every gradient)", 2, panel, gradient),
    )


def _lines(
    method: str, printed: Sequence[PrintedSVRG | PrintedSVRGPlusPlus], corrected: Sequence[Solver], n: int,
    descents: Callable[[str], tuple[Line, Line]],
) -> tuple[Line, ...]:  # fmt: skip
    accounted_for = replace(printed[-1], sampling_rate=1.0 / n)
    return (
        Line(f"{method} as printed", 0, PRINTED, tuple(printed)),
        *descents(PRINTED),
        Line(f"{method} as printed", 0, CERTIFIED, (accounted_for,)),
        Line(f"{method} corrected", 3, CERTIFIED, tuple(corrected)),
        *descents(CERTIFIED),
    )


def figure_1(quick: bool) -> Figure:
    """T = 15, m = 5000 and SVRG-BB steps against 1500 steps of DP-GD; λ = 0.01.

    Algorithm 4, which the paper does not compare itself with here, has its default number of steps.
    """
    n, n_inner, epochs = (5_000, 200, (1, 4)) if quick else (200_000, 5_000, (1, 3, 7, 15))
    steps = (15, 150) if quick else (150, 1500)
    seeds = 3 if quick else 6
    lines = _lines(
        "DP-SVRG",
        [PrintedSVRG(n_epochs=t, n_inner=n_inner, barzilai_borwein=True) for t in epochs],
        [DPSVRG(n_epochs=t) for t in ((None,) if quick else (1, 2, None))],
        n,
        lambda panel: _gradient_descents(panel, steps, None, (15, None)),
    )
    title = "Figure 1: DP-SVRG against DP-GD, with a ridge"
    return Figure("figure-1", title, 0.01, n, lines, seeds, EPSILONS[-1:] if quick else EPSILONS)


def figure_2(quick: bool) -> Figure:
    """T = 15, m = 10, η = 0.01 against 1000 steps of DP-GD with η = 0.1; no regularizer.

    η = 0.1 is 40 times shorter than 1/L and stops far from the optimum; Algorithm 4 has as many steps of 1/L.
    """
    n, epochs = (5_000, (3, 6)) if quick else (200_000, (6, 9, 12, 15))
    steps = (15, 150) if quick else (15, 150, 1000)
    seeds = 3 if quick else 5
    lines = _lines(
        "DP-SVRG++",
        [PrintedSVRGPlusPlus(n_epochs=t, n_inner=10, step_size=0.01) for t in epochs],
        [DPSVRGPlusPlus(n_epochs=t) for t in ((None,) if quick else (2, 4, 6, None))],
        n,
        lambda panel: _gradient_descents(panel, steps, 0.1, steps),
    )
    title = "Figure 2: DP-SVRG++ against DP-GD, without a regularizer"
    return Figure("figure-2", title, 0.0, n, lines, seeds, EPSILONS[-1:] if quick else EPSILONS)
