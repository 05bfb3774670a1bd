"""What more or less privacy is expected to cost: the loss that noise adds against ε, from public numbers."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.pictures.canvas import BLUE, GREY, bare, given_or_new

# Where noise hides everything, and what it may cost elsewhere: pale colours that differ in lightness too.
HOPELESS, COST = "#f3ddd3", "#cfe0f1"


@dataclass(frozen=True)
class RiskCurve:
    """Predictions at several ε, all else equal: estimates with a measured spread, and no promise.

    Attributes
    ----------
    epsilons : tuple of float
        Rising; the fit's own is among them.
    shares : tuple of float
        Up to how much noise is expected to raise the mean loss, over the loss of the best constant predictor; NaN where
        there is no prediction. Nine of ten measured fits lost no more.
    words : tuple of str
        The verdict at every ε: "small", "large", "hopeless" or "unknown".
    epsilon, delta : float
        The guarantee of the fit.
    adjacency : str
        The neighbouring relation.
    n, n_features : int
        The public shape of the table.
    counted : str
        What n is the number of.
    """

    epsilons: tuple[float, ...]
    shares: tuple[float, ...]
    words: tuple[str, ...]
    epsilon: float
    delta: float
    adjacency: str
    n: int
    n_features: int
    counted: str = "rows"

    @property
    def known(self) -> list[int]:
        """The indices of the ε at which there is a prediction."""
        return [index for index, share in enumerate(self.shares) if math.isfinite(share)]

    @property
    def now(self) -> int:
        """The index of the fit's own ε."""
        return self.epsilons.index(self.epsilon)

    @property
    def hopeless_up_to(self) -> float | None:
        """The largest of the ε at which noise hides everything, None if it does at none."""
        hopeless = [epsilon for epsilon, word in zip(self.epsilons, self.words, strict=True) if word == "hopeless"]
        return max(hopeless, default=None)

    @property
    def costs_all(self) -> bool:
        """Whether noise may cost all of the loss of a constant predictor at the fit's own ε: 100 % when rounded."""
        return self.shares[self.now] >= 0.995

    def __str__(self) -> str:
        """What is expected at the fit's own ε."""
        start = f"At ε = {self.epsilon:g} ({self.adjacency})"
        if self.now not in self.known:
            return f"{start} nothing is predicted"
        share = "all, or more," if self.costs_all else f"up to {float(f'{100.0 * self.shares[self.now]:.2g}'):g} %"
        return f"{start} noise is expected to cost {share} of the loss of a constant predictor"


def plot_risk_of_epsilon(curve: RiskCurve, ax: Any = None) -> Any:
    """Draw against ε up to how much noise is expected to cost.

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
    epsilons, shares = (np.array(row)[curve.known] for row in (curve.epsilons, curve.shares))
    low = 0.5 * float(shares.min())
    if curve.hopeless_up_to is not None:
        axes.axvspan(epsilons[0], curve.hopeless_up_to, color=HOPELESS, linewidth=0, zorder=0, label="hopeless")
    axes.fill_between(epsilons, low, shares, color=COST, linewidth=0, zorder=1, label="nine of ten measured fits")
    axes.axhline(1.0, color=GREY, linewidth=1.2, linestyle="--", label="a constant predictor")
    axes.plot(epsilons, shares, color=BLUE, linewidth=2, marker="o", markersize=4, label="noise")
    axes.axvline(curve.epsilon, color=GREY, linewidth=0.8, linestyle=":")
    if curve.now in curve.known:
        axes.plot(
            [curve.epsilon], [curve.shares[curve.now]], color=BLUE, marker="o", markersize=10,
            markerfacecolor="white", markeredgewidth=2, linestyle="", clip_on=False, zorder=4,
            label=f"noise at ε = {curve.epsilon:g}",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(epsilons[0], epsilons[-1]), ylim=(low, 1.5))
    axes.set_xlabel(f"ε, {curve.adjacency} (δ = {curve.delta:g}); more privacy to the left")
    axes.set_ylabel("share of the loss of a constant predictor")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{100.0 * value:g} %")
    in_two_lines = str(curve).replace(" noise is", "\nnoise is")
    units = "" if curve.counted == "rows" else f" {curve.counted}"
    axes.set_title(
        f"{in_two_lines}\nn = {curve.n}{units}, {curve.n_features} columns; estimated from public numbers",
        fontsize="medium", loc="left",
    )  # fmt: skip
    axes.legend(loc="lower left", edgecolor="none", framealpha=0.7)
    bare(axes)
    return axes
