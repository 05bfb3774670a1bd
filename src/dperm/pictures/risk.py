"""What more or less privacy is expected to cost: the loss that noise adds against ε, from public numbers."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.pictures.canvas import BLUE, GREY, bare, given_or_new

# Useful, doubtful, hopeless, from the bottom: pale colours that also differ in lightness.
ZONES = {"useful": "#e3eef8", "doubtful": "#fbf3d5", "hopeless": "#f3ddd3"}


@dataclass(frozen=True)
class RiskCurve:
    """Predictions at several ε, all else equal; estimates, right to a factor of several, and no promise.

    Attributes
    ----------
    epsilons : tuple of float
        Rising; the fit's own is among them.
    noise_costs : tuple of float
        By how much noise is expected to raise the mean loss; infinite where there is no prediction.
    nothing_costs : tuple of float
        By how much predicting nothing is expected to raise it.
    words : tuple of str
        The verdict at every ε: "useful", "doubtful", "hopeless" or "unknown".
    off_by : float
        By what factor predictions may be wrong: noise that costs less than predicting nothing by more than that leaves
        a useful model.
    epsilon, delta : float
        The guarantee of the fit.
    adjacency : str
        Which two tables cannot be told apart.
    n, n_features : int
        The public shape of the table.
    solver : str
        What would be run: a name, or "auto".
    counted : str
        What n is the number of.
    """

    epsilons: tuple[float, ...]
    noise_costs: tuple[float, ...]
    nothing_costs: tuple[float, ...]
    words: tuple[str, ...]
    off_by: float
    epsilon: float
    delta: float
    adjacency: str
    n: int
    n_features: int
    solver: str
    counted: str = "rows"

    @property
    def known(self) -> list[int]:
        """The places of the ε at which there is a prediction."""
        costs = zip(self.noise_costs, self.nothing_costs, strict=True)
        return [place for place, (noise, nothing) in enumerate(costs) if 0.0 < noise < math.inf > nothing > 0.0]

    @property
    def now(self) -> int:
        """The place of the fit's own ε."""
        return self.epsilons.index(self.epsilon)

    def __str__(self) -> str:
        """What is expected at the fit's own ε."""
        noise, nothing = self.noise_costs[self.now], self.nothing_costs[self.now]
        start = f"At ε = {self.epsilon:g} ({self.adjacency})"
        if self.now not in self.known:
            return f"{start} nothing is predicted"
        cost = f"{noise:.2g}" if noise >= 1e-4 else "less than 0.0001"
        return f"{start} noise is expected to add {cost} to the mean loss: {_beside(noise / nothing)}"


def _beside(share: float) -> str:
    """The cost of noise beside that of predicting nothing, in two digits."""
    if share >= 1.0:
        times = f"{float(f'{share:.2g}'):,.0f}".replace(",", " ") if share >= 10.0 else f"{share:.2g}"
        return f"{times} times what predicting nothing costs"
    percent = f"{100.0 * share:.2g}" if share >= 1e-4 else "less than 0.01"
    return f"{percent} % of what predicting nothing costs"


def plot_risk_of_epsilon(curve: RiskCurve, ax: Any = None) -> Any:
    """Draw the expected cost of noise against ε, with the zones of the verdict.

    Parameters
    ----------
    curve : RiskCurve
        What `risk_of_epsilon` of a plan or an estimator returned.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    axes = given_or_new(ax, 7.2, 4.8)
    epsilons, noise, nothing = (
        np.array(row)[curve.known] for row in (curve.epsilons, curve.noise_costs, curve.nothing_costs)
    )
    surely = nothing / curve.off_by
    low, high = 0.5 * min(noise.min(), surely.min()), 3.0 * max(noise.max(), nothing.max())
    zones = {"useful": (low, surely), "doubtful": (surely, nothing), "hopeless": (nothing, high)}
    for word, (bottom, top) in zones.items():
        axes.fill_between(epsilons, bottom, top, color=ZONES[word], linewidth=0, zorder=0)
    axes.plot(epsilons, nothing, color=GREY, linewidth=1.2, linestyle="--", label="predicting nothing")
    axes.plot(epsilons, noise, color=BLUE, linewidth=2, marker="o", markersize=4, label="noise")
    axes.axvline(curve.epsilon, color=GREY, linewidth=0.8, linestyle=":")
    if curve.now in curve.known:
        axes.plot(
            [curve.epsilon], [curve.noise_costs[curve.now]], color=BLUE, marker="o", markersize=10,
            markerfacecolor="white", markeredgewidth=2, linestyle="", clip_on=False, zorder=4,
            label=f"noise at ε = {curve.epsilon:g}",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(epsilons[0], epsilons[-1]), ylim=(low, high))
    axes.set_xlabel(f"ε, {curve.adjacency} (δ = {curve.delta:g}); more privacy to the left")
    axes.set_ylabel("expected to be added to the mean loss")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _name_zones(axes, low, float(surely[-2]), float(nothing[-2]), high)
    in_two_lines = str(curve).replace(": ", ",\n")
    units = "" if curve.counted == "rows" else f" {curve.counted}"
    solver = "the best solver" if curve.solver == "auto" else curve.solver
    axes.set_title(
        f"{in_two_lines}\nn = {curve.n}{units}, {curve.n_features} columns, {solver}; "
        f"estimates, right to a factor of about {curve.off_by:g}",
        fontsize="medium", loc="left",
    )  # fmt: skip
    axes.legend(loc="lower left", edgecolor="none", framealpha=0.7)
    bare(axes)
    return axes


def _name_zones(axes: Any, low: float, surely: float, nothing: float, high: float) -> None:
    """The words of the verdict at the right end, each in the middle of its zone near there."""
    for word, bottom, top in (
        ("useful", low, surely),
        ("doubtful", surely, nothing),
        ("hopeless: worse than predicting nothing", nothing, high),
    ):
        place = math.sqrt(bottom * top)
        axes.annotate(
            word, (1.0, place), xycoords=("axes fraction", "data"), xytext=(-6, 0), textcoords="offset points",
            ha="right", va="center", color="#111111", fontsize="medium", fontstyle="italic",
        )  # fmt: skip
