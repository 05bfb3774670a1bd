"""A table of the paper, measured: every row's excess risk against n, ε and p, its gradients, and a non-smooth r."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.paper.studies.reproduce.bounds import DELTA, NOISES, Axis, Place, Row
from dperm.paper.studies.reproduce.lab import Fit, Measurement
from dperm.paper.studies.reproduce.pictures import Trend, draw_trends
from dperm.paper.studies.reproduce.rows import RowsOf
from dperm.paper.studies.reproduce.section import ADJACENCY, Cell, Section, Sheet
from dperm.paper.studies.reproduce.verdicts import (
    ROOM,
    TOLERANCE,
    Exponent,
    Finding,
    Outcome,
    Verdict,
    all_of,
    fit_exponent,
    is_true,
    undecided,
)

# A method has learned something if its excess is below so much of that of w = 0.
LEARNED = 0.5

# Fewer points do not make a power.
_FEWEST_POINTS = 3

Results = Mapping[Measurement, dict[str, Any]]
Powers = dict[tuple[Row, str, str], Exponent | None]


@dataclass(frozen=True)
class Comparison:
    """A table of the paper, measured. The last row is the paper's own method; the first axis is n.

    `is_headline` says whether its bounds are among the few findings at the top of the page.
    """

    name: str
    title: str
    setting: str
    text: tuple[str, ...]
    rows: tuple[Row, ...]
    rows_of: Callable[[Place, int], RowsOf]
    penalised: Callable[[Place, int], RowsOf]
    axes: tuple[Axis, ...]
    base: Place
    is_headline: bool = False

    def measurements(self) -> list[Measurement]:
        """Every fit, those on the same rows one after another."""
        smooth = [
            self._fit(row, mode, place, seed)
            for place in self._places()
            for seed, row in self._seeded()
            for mode in row.noises.values()
        ]
        return [*smooth, *[self._penalised(row, seed) for seed, row in self._seeded()]]

    def section(self, results: Results) -> Section:
        """Exponents, verdicts, a picture and numbers."""
        powers: Powers = {
            (row, noise, axis.name): self._power(row, mode, axis, results)
            for row in self.rows
            for noise, mode in row.noises.items()
            for axis in self.axes
        }
        growth = {row: self._gradient_growth(row, results) for row in self.rows if row.gradients}
        verdicts = [self._excess_verdict(row, powers, results) for row in self.rows]
        verdicts += [self._growth_verdict(growth), self._fewest(results), self._non_smooth_verdict(results)]
        seeds = sorted({row.seeds for row in self.rows})
        return Section(
            name=self.name,
            title=self.title,
            setting=f"{self.setting}, δ = {DELTA:g}, {ADJACENCY}",
            text=(
                *self.text,
                f"Every seed ({' or '.join(map(str, seeds))} of them) draws rows and noise of its own. A power is "
                "fitted to every seed's series; its interval is the 95 % t interval over seeds. Beside it is the power "
                "of the table's bound on the same points, logarithms included; of a sum, that of the fastest term. "
                "Certified noise is in proportion to 1/μ, with μ what (ε, δ) allow a Gaussian: for it, μ takes the "
                f"place of ε/√ln(1/δ). A method whose excess is above {LEARNED:g} of that of w = 0 has learned too "
                "little there, and the point is left out.",
            ),
            rule=f"A bound is kept if the upper end of every interval is at most its power + {TOLERANCE:g}. It fails "
            f"if a lower end is above that, and some excess above {ROOM:g} times the bound with its constants set to "
            "1 (in the list of fits). Where a point is left out, the claim is undecided at best.",
            headlines=(self._headline(powers, verdicts[: len(self.rows)]),) if self.is_headline else (),
            verdicts=verdicts,
            summary=(self._summary(powers, growth, results),),
            measurements=self._sheet(results),
            pictures={self.name: self._picture(powers, results)},
        )

    def _places(self) -> list[Place]:
        return list(dict.fromkeys(place for axis in self.axes for place in axis.places))

    def _seeded(self) -> list[tuple[int, Row]]:
        """Every seed with every row that has it, those on the same rows of data one after another."""
        return [
            (seed, row) for seed in range(max(row.seeds for row in self.rows)) for row in self.rows if seed < row.seeds
        ]

    def _headline(self, powers: Powers, verdicts: Sequence[Verdict]) -> str:
        """How many bounds are kept, and by how much the worst one is missed."""
        counts = {outcome: sum(one.outcome is outcome for one in verdicts) for outcome in Outcome}
        told = (
            f"Of the {len(verdicts)} bounds on excess risk in {self.title.partition(':')[0]}, measurement confirms "
            f"{counts[Outcome.HOLDS]}, refutes {counts[Outcome.FAILS]} and leaves {counts[Outcome.OPEN]} undecided"
        )
        failed = [
            (power.value - power.bound, row, axis, power)
            for (row, _, axis), power in powers.items()
            if power is not None and power.keeps_the_bound().outcome is Outcome.FAILS
        ]
        if not failed:
            return f"{told}."
        _, row, axis, power = max(failed, key=lambda one: one[0])
        return (
            f"{told}: the excess risk of {row.label.partition(',')[0]} grows with {axis} to the power "
            f"{power.value:.2f}, and its bound with {power.bound:.2f}."
        )

    def _fit(self, row: Row, mode: str, place: Place, seed: int) -> Fit:
        return Fit(self.rows_of(place, seed), row.solver, place.epsilon, 0.0 if row.pure else DELTA, mode, seed)

    def _penalised(self, row: Row, seed: int) -> Fit:
        return replace(self._fit(row, "certified", self.base, seed), rows=self.penalised(self.base, seed))

    def _runs(self, row: Row, mode: str, place: Place, results: Results) -> list[dict[str, Any]]:
        return [results[self._fit(row, mode, place, seed)] for seed in range(row.seeds)]

    def _usable(self, row: Row, mode: str, axis: Axis, results: Results) -> list[tuple[Place, list[float]]]:
        """The points where the method learned something, with its excesses over seeds."""
        found = []
        for place in axis.places:
            runs = self._runs(row, mode, place, results)
            share = _share(runs)
            if share is not None and share < LEARNED:
                found.append((row.effective(place, mode), [float(run["excess"]) for run in runs]))
        return found

    def _power(self, row: Row, mode: str, axis: Axis, results: Results) -> Exponent | None:
        usable = self._usable(row, mode, axis, results)
        if len(usable) < _FEWEST_POINTS:
            return None
        places = [place for place, _ in usable]
        series = np.array([excesses for _, excesses in usable]).T.tolist()
        terms = [[term(place) for place in places] for term in row.excess]
        return fit_exponent([axis.scale(place) for place in places], series, terms)

    def _gradients(self, row: Row, place: Place, results: Results) -> float | None:
        if not isinstance(row.counted, str):
            return row.counted(place)
        gradients = results[self._fit(row, row.counted, place, 0)]["gradients"]
        return None if gradients is None else float(gradients)

    def _gradient_growth(self, row: Row, results: Results) -> Exponent | None:
        axis = self.axes[0]
        counts = [self._gradients(row, place, results) for place in axis.places]
        measured = [count for count in counts if count is not None]
        if len(measured) < len(counts):
            return None
        terms = [[term(place) for place in axis.places] for term in row.gradients]
        return fit_exponent([axis.scale(place) for place in axis.places], [measured], terms)

    def _excess_verdict(self, row: Row, powers: Powers, results: Results) -> Verdict:
        texts, findings = [], []
        for noise, mode in row.noises.items():
            found = {axis.name: powers[row, noise, axis.name] for axis in self.axes}
            findings += [
                power.keeps_the_bound().about(f"{noise} noise, power of {name}")
                for name, power in found.items()
                if power is not None
            ]
            findings += [
                undecided(f"{noise} noise, {axis.name}: {self._why_left_out(row, mode, axis, found['n'], results)}")
                for axis in self.axes
                if len(self._usable(row, mode, axis, results)) < len(axis.places)
            ]
            told = [f"{name} {power or 'not seen, too little was learned'}" for name, power in found.items()]
            texts.append(f"{noise} noise, powers of " + ", ".join(told))
        because = "; ".join(texts)
        return Verdict(
            f"{row.label}: the excess risk keeps its bound.", all_of(findings), because[0].upper() + because[1:] + "."
        )

    def _why_left_out(self, row: Row, mode: str, axis: Axis, by_n: Exponent | None, results: Results) -> str:
        """Why not all points of an axis count for a power, and with how many rows they would."""
        found = [self._runs(row, mode, place, results) for place in axis.places]
        reasons = [run.get("reason", "a fit failed") for runs in found for run in runs if run["excess"] is None]
        if reasons:
            return str(reasons[0]).rstrip(".")
        shares = [share for runs in found if (share := _share(runs)) is not None and share >= LEARNED]
        span = f"{min(shares):.2g}" if len(shares) == 1 else f"{min(shares):.2g} to {max(shares):.2g}"
        told = (
            f"too little was learned at {len(shares)} of {len(axis.places)} points, where the excess is {span} of that "
            f"of w = 0 and only below {LEARNED:g} counts"
        )
        if by_n is None or by_n.value >= 0.0:
            return f"{told}; at which n it would do is not seen"
        return (
            f"{told}; by its power of n, {(max(shares) / LEARNED) ** (-1.0 / by_n.value):.2g} times the rows would do"
        )

    def _growth_verdict(self, growth: dict[Row, Exponent | None]) -> Verdict:
        findings = [
            undecided(f"{row.label}: gradients are not counted")
            if power is None
            else power.keeps_the_bound().about(row.label)
            for row, power in growth.items()
        ]
        texts = [f"{row.label}: {power or 'not counted'}" for row, power in growth.items()]
        return Verdict(
            "Gradients grow with n no faster than the table says.", all_of(findings),
            f"Powers of n: {'; '.join(texts)}.",
        )  # fmt: skip

    def _fewest(self, results: Results) -> Verdict:
        ours = self._gradients(self.rows[-1], self.base, results) or math.inf
        others = {row.label: self._gradients(row, self.base, results) or math.inf for row in self.rows if row.outdone}
        texts = [f"{label} {count:.2g}" for label, count in others.items()]
        return Verdict(
            f"This paper's method needs fewer gradients than {' and '.join(others)}.",
            all_of(is_true(ours < count) for count in others.values()),
            f"At n = {self.base.n}, ε = {self.base.epsilon:g}, p = {self.base.p} it takes {ours:.2g}; "
            f"{', '.join(texts)}.",
        )

    def _works(self, row: Row, results: Results) -> tuple[Finding, str]:
        """Whether the method learns with an l1 penalty; undecided if it does not take one."""
        runs = [results[self._penalised(row, seed)] for seed in range(row.seeds)]
        share = _share(runs)
        if share is None:
            reason = next(run.get("reason", "a fit failed") for run in runs if run["excess"] is None)
            return undecided(
                f"{row.label} is not run with an l1 penalty: {reason.rstrip('.')}"
            ), "not taken by this solver"
        return is_true(share < LEARNED), f"excess {share:.2g} of that of w = 0"

    def _non_smooth_verdict(self, results: Results) -> Verdict:
        found = {row: self._works(row, results) for row in self.rows}
        texts = [f"{row.label}: {_yes(row.non_smooth)}, {text}" for row, (_, text) in found.items()]
        claimed = [finding for row, (finding, _) in found.items() if row.non_smooth]
        return Verdict(
            "A non-smooth regularizer works where the table says yes.",
            all_of(claimed),
            f"The table's word, then what was measured with an l1 penalty: {'; '.join(texts)}.",
        )

    def _summary(self, powers: Powers, growth: dict[Row, Exponent | None], results: Results) -> Sheet:
        rows: list[list[Cell]] = []
        for row in self.rows:
            for noise, mode in row.noises.items():
                runs = self._runs(row, mode, self.base, results)
                share = _share(runs)
                excess = None if share is None else float(np.mean([run["excess"] for run in runs]))
                grown = growth.get(row) if noise == "certified" else None
                works, _ = self._works(row, results)
                tried = {Outcome.HOLDS: "yes", Outcome.FAILS: "no", Outcome.OPEN: "not taken"}[works.outcome]
                rows.append([
                    row.label, noise, *[_text(powers[row, noise, axis.name]) for axis in self.axes], excess,
                    runs[0]["gradients"], _text(grown), f"{_yes(row.non_smooth)} / {tried}",
                ])  # fmt: skip
        columns = [
            "method", "noise", *[f"excess, power of {axis.name}" for axis in self.axes], "excess at the base",
            "gradients at the base", "gradients, power of n", "non-smooth r: table / measured",
        ]  # fmt: skip
        rows.append(["w = 0, for comparison", "none", *[self._power_of_zero(axis, results) for axis in self.axes],
                     *[None] * 4])  # fmt: skip
        at_zero = np.mean([run["at_zero"] for run in self._runs(self.rows[-1], "certified", self.base, results)])
        caption = (
            f"Measured powers with 95 % intervals, and those of the bounds. The base is n = {self.base.n}, "
            f"ε = {self.base.epsilon:g}, p = {self.base.p}, where w = 0 has an excess of {at_zero:.3g}. Methods that "
            "solve for an exact minimiser do not count gradients."
        )
        return Sheet(caption, columns, rows)

    def _power_of_zero(self, axis: Axis, results: Results) -> str:
        """How fast F(0) − F* itself changes."""
        places = axis.places
        found = [self._runs(self.rows[-1], "certified", place, results) for place in places]
        series = [[float(runs[seed]["at_zero"]) for runs in found] for seed in range(self.rows[-1].seeds)]
        power = fit_exponent([axis.scale(place) for place in places], series, [[1.0] * len(places)])
        return f"{power.value:.2f} [{power.low:.2f}, {power.high:.2f}]"

    def _sheet(self, results: Results) -> Sheet:
        fits = [
            (row, noise, "smooth", self._fit(row, mode, place, seed), place)
            for row in self.rows
            for noise, mode in row.noises.items()
            for place in self._places()
            for seed in range(row.seeds)
        ]
        fits += [
            (row, "certified", "l1 penalty", self._penalised(row, seed), self.base)
            for row in self.rows
            for seed in range(row.seeds)
        ]
        rows: list[list[Cell]] = []
        for row, noise, regularizer, fit, place in fits:
            run = results[fit]
            rows.append([
                row.label, noise, regularizer, place.n, fit.epsilon, fit.delta, place.p, fit.seed, run["excess"],
                sum(term(row.effective(place, fit.noise)) for term in row.excess), run["at_zero"], run.get("seconds"),
                run["gradients"],
            ])  # fmt: skip
        columns = (
            "method", "noise", "regularizer", "n", "epsilon", "delta", "p", "seed", "excess", "bound", "excess_of_zero",
            "seconds", "gradients",
        )  # fmt: skip
        return Sheet("Every fit", columns, rows)

    def _picture(self, powers: Powers, results: Results) -> bytes:
        """A row of panels for every axis; published noise left, certified noise right."""
        panels = []
        for axis in self.axes:
            of_axis = []
            for noise in ("published", "certified"):
                trends = []
                for row in self.rows:
                    usable = self._usable(row, NOISES[noise], axis, results) if noise in row.noises else []
                    power = powers.get((row, noise, axis.name))
                    told = "" if power is None else f"{power.value:.2f} (bound {power.bound:.2f})"
                    xs = [axis.scale(place) for place, _ in usable]
                    label = row.label.replace(", ", "\n")
                    trends.append(Trend(f"{label}\n{told}", xs, [excesses for _, excesses in usable]))
                unit = "μ(ε, δ), or pure ε" if axis.name == "ε" and noise == "certified" else axis.name
                of_axis.append((f"{noise} noise: power of {unit}", unit, trends))
            panels.append(of_axis)
        title = f"{self.title}\nbeside every line: its power, and that of its bound"
        return draw_trends(title, "excess risk F(w) − F*", panels)


def _share(runs: Sequence[dict[str, Any]]) -> float | None:
    """Mean excess over that of w = 0; None if the method refused."""
    if any(run["excess"] is None for run in runs):
        return None
    return float(np.mean([run["excess"] for run in runs]) / np.mean([run["at_zero"] for run in runs]))


def _yes(works: bool) -> str:
    return "yes" if works else "no"


def _text(power: Exponent | None) -> str | None:
    return None if power is None else str(power)
