"""Accuracy on held-out rows: dperm at its defaults, what people would use instead, and what needs no privacy.

    make bench-accuracy                                          what is not in results.json yet, then the page
    python benchmarks/accuracy/measure.py --only dperm           dperm again, after a change: ten minutes
    python benchmarks/accuracy/measure.py --quick                one seed, ε = 1, few rows, nothing kept

Every score is kept in results.json as soon as it is measured, so that a run that was stopped goes on where it was.
docs/accuracy.md and its picture are made from that file alone.
"""

import argparse
import functools
import os
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

import ceilings
import libraries
import ours
import page
from about import ABOUT
from data import AbsentError, Data, load
from dp_sgd import DPSGD
from methods import ADJACENCIES, CEILINGS, DELTA, EPSILONS, METHODS, SEEDS, not_run
from results import ROOT, Key, Results


def measure(method: str, data: Data, results: Results, epsilons: tuple[float, ...], seeds: range) -> None:
    """Everything that one method has not measured on one table."""
    package = version_of(method)
    if method in CEILINGS:
        key = Key(data.name, method)
        if results.missing(key, range(1)):
            results.add(key, {0: ceilings.CEILINGS[method](data)}, version=package)
        return
    fits = DPSGD(data) if method == "DP-SGD" else None
    for epsilon in epsilons:
        for adjacency in ADJACENCIES[method]:
            key = Key(data.name, method, adjacency, epsilon)
            if missing := results.missing(key, seeds):
                results.add(key, *_scores(method, data, epsilon, adjacency, missing, fits), package)


def _scores(
    method: str, data: Data, epsilon: float, adjacency: str, seeds: list[int], fits: DPSGD | None
) -> tuple[dict[int, float], str]:
    """Scores by seed, and the setting that was chosen."""
    if method == "dperm":
        return {seed: ours.fit(data, epsilon, DELTA, adjacency, seed) for seed in seeds}, ""
    if method == "DP-EBM":
        return libraries.dp_ebm(data, epsilon, DELTA, seeds), ""
    if method == "diffprivlib":
        return libraries.diffprivlib(data, epsilon, seeds)
    assert fits is not None
    setting = fits.best(epsilon, DELTA)
    return {seed: fits.scores(setting, epsilon, DELTA, seed)[setting.averaged] for seed in seeds}, str(setting)


@functools.cache
def version_of(method: str) -> str:
    """The package and its version; of dperm also the commit."""
    if method == "dperm":
        commit = _said("git", "-C", ROOT, "rev-parse", "--short", "HEAD")
        changed = _said("git", "-C", ROOT, "status", "--porcelain", "--", "src")
        return f"dperm {version('dperm')}, commit {commit}{' and changes to it' if changed else ''}"
    if method in libraries.PACKAGES:
        package = libraries.PACKAGES[method]
        python = libraries.Worker(libraries.WORKERS[method]).python
        found = _said(python, "-c", f"from importlib.metadata import version; print(version('{package}'))")
        return f"{package} {found}"
    if method == "DP-SGD":
        return f"dp-accounting {version('dp-accounting')}"
    return f"scikit-learn {version('scikit-learn')}"


def _said(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout.strip()


def run(chosen: argparse.Namespace, results: Results, epsilons: tuple[float, ...], seeds: range) -> None:
    """Measure table by table: again what `--only` names, else what is missing."""
    methods = []
    for method in chosen.only or chosen.methods:
        missing = libraries.Worker(libraries.WORKERS[method]).missing if method in libraries.WORKERS else ""
        if missing:
            print(missing)
        else:
            methods.append(method)
    for name in chosen.data:
        try:
            data = load(name, chosen.quick)
        except AbsentError as absence:
            print(f"{name} is left out: {absence}")
            continue
        results.note(name, [data.train.shape[0], data.test.shape[0], len(data.columns) or data.train.shape[1]])
        for method in methods:
            if not not_run(method, name):
                began = sum(os.times()[:4])
                if chosen.only:
                    results.forget(method, name)
                measure(method, data, results, epsilons, seeds)
                print(f"{name}: {method}, {sum(os.times()[:4]) - began:.0f} s of CPU", flush=True)


def main() -> None:
    """Read the command line, measure, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=METHODS, default=[], help="measure these again, and no other")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="add what these miss")
    parser.add_argument("--data", nargs="+", choices=ABOUT, default=list(ABOUT), help="on these tables alone")
    parser.add_argument("--quick", action="store_true", help="one seed, ε = 1, few rows; prints, and keeps nothing")
    chosen = parser.parse_args()
    if chosen.quick:
        with tempfile.TemporaryDirectory() as folder:
            results = Results(Path(folder) / "results.json")
            run(chosen, results, (1.0,), range(1))
            for key in sorted(results.cells, key=str):
                print(key.data, key.method, key.adjacency or "", f"{results.spread(key)[1]:.4f}")
        return
    run(chosen, Results(), EPSILONS, SEEDS)
    page.write(Results())


if __name__ == "__main__":
    main()
