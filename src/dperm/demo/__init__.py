"""The demo: two raw tables at the defaults, beside what is possible without privacy, and what an attacker can do."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from dperm.accounting.attack import true_positive_rates
from dperm.datasets.adult import load_adult
from dperm.datasets.covertype import load_covertype_table
from dperm.datasets.tables import Tables
from dperm.demo.without_privacy import is_second, linear_on_bins, trees
from dperm.disk import make_folder, write_whole
from dperm.errors import InvalidParameterError
from dperm.models.logistic_regression import PrivateLogisticRegression
from dperm.pictures.attack import RATES, percent_up
from dperm.pictures.canvas import COLOURS, GREY, MARKERS, as_png, bare, offscreen
from dperm.printable import one_line
from dperm.privacy.guarantee import Adjacency
from dperm.progress import ProgressBar
from dperm.schema import Classes

Array = NDArray[np.float64]

DELTA = 1e-6
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SHOWN_EPSILON, ATTACKED = 1.0, (0.25, 1.0, 4.0)
FITS_EACH = 3
# Fewer rows may be of one class; there are no more.
FEWEST_ROWS, MOST_ROWS = 1000, 200_000
# Area under the ROC curve on Adult at δ = 1e-6, as published: Nori et al., "Accuracy, Interpretability, and
# Differential Privacy via Explainable Boosting", ICML 2021. There one row is added or removed, which takes less noise.
DP_EBM_ON_ADULT = {0.5: 0.875, 1.0: 0.880, 4.0: 0.885}
_CEILINGS: dict[str, Callable[[Tables], Array]] = {
    "gradient boosting, no privacy": trees,
    "logistic model, no privacy": linear_on_bins,
}


@dataclass(frozen=True)
class Score:
    """Accuracy and area under the ROC curve on rows that were held out."""

    accuracy: float
    auc: float


@dataclass(frozen=True)
class Task:
    """A table and the question that is asked of it; the second class is the one that is looked for."""

    name: str
    question: str
    tables: Tables
    published: dict[float, float]

    def score(self, decisions: Array) -> Score:
        """How good the decisions on the test rows are: above 0 is the second class."""
        truth = is_second(self.tables, self.tables.test)
        return Score(float(np.mean((decisions > 0) == truth)), float(roc_auc_score(truth, decisions)))


@dataclass(frozen=True)
class Measured:
    """What was found of one task."""

    task: Task
    scores: dict[float, list[Score]]
    ceilings: dict[str, Score]
    models: dict[float, PrivateLogisticRegression]

    def middle(self, epsilon: float, measure: str) -> float:
        """The median of a measure over fits."""
        return float(np.median([getattr(score, measure) for score in self.scores[epsilon]]))


def run_demo(output: Path, console: Console, rows: int = MOST_ROWS) -> Path:
    """Fit both tables at several ε, print how good the models are, and draw a picture.

    Parameters
    ----------
    output : Path
        Folder for the picture.
    console : Console
        Where to print.
    rows : int
        Training rows of each table at most; Adult has 32 561.

    Returns
    -------
    Path
        The picture.
    """
    if not FEWEST_ROWS <= rows <= MOST_ROWS:
        raise InvalidParameterError(f"the demo takes {FEWEST_ROWS} to {MOST_ROWS} training rows, got {rows}.")
    make_folder(output)
    offscreen()  # where it is missing, this fails now and not after a minute
    with ProgressBar("fits") as bar:
        tasks = _tasks(rows)
        found = [_measured(task, done, len(tasks), bar) for done, task in enumerate(tasks)]
    for one in found:
        console.print(_table(one))
        console.print()
    shown = found[0].models[SHOWN_EPSILON]
    console.print(
        f"The statement of a fit of {found[0].task.name}:\n{shown.privacy_}\n", highlight=False, soft_wrap=True
    )
    console.print(_attack_in_words(shown), highlight=False, soft_wrap=True)
    picture = output / "demo.png"
    write_whole(picture, _draw(found))
    console.print(f"picture: {one_line(picture)}", soft_wrap=True, markup=False)
    return picture


def _tasks(rows: int) -> list[Task]:
    adult, covertype = load_adult(), load_covertype_table()
    question = Classes("cover", ((1, 3, 4, 5, 6, 7), (2,)))
    covertype = covertype._replace(schema=replace(covertype.schema, target=question))
    return [
        Task("Adult", "is an income above 50 000 dollars?", _first(adult, rows), DP_EBM_ON_ADULT),
        Task("Covertype", "is it lodgepole pine?", _first(covertype, rows), {}),
    ]


def _first(tables: Tables, rows: int) -> Tables:
    n = min(rows, tables.train.num_rows)
    return Tables(replace(tables.schema, n=n), tables.train.slice(0, n), tables.test)


def _measured(task: Task, n_done: int, n_tasks: int, bar: ProgressBar) -> Measured:
    scores: dict[float, list[Score]] = {epsilon: [] for epsilon in EPSILONS}
    models: dict[float, PrivateLogisticRegression] = {}
    n_steps = len(_CEILINGS) + len(EPSILONS) * FITS_EACH
    for epsilon in EPSILONS:
        for _ in range(FITS_EACH):
            bar(n_done * n_steps + sum(map(len, scores.values())), n_tasks * n_steps)
            models[epsilon] = PrivateLogisticRegression(epsilon, DELTA, schema=task.tables.schema)
            models[epsilon].fit(task.tables.train)
            scores[epsilon].append(task.score(models[epsilon].decision_function(task.tables.test)))
    ceilings: dict[str, Score] = {}
    for name, decisions in _CEILINGS.items():
        bar((n_done + 1) * n_steps - len(_CEILINGS) + len(ceilings), n_tasks * n_steps)
        ceilings[name] = task.score(decisions(task.tables))
    return Measured(task, scores, ceilings, models)


def _table(found: Measured) -> Table:
    tables = found.task.tables
    table = Table(
        title=f"{found.task.name}: {found.task.question}\n{tables.train.num_rows} rows to fit, "
        f"{tables.test.num_rows} to test on; dperm at its defaults, δ = {DELTA:g},\n"
        f"one row replaced (replace_one), median (least … largest) of {FITS_EACH} fits"
    )
    table.add_column("", no_wrap=True)
    for heading in ("AUC", "accuracy"):
        table.add_column(heading, justify="right", no_wrap=True)
    for epsilon, scores in found.scores.items():
        table.add_row(
            f"dperm, ε = {epsilon:g}", *[_spread([getattr(score, measure) for score in scores])
                                         for measure in ("auc", "accuracy")],
        )  # fmt: skip
    for name, score in found.ceilings.items():
        table.add_row(name, _short(score.auc), _short(score.accuracy))
    for epsilon, auc in found.task.published.items():
        table.add_row(f"DP-EBM as published, ε = {epsilon:g}", _short(auc), "")
    return table


def _spread(values: list[float]) -> str:
    return f"{_short(float(np.median(values)))} ({_short(min(values))} … {_short(max(values))})"


def _short(share: float) -> str:
    """Without the zero before its point: a terminal has 80 columns."""
    return f"{share:.3f}".removeprefix("0")


def _attack_in_words(model: PrivateLogisticRegression) -> str:
    rate = _attack(model, [0.01])[0]
    return (
        f"At ε = {model.privacy_.epsilon:g} an attacker who knows every other row, with 1 % false alarms, tells one "
        f"person's row from another's in at most {percent_up(rate)} of cases; guessing does in 1 %.\n"
    )


def _attack(model: PrivateLogisticRegression, rates: list[float]) -> list[float]:
    statement, event, _ = model.promised
    return true_positive_rates(event, Adjacency.parse(statement.adjacency), rates)


def _draw(found: list[Measured]) -> bytes:
    """One slide: both measures of both tables against ε, and the most that any attacker can do."""
    figure = offscreen().figure(figsize=(16, 9), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 1.1))
    for column, one in enumerate(found):
        for row, (measure, label) in enumerate((("auc", "area under the ROC curve"), ("accuracy", "accuracy"))):
            axes = figure.add_subplot(grid[row, column])
            _draw_scores(axes, one, measure)
            axes.set_ylabel(f"{label}, held-out rows" if column == 0 else "")
            axes.set_xlabel("ε: more privacy to the left" if row == 1 else "")
            if row == 0:
                n = one.task.tables.train.num_rows
                axes.set_title(f"{one.task.name}: {one.task.question}\n{n} rows from the raw table", fontsize=13)
    _draw_attack(figure.add_subplot(grid[:, 2]), found[0])
    figure.suptitle(
        f"Private logistic regression at its defaults: nothing tuned, δ = {DELTA:g}, one row replaced", fontsize=17
    )
    return as_png(figure, 110)


def _draw_scores(axes: Any, found: Measured, measure: str) -> None:
    middle = [found.middle(epsilon, measure) for epsilon in EPSILONS]
    values = [[getattr(score, measure) for score in found.scores[epsilon]] for epsilon in EPSILONS]
    axes.fill_between(
        EPSILONS, list(map(min, values)), list(map(max, values)), color=COLOURS[0], alpha=0.2, linewidth=0
    )
    axes.plot(EPSILONS, middle, color=COLOURS[0], marker=MARKERS[0], linewidth=2.5)
    named = [(middle[-1], "dperm", COLOURS[0])]
    for (name, score), colour in zip(found.ceilings.items(), (GREY, COLOURS[2]), strict=True):
        axes.axhline(getattr(score, measure), color=colour, linestyle="--", linewidth=1.5)
        named.append((getattr(score, measure), name.replace(", ", ",\n"), colour))
    if measure == "auc" and found.task.published:
        points = found.task.published
        axes.plot(list(points), list(points.values()), color=COLOURS[1], marker=MARKERS[1], linewidth=0, markersize=8)
        named.append((points[max(points)], "DP-EBM,\nas published", COLOURS[1]))
    axes.set(xscale="log", xlim=(EPSILONS[0] * 0.8, EPSILONS[-1] * 6.0))
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.grid(color="0.92")
    bare(axes)
    published = found.task.published.values() if measure == "auc" else ()
    _name_lines(axes, named, min([*(value for fits in values for value in fits), *published]))


def _name_lines(axes: Any, named: list[tuple[float, str, str]], lowest: float) -> None:
    """Names beside the right ends of lines, so far apart that none covers another, and room for all of them."""
    lowest, highest = min([lowest, *(value for value, _, _ in named)]), max(value for value, _, _ in named)
    line = 0.04 * (highest - lowest)
    below, top = -math.inf, highest
    for value, name, colour in sorted(named):
        half = line * (1 + name.count("\n"))
        place = max(value, below + half)
        below = top = place + half
        axes.annotate(name, (EPSILONS[-1] * 1.2, place), color=colour, fontsize=10.5, va="center",
                      bbox={"color": "white", "pad": 0.3})  # fmt: skip
    axes.set_ylim(lowest - line, max(top, highest) + line)


def _draw_attack(axes: Any, found: Measured) -> None:
    caught = []
    for epsilon, colour in zip(ATTACKED, COLOURS, strict=False):
        proved = np.array(_attack(found.models[epsilon], RATES.tolist()))
        axes.plot(RATES, proved, color=colour, linewidth=2.5)
        place = int(np.argmin(np.abs(RATES + proved - 1.0)))  # on the other diagonal, where the curves are far apart
        beside, line = ((-6, 4), None) if epsilon > min(ATTACKED) else ((90, -60), {"arrowstyle": "-", "color": colour})
        axes.annotate(
            f"ε = {epsilon:g}", (RATES[place], proved[place]), xytext=beside, textcoords="offset points",
            color=colour, fontsize=13, ha="right", arrowprops=line,
        )  # fmt: skip
        rate = _attack(found.models[epsilon], [0.01])[0]
        caught.append(f"{percent_up(rate)} at ε = {epsilon:g}")
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1.5)
    axes.annotate("guessing", (0.8, 0.76), color=GREY, fontsize=12, rotation=45, ha="center", va="center")
    axes.set(
        xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="false alarms (false positive rate)",
        ylabel="one person's row told from another's (true positive rate)",
    )  # fmt: skip
    axes.set_title(
        "The most that any attacker can do who knows\nevery other row (proved). With 1 % false alarms:\n"
        + ", ".join(caught), fontsize=13,
    )  # fmt: skip
    axes.grid(color="0.92")
    bare(axes)
