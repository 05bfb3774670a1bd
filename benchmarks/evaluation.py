"""Coverage of the intervals of `private_evaluate`, beside intervals that leave the noise out.

A million rows of a known law are the population, so that its metrics are known exactly. Tables are drawn from it with
replacement. What their rows add is computed with the trusted code, noise of the planned deviation is drawn with numpy
(exact draws, whose law is the same, would take long), and the intervals are those of `Metrics`.
Run: python benchmarks/evaluation.py [--repetitions 500], and with --units for people of several rows that are alike:
there "without" are intervals as if these rows were independent.
"""

import argparse
import math
from dataclasses import replace

import numpy as np
from scipy.special import expit

from dperm.evaluation import intervals
from dperm.evaluation.design import Design, score_edges
from dperm.evaluation.metrics import Metrics
from dperm.kernel.exact.words import fresh_key
from dperm.kernel.units import Membership
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.cell_counts.answer import counted
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.unit import PrivacyUnit

ROWS, EPSILONS = (500, 5_000, 20_000, 100_000), (0.1, 0.5, 2.0)
POPULATION = 1_000_000


def two_classes(rng, n, slope=1.0, rare=0.0):
    """Log odds of a calibrated model (slope 1) or of one that is too sure of itself, and classes."""
    logits = rng.normal(-rare, 1.8, n)
    truth = (rng.random(n) < expit(logits)).astype(float)
    shown = expit(slope * logits)
    return truth, np.column_stack([1.0 - shown, shown])


def five_classes(rng, n):
    """Probabilities of a calibrated model, and classes."""
    logits = rng.normal(0.0, 1.5, (n, 5))
    truth = (logits + rng.gumbel(size=(n, 5))).argmax(axis=1).astype(float)
    shown = np.exp(logits)
    return truth, shown / shown.sum(axis=1, keepdims=True)


def numbers(rng, n):
    """A target in [−1, 1] with errors that are larger where the target is."""
    signal = rng.normal(0.0, 0.35, n)
    errors = rng.normal(0.0, 0.15, n) * (0.5 + np.abs(signal) / 0.35)
    return np.clip(signal + errors, -1.0, 1.0), np.clip(signal, -1.0, 1.0)


CASES = {
    "two classes": (Design("probability", (0, 1)), two_classes),
    "too sure (slope 2)": (Design("probability", (0, 1)), lambda rng, n: two_classes(rng, n, slope=2.0)),
    "too timid (slope ½)": (Design("probability", (0, 1)), lambda rng, n: two_classes(rng, n, slope=0.5)),
    "one in seven": (Design("probability", (0, 1)), lambda rng, n: two_classes(rng, n, rare=2.5)),
    "five classes": (Design("probability", tuple(range(5))), five_classes),
    "a number": (Design("number", None, (-1.0, 1.0), 1.0), numbers),
}


def truths(design, truth, shown, weights=None):
    """The metrics of the population; of rows that count alike, or by these weights."""

    def mean(values):
        return np.average(values, weights=weights)

    if design.kind == "number":
        errors = np.clip(np.abs(truth - shown), 0.0, design.error_bound)
        spread = mean(truth**2) - mean(truth) ** 2
        return {"R²": 1.0 - mean(errors**2) / spread, "RMSE": math.sqrt(mean(errors**2)), "MAE": mean(errors)}
    own = np.clip(shown[np.arange(len(truth)), truth.astype(int)], 1e-300, 1.0)
    found = {"accuracy": mean(shown.argmax(axis=1) == truth)}
    found["log loss"] = mean(np.minimum(-np.log(own), design.largest_loss))
    if design.n_classes == 2:
        from sklearn.metrics import roc_auc_score

        found["AUC"] = roc_auc_score(truth, shown[:, 1], sample_weight=weights)
        found["calibration"] = (truth, shown[:, 1], weights)
    return found


def observed_between(rows, low, high, kept={}):  # noqa: B006 - the same bins again and again
    """How often predictions in a bin come true."""
    truth, shown, weights = rows
    if (id(shown), id(weights), low, high) not in kept:
        inside = (shown > low) & (shown <= high)
        chosen = None if weights is None else weights[inside]
        kept[id(shown), id(weights), low, high] = np.average(truth[inside], weights=chosen)
    return kept[id(shown), id(weights), low, high]


