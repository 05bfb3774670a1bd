"""What every worker does around its fit: read rows and jobs, time each fit, write coefficients."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def run(fit: Callable[..., dict[str, Any]]) -> None:
    """Call `fit` once a job: rows, jobs and answers are the files that the command line names.

    A job is a dictionary: `seed`, the guarantee, `strength` (λ) and, where there is something to tune, the setting.
    `fit` takes X, y and these by name, and returns coefficient vectors by the name of the iterate they come from.
    """
    rows, jobs, answers = (Path(argument) for argument in sys.argv[1:])
    with np.load(rows) as stored:
        X, y = stored["X"], stored["y"]
    done = []
    for job in json.loads(jobs.read_text()):
        began = time.perf_counter()
        iterates = fit(X, y, **job)
        seconds = time.perf_counter() - began
        done.append({"seconds": seconds, "iterates": {name: np.ravel(w).tolist() for name, w in iterates.items()}})
    answers.write_text(json.dumps(done))
