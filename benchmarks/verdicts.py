"""Whether the verdict of a plan is true: the extra loss that it predicts beside the one that fits then have.

    python benchmarks/verdicts.py measure FILE [table …]     fits; adds a line of JSON for every cell to FILE
    python benchmarks/verdicts.py report FILE [PICTURE]      tables for docs/diagnose.md, and the scatter plot

A cell is a table, a model, an n and an ε; δ = 1e-5, everything else at its default, 3 fits. Losses are means over the
training rows without the penalty, in the units of the loss (a regression's target is scaled by its range).
"extra" is the loss of a private fit less that of the same fit without noise. "constant" is the loss of the best
constant predictor, which knows the mean of the target or the share of every class. Ranges are those of the table,
rounded outwards as `dperm schema draft` does.

Half of the tables were looked at while the law was written, the others were measured afterwards. The factor between the
law and "up to" was set with both in view; other targets of the same tables were measured after that.
"""

import json
import lzma
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from sklearn import datasets

import dperm
from dperm.plan.costs import cost_at
from dperm.problem.regularizers import NoRegularizer
from dperm.unsafe import draft_schema, risk_over

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("DPERM_DATA", ROOT.parent / "shared" / "data"))
EPSILONS, FITS, MOST_ROWS, FEW_ROWS = (0.1, 0.3, 1.0, 4.0), 3, 20_000, 1000
LOGISTIC, LINEAR, HUBER, POISSON = (
    dperm.PrivateLogisticRegression, dperm.PrivateLinearRegression,
    dperm.PrivateHuberRegression, dperm.PrivatePoissonRegression,
)  # fmt: skip
REGRESSIONS = (LINEAR, HUBER)
# What is asked for besides, of all rows and at most three classes.
OTHERS: tuple[dict[str, Any], ...] = ({"adjacency": "add_remove"}, {"delta": 0.0}, {"solver": "dp-gd"})
FEW_EPSILONS = (0.3, 4.0)
LOOKED_AT, HELD_OUT, AFTER = "looked at", "held out", "other targets"


@dataclass(frozen=True)
class Table:
    """Rows, the models that are fitted to them by target, and which rules were written without having seen them."""

    read: Callable[[], pd.DataFrame]
    fits: dict[str, tuple[Any, ...]]
    seen: str


def _csv(name: str, separator: str, header: int | None = None) -> Callable[[], pd.DataFrame]:
    def read() -> pd.DataFrame:
        table = pd.read_csv(FOLDER / "tables" / name, sep=separator, header=header, engine="python")
        table = table.dropna(axis=1, how="all")
        table.columns = [*(f"x{place}" for place in range(table.shape[1] - 1)), "goal"]
        return table

    return read


def _bundled(load: Callable[..., Any]) -> Callable[[], pd.DataFrame]:
    def read() -> pd.DataFrame:
        bunch = load()
        table = pd.DataFrame(np.asarray(bunch.data), columns=[f"x{place}" for place in range(bunch.data.shape[1])])
        return table.assign(goal=bunch.target)

    return read


def _adult() -> pd.DataFrame:
    with lzma.open(ROOT / "src" / "dperm" / "datasets" / "adult.data.xz", "rt") as file:
        table = pd.read_csv(file, header=None, skipinitialspace=True)
    table.columns = [*(f"x{place}" for place in range(12)), "hours", "x13", "goal"]
    return table


def _covertype() -> pd.DataFrame:
    with np.load(FOLDER / "covertype.npz") as stored:
        table = pd.DataFrame(stored["num_T"].T, columns=[f"x{place}" for place in range(10)])
        table = table.assign(wilderness=stored["wilderness"].astype(str), soil=stored["soil"].astype(str))
        return table.assign(two=np.where(stored["y"] == 2, "yes", "no"), seven=stored["y"].astype(str))


def _california() -> pd.DataFrame:
    with np.load(FOLDER / "california_housing.npz") as stored:
        return pd.DataFrame(stored["X"], columns=[f"x{place}" for place in range(8)]).assign(goal=stored["y"])