def coverage(name, n, epsilon, delta, repetitions):
    """Per metric: share of intervals that hold the truth, the same without noise in them, median half-width."""
    design, (truth, shown), true = CASES[name][0], ROWS_OF[name], TRUTHS[name]
    release = design.plan(n, Guarantee(epsilon, delta), Adjacency.REPLACE_ONE)
    planned, deviations = release.calibrated.plan.planned, release.calibrated.deviations
    added = [term(truth, shown) for term in design.terms(release)]
    rng = np.random.default_rng([n, int(1000 * epsilon), delta == 0.0])
    kept = Kept(true)
    for _ in range(repetitions):
        rows = rng.integers(POPULATION, size=n)
        noisy = []
        for lines, item, deviation in zip(added, planned, deviations, strict=True):
            counting = isinstance(item.query, CellCounts)
            exact = counted(item.query, lines[rows]) if counting else lines[rows].sum(axis=0)
            noisy.append(exact + noise_of(rng, deviation, exact.size, delta))
        ours = Metrics(design, tuple(noisy), deviations, release.statement)
        kept.add(ours, Metrics(design, tuple(noisy), (0.0,) * len(noisy), release.statement))
    return kept.summary()


def noise_of(rng, deviation, size, delta):
    """Laplace noise where δ = 0, else Gaussian noise."""
    return rng.laplace(0.0, deviation / math.sqrt(2.0), size) if delta == 0.0 else rng.normal(0.0, deviation, size)


class Kept:
    """Which intervals held what is true, and how wide they were."""

    def __init__(self, true):
        self.true, self.hits, self.widths = true, {}, {}

    def add(self, ours, naive):
        """The intervals of one table, and those that leave something out."""
        true = self.true
        for metric, found in ours.table.items():
            without = naive.table[metric]
            self.hits.setdefault(metric, []).append(
                (found.low <= true[metric] <= found.high, without.low <= true[metric] <= without.high)
            )
            self.widths.setdefault(metric, []).append((found.high - found.low) / 2.0)
        if "calibration" in true:
            held = [
                point.observed.low
                <= observed_between(true["calibration"], point.low, point.high)
                <= point.observed.high
                for point in ours.calibration
            ]
            self.hits.setdefault("calibration", []).append((np.mean(held), np.nan))
            self.widths.setdefault("calibration", []).append(
                np.median([point.observed.high - point.observed.low for point in ours.calibration]) / 2.0
            )

    def summary(self):
        """Per metric: both shares, and the median half-width."""
        return {
            metric: (*np.mean(self.hits[metric], axis=0), float(np.median(self.widths[metric]))) for metric in self.hits
        }


PEOPLE, MOST_OF_A_PERSON = 200_000, 5
KINDS = ("people", "twins", "a number of people")


def of_people(rng, kind):
    """Rows of people, one person's after another's: whose they are, targets, and what a model says of them.

    Of what the model does not know a part belongs to the person, so that its errors are alike in all rows of one; and
    who is hard to predict has more rows. "twins" are rows that are all the same.
    """
    own = rng.normal(size=PEOPLE)
    counts = 1 + rng.poisson(2.0 * np.exp(0.5 * own))
    ids = np.repeat(np.arange(PEOPLE), counts)
    if kind == "twins":
        truth, shown = two_classes(rng, PEOPLE)
        return ids, truth[ids], shown[ids]
    if kind == "a number of people":
        signal = rng.normal(0.0, 0.35, ids.size)
        errors = 0.15 * (0.7 * np.exp(0.5 * own) * rng.normal(size=PEOPLE))[ids] + 0.1 * rng.normal(size=ids.size)
        return ids, np.clip(signal + errors, -1.0, 1.0), np.clip(signal, -1.0, 1.0)
    logits = (rng.normal(0.0, 1.3, PEOPLE))[ids] + rng.normal(0.0, 1.3, ids.size)
    hidden = (np.exp(0.5 * own) * rng.normal(0.0, 1.5, PEOPLE))[ids]
    truth = (rng.random(ids.size) < expit(logits + hidden)).astype(float)
    shown = expit(logits)
    return ids, truth, np.column_stack([1.0 - shown, shown])


def coverage_by_unit(kind, unit, n, epsilon, delta, repetitions, people):
    """The same of people, beside intervals as if all rows that count were independent."""
    ids, truth, shown = people
    design = CASES["a number" if kind == "a number of people" else "two classes"][0]
    counts = np.bincount(ids)
    used = np.minimum(counts, unit.max_rows or counts.max())
    whole = unit.max_rows if unit.contribution == "limit" else used
    true = truths(design, truth, shown, (used / whole / counts)[ids])
    per_person = float(used.mean())
    starts = np.cumsum(counts) - counts
    release = design.plan(n, Guarantee(epsilon, delta), Adjacency.REPLACE_ONE, unit)
    planned, deviations = release.calibrated.plan.planned, release.calibrated.deviations
    added = [np.nan_to_num(term(truth, shown)) for term in design.terms(release)]
    rng, kept = np.random.default_rng([n, int(1000 * epsilon), delta == 0.0]), Kept(true)
    for _ in range(repetitions):
        drawn = rng.integers(PEOPLE, size=n)
        whose = np.repeat(np.arange(n), counts[drawn])
        rows = np.repeat(starts[drawn] - (np.cumsum(counts[drawn]) - counts[drawn]), counts[drawn])
        rows += np.arange(rows.size)
        units = Membership.of(unit, whose).drawn(fresh_key())
        noisy = []
        for lines, item, deviation in zip(added, planned, deviations, strict=True):
            counting = isinstance(item.query, CellCounts)
            exact = counted(item.query, lines[rows], units) if counting else units.weights @ lines[rows]
            noisy.append(exact + noise_of(rng, deviation, exact.size, delta))
        ours = Metrics(design, tuple(noisy), deviations, release.statement)
        scale = unit.max_rows if unit.contribution == "limit" else per_person
        rescaled = tuple(scale * numbers for numbers in noisy), tuple(scale * one for one in deviations)
        kept.add(ours, Metrics(design, *rescaled, replace(release.statement, unit=None)))
    return kept.summary()


