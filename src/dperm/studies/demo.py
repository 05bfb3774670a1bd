"""The demo: private logistic regression on Covertype against the non-private optimum."""

import io
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from dperm.accounting.curve import gaussian_mu
from dperm.accounting.guarantee import Guarantee
from dperm.datasets.covertype import Covertype, load_covertype
from dperm.errors import DpermError, InvalidParameter
from dperm.files import make_folder, write_whole
from dperm.pictures.canvas import offscreen
from dperm.planning.minimize import minimize
from dperm.printable import one_line
from dperm.problem import Problem
from dperm.problem.losses import Logistic
from dperm.problem.regularizers import L2
from dperm.progress import ProgressBar
from dperm.release.statement import PrivacyStatement
from dperm.studies.reference import logistic_optimum, single_release_risk
from dperm.unsafe import empirical_risk

Array = NDArray[np.float64]

STRENGTH, DELTA = 0.01, 1e-6
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
SHOWN_EPSILON = 1.0
FITS_EACH = 3
# Fewer rows may be of one class; of more, too few are left to test on.
FEWEST_ROWS, MOST_ROWS = 100, 500_000


@dataclass(frozen=True)
class Line:
    """Medians over fits at one ε."""

    epsilon: float
    excess: float
    lowest: float
    highest: float
    yardstick: float
    accuracy: float
    seconds: float


def run_demo(output: Path, console: Console, n_train: int = 200_000) -> Path:
    """Fit at several ε, print risk, accuracy and the privacy statement, and draw a picture.

    Parameters
    ----------
    output : Path
        Folder for the picture.
    console : Console
        Where to print.
    n_train : int
        Training rows.

    Returns
    -------
    Path
        The picture.
    """
    if not FEWEST_ROWS <= n_train <= MOST_ROWS:
        raise InvalidParameter(f"the demo takes {FEWEST_ROWS} to {MOST_ROWS} training rows, got {n_train}.")
    make_folder(output)
    offscreen()  # where it is missing, this fails now and not after a minute
    data = load_covertype(n_train)
    problem = Problem(Logistic(), L2(STRENGTH))
    console.print(f"Covertype: {n_train} rows of {data.X.shape[1]} columns, class 2 against the rest, λ = {STRENGTH}")
    optimum = logistic_optimum(data.X, data.y, STRENGTH)
    best_risk, best_accuracy = empirical_risk(problem, data.X, data.y, optimum), _accuracy(data, optimum)
    console.print(f"without privacy: risk {best_risk:.6f}, test accuracy {best_accuracy:.4f}\n")
    lines, statement = _fit_all(data, problem, optimum, best_risk)
    console.print(_table(lines))
    console.print(f"\nThe statement of a fit at ε = {SHOWN_EPSILON:g}:\n{statement}\n", highlight=False, soft_wrap=True)
    picture = _draw(lines, best_accuracy, output / "covertype.png")
    console.print(f"picture: {one_line(picture)}", soft_wrap=True, markup=False)
    return picture


def _fit_all(
    data: Covertype, problem: Problem, optimum: Array, best_risk: float
) -> tuple[list[Line], PrivacyStatement]:
    lines: list[Line] = []
    shown: PrivacyStatement | None = None
    lipschitz = problem.constants(data.X.shape[1]).lipschitz
    with ProgressBar("private fits") as bar:
        for epsilon in EPSILONS:
            guarantee = Guarantee(epsilon, DELTA)
            excesses: list[float] = []
            accuracies: list[float] = []
            seconds: list[float] = []
            for _ in range(FITS_EACH):
                bar(len(lines) * FITS_EACH + len(excesses), len(EPSILONS) * FITS_EACH)
                began = time.perf_counter()
                release = minimize(problem, data.X, data.y, guarantee=guarantee)
                seconds.append(time.perf_counter() - began)
                excesses.append(empirical_risk(problem, data.X, data.y, release.w) - best_risk)
                accuracies.append(_accuracy(data, release.w))
            if epsilon == SHOWN_EPSILON:
                shown = release.privacy
            yardstick = single_release_risk(problem, data.X, optimum, 2 * lipschitz, gaussian_mu(guarantee))
            lines.append(
                Line(
                    epsilon, float(np.median(excesses)), min(excesses), max(excesses), yardstick,
                    float(np.median(accuracies)), float(np.median(seconds)),
                )
            )  # fmt: skip
    if shown is None:
        raise DpermError("the demo has no fit to show.")
    return lines, shown


def _accuracy(data: Covertype, w: Array) -> float:
    return float(np.mean(np.where(data.X_test @ w > 0, 1.0, -1.0) == data.y_test))


def _table(lines: list[Line]) -> Table:
    table = Table(title=f"(ε, δ = {DELTA:g}), adjacency replace_one, solver auto, median of {FITS_EACH} fits")
    for heading in ("ε", "excess risk", "lowest … highest", "over E*", "accuracy", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            f"{line.epsilon:g}", f"{line.excess:.2e}", f"{line.lowest:.2e} … {line.highest:.2e}",
            f"{line.excess / line.yardstick:.2f}", f"{line.accuracy:.4f}",
            f"{line.seconds:.1f}",
        )  # fmt: skip
    return table


def _draw(lines: list[Line], best_accuracy: float, path: Path) -> Path:
    plt = offscreen()
    epsilons = [line.epsilon for line in lines]
    figure, (risk, accuracy) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    spread = ([line.excess - line.lowest for line in lines], [line.highest - line.excess for line in lines])
    risk.errorbar(epsilons, [line.excess for line in lines], yerr=spread, color="black", marker="o", capsize=3,
                  label=f"auto, median and range of {FITS_EACH} fits")  # fmt: skip
    risk.plot(epsilons, [line.yardstick for line in lines], color="0.5", linestyle="--",
              label="E*: one release at the optimum")  # fmt: skip
    risk.set(xscale="log", yscale="log", xlabel="ε", ylabel="excess empirical risk", title="Risk above the optimum")
    accuracy.plot(epsilons, [line.accuracy for line in lines], color="black", marker="o", label="auto")
    accuracy.axhline(best_accuracy, color="0.5", linestyle="--", label="without privacy")
    accuracy.set(xscale="log", xlabel="ε", ylabel="accuracy on held-out rows", title="Test accuracy")
    low, high = accuracy.get_ylim()
    accuracy.set_ylim(low - 0.02, high + 0.02)  # differences of a tenth of a percent should look small
    for axes in (risk, accuracy):
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.minorticks_off()
        axes.grid(color="0.9")
        axes.legend(frameon=False)
    figure.suptitle(f"Covertype, λ = {STRENGTH:g}, δ = {DELTA:g}, adjacency replace_one")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=120, format="png")
    plt.close(figure)
    write_whole(path, drawn.getvalue())
    return path
