"""What a release lets any attacker do: true positives against false alarms, from the accounting event."""

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dperm.accounting.attack import true_positive_rates
from dperm.errors import InvalidParameterError
from dperm.pictures.canvas import BLUE, GREY, PALE, RED, bare, given_or_new, promise
from dperm.pictures.entries import Array
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.unit import PrivacyUnit

# Where the curve is computed: closely where it is steep.
RATES = np.concatenate([np.linspace(0.0, 0.05, 26), np.linspace(0.06, 1.0, 95)])
_ORANGE = "#d55e00"


def plot_attack(model: Any, ax: Any = None) -> Any:
    """Draw the most that any attacker can find at every rate of false alarms, with the promise and guessing beside it.

    Parameters
    ----------
    model : estimator
        A fitted one, or one from a file.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    check_is_fitted(model, "privacy_")
    statement, event, _ = model.promised
    if math.isinf(statement.epsilon):
        raise InvalidParameterError(
            "the model was fitted without noise: there is no guarantee, and any attack may succeed."
        )
    adjacency = Adjacency.parse(statement.adjacency)
    proved = np.array(true_positive_rates(event, adjacency, RATES.tolist()))
    axes = given_or_new(ax, 6.4, 6.9)
    axes.fill_between(RATES, RATES, proved, color=PALE, linewidth=0)
    axes.plot(RATES, proved, color=BLUE, linewidth=2, label="proved: no attack exceeds this line")
    word = "promised by a publication" if model.privacy_.noise == "paper" else "promised"
    axes.plot(
        RATES, promised_rates(statement.epsilon, statement.delta, RATES), color=_ORANGE, linewidth=1.5,
        linestyle="-.", label=f"{word}: ε = {statement.epsilon:g}, δ = {statement.delta:g}",
    )  # fmt: skip
    axes.plot([0.0, 1.0], [0.0, 1.0], color=GREY, linewidth=1, linestyle="--", label="guessing, without the model")
    wrong = 0.01
    right = true_positive_rates(event, adjacency, [wrong])[0]
    axes.set(
        xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="false alarms (false positive rate)",
        ylabel=f"caught: {_caught(adjacency, statement.unit)} (true positive rate)",
    )  # fmt: skip
    axes.set_title(
        f"At 1 % false alarms an attacker catches at most {percent_up(right)}\n{promise(model)}",
        fontsize="medium", loc="left", color="black" if statement.for_release else RED,
    )  # fmt: skip
    axes.legend(loc="lower right", frameon=False)
    bare(axes)
    return axes


def promised_rates(epsilon: float, delta: float, false_positive_rates: Array) -> Array:
    """The largest true positive rates that (ε, δ) alone allows."""
    rising = delta + math.exp(min(epsilon, 700.0)) * false_positive_rates
    falling = 1.0 - math.exp(-epsilon) * (1.0 - delta - false_positive_rates)
    return np.clip(np.minimum(rising, falling), false_positive_rates, 1.0)


def _caught(adjacency: Adjacency, unit: PrivacyUnit | None) -> str:
    whose = "row" if unit is None else unit.word
    if adjacency is Adjacency.REPLACE_ONE:
        return f"one {whose} told from another"
    return "a row found to be there" if unit is None else f"one {whose} found to be there"


def percent_up(share: float) -> str:
    """In percent with two digits, no less than it is."""
    digits = 1 - math.floor(math.log10(100.0 * share))
    return f"{math.ceil(100.0 * share * 10.0**digits) / 10.0**digits:g} %"