def print_units(options):
    """The table of `coverage_by_unit`."""
    units = (PrivacyUnit("person", MOST_OF_A_PERSON), PrivacyUnit("person", contribution="average"))
    for kind in options.units or KINDS:
        people = of_people(np.random.default_rng(99), kind)
        for unit in units:
            for n in options.rows:
                for delta in options.delta:
                    found = [
                        coverage_by_unit(kind, unit, n, epsilon, delta, options.repetitions, people)
                        for epsilon in EPSILONS
                    ]
                    for metric in found[0]:
                        cells = " | ".join(shown(*one[metric]) for one in found)
                        print(f"| {kind} | {unit.contribution} | {n:,} | {delta:g} | {metric} | {cells} |", flush=True)


def shown(ours, naive, width):
    """One cell of the table."""
    without = "" if np.isnan(naive) else f" ({100 * naive:.0f} %)"
    return f"{100 * ours:.1f} %{without} ±{width:.2g}"


def print_binning():
    """How far a binned AUC is off, what is added for it, and what noise does to it, times B², B² and n/(s·√B)."""
    from sklearn.metrics import roc_auc_score

    for slope, spread in ((1.0, 1.8), (1.0, 1.0), (0.5, 1.8), (2.0, 1.8)):
        rng = np.random.default_rng(0)
        logits = rng.normal(0.0, spread, POPULATION)
        truth, shown = rng.random(POPULATION) < expit(logits), expit(slope * logits)
        exact = roc_auc_score(truth, shown)
        for bins in (8, 16, 32):
            edges = np.asarray(score_edges(bins))
            places = np.searchsorted(edges, shown)
            first, second = (np.bincount(places[truth == side], minlength=bins) for side in (False, True))
            below, above = (
                (np.cumsum(first) - first / 2) / first.sum(),
                1 - (np.cumsum(second) - second / 2) / second.sum(),
            )
            area = second @ below / second.sum()
            added = intervals._binning(first / first.sum(), second / second.sum(), edges)
            moved = math.sqrt((((above - area) / first.sum()) ** 2 + ((below - area) / second.sum()) ** 2).sum())
            print(
                f"| slope {slope:g}, spread {spread:g}, AUC {exact:.3f} | {bins} | {(exact - area) * bins**2:.2f} | "
                f"{added * bins**2:.2f} | {moved * POPULATION / math.sqrt(bins):.2f} |"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500)
    parser.add_argument("--delta", type=float, nargs="*", default=[0.0, 1e-6])
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--binning", action="store_true", help="only what bins do to AUC")
    parser.add_argument("--units", nargs="*", choices=KINDS, help="only people of several rows that are alike")
    options = parser.parse_args()
    if options.units is not None:
        print_units(options)
        raise SystemExit
    if options.binning:
        print_binning()
        raise SystemExit
    ROWS_OF = {name: CASES[name][1](np.random.default_rng(99), POPULATION) for name in options.cases}
    TRUTHS = {name: truths(CASES[name][0], *ROWS_OF[name]) for name in options.cases}
    print(f"{options.repetitions} tables each; standard error of a coverage of 95 %: "
          f"{100 * math.sqrt(0.95 * 0.05 / options.repetitions):.1f} %")  # fmt: skip
    print("Coverage, coverage without noise in the interval, half-width:")
    print(f"| rows | n | δ | metric | {' | '.join(f'ε = {epsilon:g}' for epsilon in EPSILONS)} |")
    print(f"|---|---|---|---|{'---|' * len(EPSILONS)}")
    for name in options.cases:
        for n in options.rows:
            for delta in options.delta:
                found = [coverage(name, n, epsilon, delta, options.repetitions) for epsilon in EPSILONS]
                for metric in found[0]:
                    cells = [shown(*one[metric]) for one in found]
                    print(f"| {name} | {n:,} | {delta:g} | {metric} | {' | '.join(cells)} |", flush=True)
