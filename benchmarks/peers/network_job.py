"""What every worker of the comparison of networks does around its fit: read rows and jobs, judge, time, weigh."""

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np


@dataclass
class Rows:
    """A table as the driver stored it.

    Attributes
    ----------
    X, X_test : float32 array of shape (rows, columns)
        Encoded rows.
    y, y_test : array
        Classes 0, 1, … (int64), or numbers in [−1, 1] (float32).
    n_classes : int
        0 for a regression.
    row_norm : float
        A public bound on the norm of a row.
    """

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    n_classes: int
    row_norm: float

    def score(self, predictions: Any) -> float:
        """Accuracy of classes, R² of numbers: on the test rows."""
        predictions = np.ravel(predictions)
        if self.n_classes:
            return float(np.mean(predictions == self.y_test))
        truth = self.y_test.astype(np.float64)
        return float(1.0 - np.mean((predictions - truth) ** 2) / np.var(truth))


@dataclass
class Fitted:
    """What a fit hands back.

    Attributes
    ----------
    predictions : dict
        Classes or numbers for the test rows, by the name of the iterate they come from.
    epochs : list of float
        Seconds of every epoch of training, of which the first may compile; empty where epochs cannot be told.
    n_epochs, batch : float, optional
        How often the rows were read, and the expected rows of a step, where these are fixed.
    warm : bool
        Whether the first epoch has been warmed up like all others.
    """

    predictions: dict[str, Any]
    epochs: list[float]
    n_epochs: float | None = None
    batch: float | None = None
    warm: bool = False


def run(fit: Callable[..., Fitted]) -> None:
    """Call `fit` once a job: rows, jobs and answers are the files that the command line names.

    A job is a dictionary: `hidden` (units of the hidden layer, 0 for none), `seed`, the guarantee, `epochs`, and what
    else there is to set. `fit` takes the `Rows` and these by name.
    """
    paths = [Path(argument) for argument in sys.argv[1:]]
    with np.load(paths[0]) as stored:
        rows = Rows(*(stored[name] for name in ("X", "y", "X_test", "y_test")),
                    int(stored["n_classes"]), float(stored["row_norm"]))  # fmt: skip
    jobs = json.loads(paths[1].read_text())
    before, done = _start_of_memory(), []
    for job in jobs:
        began = time.perf_counter()
        fitted = fit(rows, **job)
        seconds = time.perf_counter() - began
        peak = _peak_memory()
        counted = fitted.epochs if fitted.warm else fitted.epochs[1:] or fitted.epochs
        done.append(
            {
                "scores": {name: rows.score(found) for name, found in fitted.predictions.items()},
                "seconds_per_epoch": median(counted) if counted else None,
                "epochs": fitted.n_epochs,
                "batch": fitted.batch,
                "seconds": seconds,
                "peak_bytes": peak,
                "peak_bytes_over_start": peak - before,
            }
        )
    paths[2].write_text(json.dumps(done))


def _start_of_memory() -> int:
    """Resident bytes now; the peak that was before is forgotten where Linux allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak_memory()
    return _status("VmRSS")


def _peak_memory() -> int:
    """Most resident bytes so far. What `getrusage` says would count the driver that forked this process, too."""
    try:
        return _status("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))
