"""The bound and the best attack on one plot."""

from typing import Any

import numpy as np

from dperm.accounting.attack import true_positive_rates
from dperm.audit.result import Attack, AuditResult, rounded_down
from dperm.errors import InvalidParameterError
from dperm.pictures.attack import RATES
from dperm.pictures.canvas import BLUE, GREY, PALE, RED, as_png, bare, new_axes, offscreen
from dperm.plan.fit_plan import FitPlan


def draw_audit(result: AuditResult, plan: FitPlan) -> bytes:
    """A PNG: what the proof allows any attacker, and what the best attack reached.

    Parameters
    ----------
    result : AuditResult
        With an attack that ranked fits: "black box" or "low bits".
    plan : FitPlan
        The plan that was audited.
    """
    ranked = [attack for attack in result.attacks if attack.roc]
    if not ranked:
        raise InvalidParameterError("a plot needs the black-box or the low-bits attack.")
    offscreen()
    allowed = np.array(true_positive_rates(plan.event, plan.setting.adjacency, RATES.tolist()))
    axes = new_axes(6.4, 6.4)
    axes.fill_between(RATES, RATES, allowed, color=PALE, lw=0)
    axes.plot(RATES, allowed, color=BLUE, lw=2)
    axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    best = max(ranked, key=_reach)
    reached = np.array(best.roc)
    axes.plot(*reached.T, color=RED, lw=2, clip_on=False, zorder=3)
    bound = "" if best.epsilon is None else f": ε ≥ {rounded_down(max(best.epsilon, best.shape_epsilon or 0.0))}"
    _label(axes, 0.13, f"proved: nobody gets above (ε = {result.epsilon:g}, δ = {result.delta:g})", BLUE)
    _label(axes, 0.07, f"{best.name}, {best.fits} fits{bound}", RED)
    axes.text(0.80, 0.77, "guessing", color=GREY, rotation=45, rotation_mode="anchor", ha="center", va="top")
    axes.set(
        xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="false positive rate", ylabel="true positive rate",
        title=f"{result.solver}, n = {result.n}, {result.n_features} columns, {result.adjacency}"
        + ("" if result.unit is None else f"\n{result.unit}"),
    )  # fmt: skip
    bare(axes)
    return as_png(axes.figure, 150)


def _reach(attack: Attack) -> float:
    return max(right - wrong for wrong, right in attack.roc)


def _label(axes: Any, height: float, text: str, color: str) -> None:
    """A line's name in its colour, in the corner that no line reaches."""
    axes.text(0.98, height, text, color=color, ha="right", va="center")
