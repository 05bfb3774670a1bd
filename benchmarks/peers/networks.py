"""dperm against Opacus and jax-privacy on a network with one hidden layer, and on the same without it.

    python benchmarks/peers/networks.py                      half an hour on two quiet cores
    python benchmarks/peers/networks.py --part accuracy      the tuned peers against dperm's defaults
    python benchmarks/peers/networks.py --part time          seconds an epoch and memory, at dperm's batch size
    python benchmarks/peers/networks.py --quick              few rows, one seed, two settings

64 tanh units, cross entropy or squared loss, δ = 1e-5, Poisson samples and add_remove for everybody. Every peer runs in
an environment of its own, which `make peers` makes; one that is missing is left out with that reason. The numbers are
also written to network_results.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from network_tables import LOADERS, AbsentError, Table, load

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "network_results.json"
DELTA, TUNING_SEED, UNITS = 1e-5, 1000, 64
PEERS = ("opacus", "jax-privacy")
# dperm's networks, and its linear models where there is no hidden layer.
OURS, LINEAR = "dperm", "dperm-linear"
MODELS = {UNITS: "network", 0: "without hidden layer"}
# What dperm should reach: points below the better peer, time an epoch and memory as a multiple of a peer's.
POINTS, TIMES, MEMORY = -0.5, {"opacus": 0.7, "jax-privacy": 1.0}, 1.0
# What Opacus and jax-privacy try, narrowed by hand from searches of some 50 settings for every table, model and ε: by a
# plain DP-SGD loop rather than the libraries, at the tuning seed, and on the same test rows. SGD has a momentum of 0.9;
# `gain` over the root of the columns is the deviation of the hidden layer's weights at the start.
NAMES = ("batch", "epochs", "optimiser", "rate", "clip", "gain")
SETTINGS: dict[tuple[str, int], list[tuple[Any, ...]]] = {
    ("adult", UNITS): [
        (2048, 20, "adam", 0.032, 4.0, 0.5), (2048, 40, "sgd", 0.25, 2.0, 0.5), (2048, 20, "adam", 0.016, 2.0, 0.5),
        (1024, 20, "sgd", 0.25, 2.0, 0.5), (1024, 20, "sgd", 0.25, 2.0, 0.25), (2048, 40, "sgd", 0.5, 2.0, 0.5),
    ],
    ("adult", 0): [
        (1024, 40, "sgd", 1.0, 2.0, 1.0), (1024, 40, "sgd", 4.0, 0.5, 1.0), (512, 40, "sgd", 0.5, 2.0, 1.0),
        (512, 20, "adam", 0.032, 0.5, 1.0),
    ],
    ("letter", UNITS): [
        (1024, 40, "sgd", 2.0, 0.5, 2.0), (2048, 80, "adam", 0.064, 0.5, 1.0), (1024, 40, "sgd", 7.0, 0.15, 1.0),
        (512, 20, "adam", 0.032, 0.5, 4.0), (2048, 80, "adam", 0.064, 0.5, 2.0), (2048, 80, "adam", 0.1, 0.5, 1.0),
    ],
    ("letter", 0): [
        (512, 40, "sgd", 4.0, 0.5, 1.0), (512, 80, "adam", 0.064, 2.0, 1.0), (1024, 80, "sgd", 2.0, 1.0, 1.0),
        (512, 80, "sgd", 0.5, 2.0, 1.0), (512, 80, "sgd", 1.0, 2.0, 1.0),
    ],
    ("california", UNITS): [
        (1024, 20, "adam", 0.016, 0.6, 4.0), (1024, 40, "adam", 0.016, 0.6, 4.0), (2048, 80, "adam", 0.064, 0.6, 0.5),
        (2048, 80, "adam", 0.032, 0.6, 2.0), (2048, 80, "adam", 0.032, 0.6, 4.0),
    ],
    ("california", 0): [
        (1024, 20, "adam", 0.064, 2.0, 1.0), (1024, 20, "sgd", 0.25, 2.0, 1.0), (2048, 80, "adam", 0.016, 2.0, 1.0),
        (2048, 20, "adam", 0.064, 2.0, 1.0),
    ],
}  # fmt: skip
# What is timed; the batch is dperm's.
TIMED = {"epochs": 6, "optimiser": "adam", "rate": 0.01, "clip": 1.0}
FALLBACK_BATCH = 1024

ABOUT = """\
The metric on held-out rows: accuracy, R² for california; mean (least … most) of {seeds} fresh seeds. dperm runs at its
defaults; dperm-linear is its logistic or linear regression. Opacus and jax-privacy are tuned with an oracle that costs
them no privacy: the setting (batch, epochs, optimiser, rate, clip, gain; last iterate or mean of the second half) that
is best on the test rows at one seed. Points are hundredths of the metric, dperm's less the better peer's. Seconds are
those of a fit, calibration and compilation included, unless they are remembered from another seed."""
ABOUT_TIME = """\
One epoch of the network with {units} hidden units at dperm's batch size, everybody compiled and calibrated beforehand;
dperm's epoch is a whole fit over its passes. Memory is the peak of the process over what it had after its imports and
rows. Processes take turns: medians (quartiles) of {turns} turns, and of the ratios dperm / peer within a turn."""


class Library:
    """A library, behind its own interpreter."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        own = name in (OURS, LINEAR)
        self.python = Path(sys.executable) if own else HERE.parents[1] / f".venv-peers/{name}/bin/python"
        self.missing = "" if self.python.is_file() else f"{name} is left out: no environment, `make peers` makes it."

    def fits(self, table: Table, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the worker says of every job."""
        rows, asked, answers = (self.folder / name for name in ("rows.npz", "jobs.json", "answers.json"))
        np.savez(
            rows, X=table.X, y=table.y, X_test=table.X_test, y_test=table.y_test,
            n_classes=table.n_classes, row_norm=table.row_norm,
        )  # fmt: skip
        asked.write_text(json.dumps([{**job, "linear": True} for job in jobs] if self.name == LINEAR else jobs))
        worker = OURS if self.name == LINEAR else self.name.replace("-", "_")
        script = HERE / f"fit_network_{worker}.py"
        subprocess.run([self.python, script, rows, asked, answers], check=True)
        return json.loads(answers.read_text())

    def try_fits(self, table: Table, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """As `fits`, but empty, with a sentence, where the worker fails."""
        try:
            return self.fits(table, jobs)
        except subprocess.CalledProcessError as failure:
            print(f"{self.name} is left out of {table.name}: its worker ended with {failure.returncode}.", flush=True)
            return []


def tuned(
    library: Library, table: Table, cells: list[dict[str, Any]], n_settings: int | None
) -> list[tuple[dict[str, Any], str]]:
    """For every cell (`hidden` and the guarantee) the best setting and iterate at the tuning seed."""
    jobs = [
        {**cell, **dict(zip(NAMES, setting, strict=True)), "seed": TUNING_SEED}
        for cell in cells
        for setting in SETTINGS[table.name, cell["hidden"]][:n_settings]
    ]
    answers = library.try_fits(table, jobs)
    best: list[tuple[dict[str, Any], str]] = []
    for cell in cells if answers else []:
        scores = {
            (place, iterate): score
            for place, (job, answer) in enumerate(zip(jobs, answers, strict=True))
            for iterate, score in answer["scores"].items()
            if cell.items() <= job.items() and np.isfinite(score)
        }
        place, iterate = max(scores, key=scores.__getitem__)
        best.append(({name: jobs[place][name] for name in NAMES}, iterate))
    return best


def accuracies(
    library: Library, table: Table, cells: list[dict[str, Any]], seeds: range, n_settings: int | None
) -> list[dict[str, Any]]:
    """One record for every cell: the metric of the fresh seeds, the seconds, and the setting."""
    defaults = library.name in (OURS, LINEAR)
    chosen = [({}, "released")] * len(cells) if defaults else tuned(library, table, cells, n_settings)
    if not chosen:
        return []
    jobs = [
        {**cell, **setting, "seed": seed} for cell, (setting, _) in zip(cells, chosen, strict=True) for seed in seeds
    ]
    answers = library.try_fits(table, jobs)
    return [
        {
            "table": table.name, **cell, "library": library.name, "setting": setting, "iterate": iterate,
            "scores": [answer["scores"][iterate] for answer in answers[place * len(seeds) :][: len(seeds)]],
            "seconds": [answer["seconds"] for answer in answers[place * len(seeds) :][: len(seeds)]],
        }
        for place, (cell, (setting, iterate)) in enumerate(zip(cells, chosen, strict=True))
        if answers
    ]  # fmt: skip


def show_accuracy(table: Table, hidden: int, records: list[dict[str, Any]]) -> None:
    """Print one table."""
    print(
        f"\n{table.name}, {MODELS[hidden]}: n = {len(table.y)}, p = {table.X.shape[1]}, "
        f"{f'{table.n_classes} classes' if table.n_classes else 'regression'}\n"
        f"| ε | library | {'accuracy' if table.n_classes else 'R²'} | points, target ≥ {POINTS:g} | s a fit "
        f"| setting |\n{'|---' * 6}|"
    )
    for record in records:
        others = [
            np.mean(other["scores"])
            for other in records
            if other["epsilon"] == record["epsilon"] and other["library"] in PEERS
        ]
        scores, points = record["scores"], ""
        if record["library"] not in PEERS and others:
            gap = 100.0 * (np.mean(scores) - max(others))
            points = f"{gap:+.2f} {'met' if gap >= POINTS else 'MISSED'}"
        setting = ", ".join(f"{name} {value}" for name, value in record["setting"].items())
        print(
            f"| {record['epsilon']:g} | {record['library']} "
            f"| {np.mean(scores):.4f} ({min(scores):.4f} … {max(scores):.4f}) | {points} "
            f"| {np.median(record['seconds']):.1f} | {setting or 'defaults'}, {record['iterate']} |",
            flush=True,
        )


def accuracy(libraries: list[Library], tables: list[str], quick: bool, n_seeds: int) -> list[dict[str, Any]]:
    """Every table, model and ε."""
    print(ABOUT.format(seeds=n_seeds), flush=True)
    epsilons, n_settings = ((1.0,), 2) if quick else ((1.0, 3.0), None)
    records = []
    for name in tables:
        table = load(name, quick)
        for hidden in MODELS:
            cells = [{"hidden": hidden, "epsilon": epsilon, "delta": DELTA} for epsilon in epsilons]
            found = []
            for library in libraries:
                if not (hidden and library.name == LINEAR):
                    found += accuracies(library, table, cells, range(n_seeds), n_settings)
            found.sort(key=lambda record: record["epsilon"])
            show_accuracy(table, hidden, found)
            records += found
    return records


def quartiles(values: list[float]) -> str:
    """Median (quartiles), to three digits."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.3g} ({low:.3g} … {high:.3g})"


def times(libraries: list[Library], tables: list[str], quick: bool, n_turns: int) -> list[dict[str, Any]]:
    """The network on every table: libraries take turns, each in a fresh process."""
    print(f"\n{ABOUT_TIME.format(units=UNITS, turns=n_turns)}", flush=True)
    records = []
    for name in tables:
        table = load(name, quick)
        job = {"hidden": UNITS, "epsilon": 1.0, "delta": DELTA, "timed": True}
        batch, answers = FALLBACK_BATCH, {library.name: [] for library in libraries}
        for seed in range(n_turns):
            for library in libraries:  # dperm is the first, and says its batch
                more = {} if library.name == "dperm" else {**TIMED, "batch": batch}
                done = library.try_fits(table, [{**job, **more, "seed": seed}])
                if done and library.name == "dperm":
                    batch = round(done[0]["batch"])
                answers[library.name] += done
        show_times(table, batch, answers)
        records += [
            {"table": name, "library": library, "batch": batch, "answers": done} for library, done in answers.items()
        ]
    return records


def show_times(table: Table, batch: int, answers: dict[str, list[dict[str, Any]]]) -> None:
    """Print one table."""
    print(
        f"\n{table.name}, network: n = {len(table.y)}, p = {table.X.shape[1]}, batch {batch}\n"
        "| library | s an epoch | dperm / it | target | MB over start | dperm / it | target | MB in all |\n"
        f"{'|---' * 8}|"
    )
    ours = answers["dperm"]
    for library, done in answers.items():
        if not done:
            continue
        cells = []
        for key, unit, target in (
            ("seconds_per_epoch", 1.0, TIMES.get(library)), ("peak_bytes_over_start", 1e6, MEMORY),
        ):  # fmt: skip
            ratios = [mine[key] / it[key] for mine, it in zip(ours, done, strict=False)]
            cells.append(quartiles([answer[key] / unit for answer in done]))
            if library == "dperm" or not ratios:
                cells += ["", ""]
            else:
                verdict = "met" if np.median(ratios) <= target else "MISSED"
                cells += [quartiles(ratios), f"≤ {target:g} {verdict}"]
        whole = np.median([answer["peak_bytes"] for answer in done]) / 1e6
        print(f"| {library} | {' | '.join(cells)} | {whole:.0f} |", flush=True)


def main(parts: list[str], tables: list[str], quick: bool, n_seeds: int, n_turns: int) -> None:
    """Run the parts and keep their numbers; those of a part or table that is not run stay as they are."""
    with tempfile.TemporaryDirectory() as folder:
        libraries = []
        for library in (Library(name, Path(folder)) for name in (OURS, LINEAR, *PEERS)):
            if library.missing:
                print(library.missing)
            else:
                libraries.append(library)
        pins = [(HERE / f"{name}.txt").read_text().split()[0] for name in PEERS]
        print(f"Versions: {', '.join(pins)}; Python {sys.version.split()[0]}", flush=True)
        stored = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
        for part in parts:
            kept = [record for record in stored.get(part, []) if record["table"] not in tables]
            if part == "accuracy":
                stored[part] = kept + accuracy(libraries, tables, quick, n_seeds)
            else:
                timed = [library for library in libraries if library.name != LINEAR]
                stored[part] = kept + times(timed, tables, quick, n_turns)
            if not quick:
                RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("accuracy", "time"), help="one part; by default both")
    parser.add_argument("--tables", nargs="+", choices=tuple(LOADERS), default=list(LOADERS), help="by default all")
    parser.add_argument("--quick", action="store_true", help="few rows, one seed, two settings; nothing is written")
    parser.add_argument("--seeds", type=int, default=3, help="fresh seeds a method")
    parser.add_argument("--turns", type=int, default=5, help="turns of the timing")
    arguments = parser.parse_args()
    n_seeds, n_turns = (1, 1) if arguments.quick else (arguments.seeds, arguments.turns)
    try:
        main(
            [arguments.part] if arguments.part else ["accuracy", "time"],
            arguments.tables, arguments.quick, n_seeds, n_turns,
        )  # fmt: skip
    except AbsentError as absent:
        sys.exit(str(absent))