def _letter() -> pd.DataFrame:
    table = pd.read_csv(FOLDER / "letter_recognition.data.xz", header=None)
    table.columns = ["goal", *(f"x{place}" for place in range(16))]
    return table


def _bike() -> pd.DataFrame:
    return pd.read_csv(FOLDER / "bike_hour.csv.xz").drop(columns=["casual", "registered"])


TABLES = {
    "adult": Table(_adult, {"goal": (LOGISTIC,), "hours": (POISSON,)}, LOOKED_AT),
    "employment": Table(_csv("ACSemployment_train.csv.xz", ",", 0), {"goal": (LOGISTIC,)}, LOOKED_AT),
    "breast cancer": Table(_bundled(datasets.load_breast_cancer), {"goal": (LOGISTIC,)}, LOOKED_AT),
    "letter": Table(_letter, {"goal": (LOGISTIC,)}, LOOKED_AT),
    "wine": Table(_bundled(datasets.load_wine), {"goal": (LOGISTIC,)}, LOOKED_AT),
    "california": Table(_california, {"goal": REGRESSIONS}, LOOKED_AT),
    "pol": Table(_csv("pol.csv.xz", ","), {"goal": (*REGRESSIONS, POISSON)}, LOOKED_AT),
    "kin40k": Table(_csv("kin40k.csv.xz", ","), {"goal": REGRESSIONS}, LOOKED_AT),
    "parkinsons": Table(_csv("parkinsons.csv.xz", r"\s+"), {"goal": (*REGRESSIONS, POISSON)}, LOOKED_AT),
    "energy": Table(_csv("energy.txt.xz", r"\s+"), {"goal": REGRESSIONS}, LOOKED_AT),
    "covertype": Table(_covertype, {"two": (LOGISTIC,), "seven": (LOGISTIC,)}, HELD_OUT),
    "mobility": Table(_csv("ACSmobility_train.csv.xz", ",", 0), {"goal": (LOGISTIC,)}, HELD_OUT),
    "digits": Table(_bundled(datasets.load_digits), {"goal": (LOGISTIC,)}, HELD_OUT),
    "iris": Table(_bundled(datasets.load_iris), {"goal": (LOGISTIC,)}, HELD_OUT),
    "bike": Table(_bike, {"count": (*REGRESSIONS, POISSON)}, HELD_OUT),
    "elevators": Table(_csv("elevators.csv.xz", ","), {"goal": REGRESSIONS}, HELD_OUT),
    "pumadyn32nm": Table(_csv("pumadyn32nm.csv.xz", ","), {"goal": REGRESSIONS}, HELD_OUT),
    "airfoil": Table(_csv("airfoil.txt.xz", r"\s+"), {"goal": REGRESSIONS}, HELD_OUT),
    "wine quality": Table(_csv("winequality-red.csv.xz", ",", 0), {"goal": (*REGRESSIONS, POISSON)}, HELD_OUT),
    "diabetes": Table(_bundled(datasets.load_diabetes), {"goal": (*REGRESSIONS, POISSON)}, HELD_OUT),
}


# Other targets of the same tables, of which no number was seen before.
for _name, _targets in {
    "adult": ("x0", "x4"), "california": ("x0", "x6"), "letter": ("x5",), "pol": ("x0",), "employment": ("x0",),
    "mobility": ("x0",), "bike": ("humidity",), "elevators": ("x3",), "wine quality": ("x10",),
    "covertype": ("x0", "x5"),
}.items():  # fmt: skip
    TABLES[f"{_name}, others"] = Table(TABLES[_name].read, dict.fromkeys(_targets, (LINEAR,)), AFTER)
TABLES["adult, sex"] = Table(_adult, {"x9": (LOGISTIC,)}, AFTER)
TABLES["covertype, wilderness"] = Table(_covertype, {"wilderness": (LOGISTIC,)}, AFTER)


