"""DP-SGD on a linear model, as a plain loop: what Opacus and jax-privacy run, with its setting picked by an oracle.

Rows are Poisson-sampled, the gradient of each is clipped, Gaussian noise is added to the sum, and its multiplier is
calibrated by privacy loss distributions (dp-accounting) under add_remove. A linear model has its per-row gradients in
closed form, (slope) ⊗ x with norm ‖slope‖·‖x‖, so that clipping is one division and many settings can be tried.
"""

import functools
import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import dp_accounting
import numpy as np
from data import Data
from dp_accounting.pld import PLDAccountant
from numba import njit

import rows

TUNING_SEED = 1000
# Of privacy losses; rounded pessimistically.
INTERVAL = 1e-3


@dataclass(frozen=True)
class Setting:
    """What a user of DP-SGD must choose.

    Attributes
    ----------
    encoding : {"scaled", "binned"}
        Which rows.
    rate : float
        The length of a step, for rows of norm at most 1.
    clip : float
        The largest norm of a row's gradient.
    batches, epochs : int
        Expected batches per epoch, of which there are so many; the product is the number of steps.
    averaged : bool
        Whether the mean of the second half of the iterates is the model, or the last of them.
    """

    encoding: str = "scaled"
    rate: float = 8.0
    clip: float = 0.5
    batches: int = 10
    epochs: int = 20
    averaged: bool = True

    def __str__(self) -> str:
        iterate = "mean of the second half" if self.averaged else "last iterate"
        return (
            f"{self.encoding} columns, rate {self.rate:g}, clip {self.clip:g}, "
            f"{self.batches} batches × {self.epochs} epochs, {iterate}"
        )


# What the oracle tries, one choice after another, each at the best of the others so far; factors are of the rate.
ENCODINGS, RATES = ("scaled", "binned"), (2.0, 8.0, 32.0, 128.0)
CLIPS = (0.1, 0.25, 1.0)
LENGTHS = ((1, 30), (1, 100), (10, 60), (40, 20))
FACTORS = (0.25, 0.5, 2.0, 4.0)
N_FINALISTS = 3