def cells(name: str) -> Any:
    """Every target, model, n and ε of a table, as a dictionary."""
    table = TABLES[name]
    rows = table.read()
    rows = rows.sample(min(len(rows), MOST_ROWS), random_state=1).reset_index(drop=True)
    for target, models in table.fits.items():
        others = [other for other in table.fits if other != target]
        for kind in models:
            for n in sorted({len(rows), *([FEW_ROWS] if len(rows) > 4 * FEW_ROWS else [])}):
                yield from _cells_of(name, kind, rows[:n].drop(columns=others), target, EPSILONS)
            if kind is LINEAR or (kind is LOGISTIC and rows[target].nunique() <= 3):
                for other in OTHERS:
                    yield from _cells_of(name, kind, rows.drop(columns=others), target, FEW_EPSILONS, **other)


def _schema(kind: Any, rows: pd.DataFrame, target: str) -> dperm.Schema:
    schema, _ = draft_schema(rows.assign(**{target: np.arange(len(rows)) % 2}), target)
    if kind is LOGISTIC:
        goal: Any = dperm.Classes(target, sorted(set(rows[target].tolist())))
    else:
        low, high = float(rows[target].min()), float(rows[target].max())
        goal = dperm.Amount(target, (0.0, high) if kind is POISSON else (low, high))
    return replace(schema, derived_from_data=False, target=goal)


def _loss(model: Any, rows: pd.DataFrame, random_state: Any) -> tuple[float, Any]:
    """The mean loss of one fit without its penalty, and what measures it."""
    source, options, _ = model._read(rows, None, model.options())
    plan = options.plan(source._n_units, source.n_features)
    release = plan.run(source, random_state=random_state, row_warnings=False)
    source = source.with_schema(release.schema)
    problem = replace(plan.problem, regularizer=NoRegularizer())
    return risk_over(source, problem, release.w), (source, problem, release.w)


def _constant(source: Any, problem: Any, w: Any) -> float:
    """The loss of the best constant predictor."""
    if problem.loss.n_outputs > 1:
        target = np.concatenate([block.target for block in source._blocks(problem)])
        shares = np.unique(target, return_counts=True)[1] / target.size
        return float(-(shares * np.log(shares)).sum())
    only = np.zeros_like(w)

    def risk(value: float) -> float:
        only[-1] = value / problem.intercept_value
        return risk_over(source, problem, only)

    return float(minimize_scalar(risk, bounds=(-15.0, 15.0), method="bounded", options={"xatol": 1e-4}).fun)


def _cells_of(
    name: str, kind: Any, rows: pd.DataFrame, target: str, epsilons: tuple[float, ...], **settings: Any
) -> Any:  # fmt: skip
    schema = _schema(kind, rows, target)
    exact, measured = _loss(kind(noise=None, schema=schema), rows, None)
    constant = _constant(*measured)
    for epsilon in epsilons:
        began = time.perf_counter()
        model = kind(epsilon, **{"delta": 1e-5, "schema": schema, **settings})
        plan = model.plan()
        verdict = plan.verdict
        losses = [_loss(model, rows, seed)[0] for seed in range(FITS)]
        yield {
            "table": name, "model": model.kind, "target": target, "n": len(rows), "p": plan.n_features,
            "n_outputs": plan.problem.loss.n_outputs, "epsilon": epsilon, "seen": TABLES[name].seen,
            "solver": plan.solver.name, "settings": settings, "word": verdict.word,
            "most": cost_at(model.options(), plan.n_features, len(rows), epsilon).most,
            "exact": exact, "constant": constant, "losses": losses,
            "seconds": round(time.perf_counter() - began, 1),
        }  # fmt: skip


def measure(path: Path, names: list[str]) -> None:
    """Fit, and add what was found to the file."""
    with path.open("a", encoding="utf-8") as file:
        for name in names or TABLES:
            for cell in cells(name):
                print(json.dumps(cell), file=file, flush=True)


def _lost(cell: dict[str, Any]) -> float:
    """The mean extra loss of the fits, over the loss of a constant predictor."""
    return float((np.mean(cell["losses"]) - cell["exact"]) / cell["constant"])


def _kept(cell: dict[str, Any]) -> float:
    """How much is left of what the columns explain without noise."""
    return float((cell["constant"] - np.mean(cell["losses"])) / (cell["constant"] - cell["exact"]))


def report(cells: list[dict[str, Any]]) -> None:
    """Print how often fits lose no more than predicted, for what; and what is left of the hopeless ones."""
    print("| | cells | lost no more than predicted | lost / predicted: 10 %, median, 90 %, most |\n|---|---|---|---|")
    known = [cell for cell in cells if cell["word"] != "unknown"]
    for of in (LOOKED_AT, HELD_OUT, AFTER):
        side = [cell for cell in known if cell["seen"] == of and cell["most"] < 1.0]
        parts = {
            "all": side,
            **{kind: [cell for cell in side if _kind(cell) == kind] for kind in sorted(set(map(_kind, side)))},
            "add_remove": [cell for cell in side if "adjacency" in cell["settings"]],
            "δ = 0": [cell for cell in side if "delta" in cell["settings"]],
        }
        for name, part in ((name, part) for name, part in parts.items() if part):
            ratios = [_lost(cell) / cell["most"] for cell in part]
            quantiles = " … ".join(f"{each:.2f}" for each in np.quantile(ratios, [0.1, 0.5, 0.9, 1.0]))
            print(f"| {of}: {name} | {len(part)} | {100.0 * np.mean(np.array(ratios) <= 1.0):.0f} % | {quantiles} |")
    open_end = [_lost(cell) for cell in known if cell["most"] == 1.0]
    quantiles = " … ".join(f"{each:.2f}" for each in np.quantile(open_end, [0.0, 0.5, 1.0]))
    print(f"all, or more: {len(open_end)} cells, lost {quantiles}")
    kept = [_kept(cell) for cell in known if cell["word"] == "hopeless"]
    print(f"hopeless: {len(kept)} cells keep {min(kept):.2f} … {max(kept):.2f} of what the columns explain")


def _kind(cell: dict[str, Any]) -> str:
    return "several classes" if cell["n_outputs"] > 1 else str(cell["model"])


def draw(cells: list[dict[str, Any]], path: Path) -> None:
    """Predicted against measured, with the line below which nine of ten should lie."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 5.4), layout="constrained")
    line = np.geomspace(0.005, 1.0)
    axes.fill_between(line, 0.002, line, color="#e3eef8", linewidth=0, zorder=0)
    axes.plot(line, line, color="#777777", linewidth=1.2, linestyle="--", label="as much as predicted")
    known = [cell for cell in cells if cell["word"] != "unknown"]
    colours = {LOOKED_AT: "#9ab7d3", HELD_OUT: "#0b3c6f", AFTER: "#c4551d"}
    for order, (seen, colour) in enumerate(colours.items()):
        for kind, marker in (("logistic", "o"), ("several classes", "s"), ("linear", "^"), ("huber", "v")):
            part = [cell for cell in known if cell["seen"] == seen and _kind(cell) == kind]
            axes.scatter(
                [cell["most"] for cell in part], [max(_lost(cell), 0.002) for cell in part],
                s=22, marker=marker, color=colour, linewidth=0, alpha=0.85, zorder=2 + order,
                label=f"{kind}, {seen}" if part else None,
            )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(0.012, 1.1), ylim=(0.002, 1.6))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{100.0 * value:g} %")
    axes.set_xlabel('predicted: "up to … of the loss of a constant predictor"')
    axes.set_ylabel("measured: extra loss over that of a constant predictor")
    axes.legend(fontsize="small", edgecolor="none", loc="upper left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    what, where, *more = sys.argv[1:]
    if what == "measure":
        measure(Path(where), more)
    else:
        found = [json.loads(line) for line in Path(where).read_text(encoding="utf-8").splitlines()]
        report(found)
        for path in more:
            draw(found, Path(path))