class DPSGD:
    """Fits on one data set: rows are encoded once."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.rows = {"scaled": rows.scaled(data)}
        if data.columns:
            self.rows["binned"] = rows.binned(data)
        self.squared = data.measure == "R²"
        self.n_outputs = data.n_classes if data.n_classes > 2 else 1
        if data.measure == "R²":  # the declared range becomes [−1, 1]
            self.low, self.high = data.target["range"]
            self.y = 2.0 * (np.clip(data.y, self.low, self.high) - self.low) / (self.high - self.low) - 1.0
        else:
            self.y = data.y.astype(np.float64)

    def scores(self, setting: Setting, epsilon: float, delta: float, seed: int) -> dict[bool, float]:
        """The measure on the test rows of the averaged (True) and of the last iterate."""
        test = self.rows[setting.encoding][1]
        return {
            averaged: self._judge(np.asarray(test @ w))
            for averaged, w in self._run(setting, epsilon, delta, seed).items()
        }

    def _judge(self, margins: Any) -> float:
        if self.data.measure == "R²":
            return self.data.score((margins[:, 0] + 1.0) / 2.0 * (self.high - self.low) + self.low)
        if self.data.measure == "AUC":
            return self.data.score(margins[:, 0])
        return self.data.score(margins.argmax(axis=1) if self.n_outputs > 1 else margins[:, 0] > 0)

    def _run(self, setting: Setting, epsilon: float, delta: float, seed: int) -> dict[bool, Any]:
        X = self.rows[setting.encoding][0]
        n, rate, n_steps = X.shape[0], 1.0 / setting.batches, setting.batches * setting.epochs
        deviation = setting.clip * noise_multiplier(rate, n_steps, epsilon, delta)
        rng = np.random.default_rng(seed)
        everybody = np.arange(n)
        w = np.zeros((X.shape[1], self.n_outputs))
        mean, kept = np.zeros_like(w), n_steps - n_steps // 2
        for step in range(n_steps):
            batch = everybody if rate == 1.0 else np.flatnonzero(rng.random(n) < rate)
            summed = clipped_sum(X.indptr, X.indices, X.data, self.y, w, batch, setting.clip, self.squared)
            w = w - setting.rate / (rate * n) * (summed + deviation * rng.standard_normal(w.shape))
            if step >= n_steps - kept:
                mean += w / kept
        return {True: mean, False: w}

    def best(self, epsilon: float, delta: float) -> Setting:
        """The oracle: the setting with the best measure on the test rows, at seeds of its own, for free."""
        tried: dict[Setting, float] = {}

        def consider(setting: Setting) -> None:
            if setting.encoding in self.rows and replace(setting, averaged=True) not in tried:
                with np.errstate(over="ignore", invalid="ignore"):
                    for averaged, found in self.scores(setting, epsilon, delta, TUNING_SEED).items():
                        tried[replace(setting, averaged=averaged)] = found

        def leader() -> Setting:
            return max(tried, key=tried.__getitem__)

        for encoding, rate in itertools.product(ENCODINGS, RATES):
            consider(Setting(encoding, rate))
        for clip in CLIPS:
            consider(replace(leader(), clip=clip))
        for batches, epochs in LENGTHS:
            consider(replace(leader(), batches=batches, epochs=epochs))
        middle = leader()
        for factor in FACTORS:
            consider(replace(middle, rate=factor * middle.rate))
        # One seed may be lucky: the best few are judged again.
        finalists = sorted(tried, key=tried.__getitem__)[-N_FINALISTS:]
        return max(finalists, key=lambda setting: self._again(setting, epsilon, delta))

    def _again(self, setting: Setting, epsilon: float, delta: float) -> float:
        """The worst of two more seeds."""
        seeds = (TUNING_SEED + 1, TUNING_SEED + 2)
        return min(self.scores(setting, epsilon, delta, seed)[setting.averaged] for seed in seeds)


@njit(cache=True)
def clipped_sum(
    ends: Any, places: Any, values: Any, y: Any, w: Any, batch: Any, clip: float, squared: bool
) -> Any:  # pragma: no cover - compiled
    """The sum over a batch of CSR rows of gradients (slopes ⊗ x), each scaled to a norm of at most `clip`.

    Slopes are the derivative of the loss by the margins: squared loss or logistic with one output, else softmax.
    """
    summed, n_outputs = np.zeros(w.shape), w.shape[1]
    slopes = np.empty(n_outputs)
    for row in batch:
        slopes[:] = 0.0
        norm = squares = 0.0
        for k in range(ends[row], ends[row + 1]):
            norm += values[k] ** 2
            for output in range(n_outputs):
                slopes[output] += values[k] * w[places[k], output]
        if squared:
            slopes[0] -= y[row]
        elif n_outputs == 1:
            slopes[0] = 1.0 / (1.0 + np.exp(-slopes[0])) - y[row]
        else:
            largest, total = slopes.max(), 0.0
            for output in range(n_outputs):
                slopes[output] = np.exp(slopes[output] - largest)
                total += slopes[output]
            for output in range(n_outputs):
                slopes[output] /= total
            slopes[int(y[row])] -= 1.0
        for output in range(n_outputs):
            squares += slopes[output] ** 2
        scale = min(1.0, clip / max(np.sqrt(norm * squares), 1e-300))
        for k in range(ends[row], ends[row + 1]):
            for output in range(n_outputs):
                summed[places[k], output] += scale * values[k] * slopes[output]
    return summed


@functools.cache
def noise_multiplier(rate: float, n_steps: int, epsilon: float, delta: float) -> float:
    """The least noise, over the clip, of which so many Poisson-sampled Gaussian sums are (ε, δ)-private, add_remove."""

    def event(multiplier: float) -> Any:
        if rate == 1.0:  # sums of everybody compose to one Gaussian
            return dp_accounting.GaussianDpEvent(multiplier / math.sqrt(n_steps))
        sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
        return dp_accounting.SelfComposedDpEvent(sampled, n_steps)

    def accountant() -> Any:
        relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        return PLDAccountant(relation, value_discretization_interval=INTERVAL)

    return float(dp_accounting.calibrate_dp_mechanism(accountant, event, epsilon, delta, tol=1e-3))
