"""What every worker does around its fit: read rows and jobs, write predictions for the test rows."""

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def run(fit: Callable[..., Any]) -> None:
    """Call `fit` once a job: rows, jobs and answers are the files that the command line names.

    `fit` takes training rows, their target, test rows, and a job's entries by name.
    """
    rows, jobs, answers = (Path(argument) for argument in sys.argv[1:])
    warnings.simplefilter("ignore")
    with np.load(rows) as stored:
        tables = [stored[name] for name in ("X", "y", "X_test")]
    done = [np.asarray(fit(*tables, **job), dtype=np.float64) for job in json.loads(jobs.read_text())]
    np.save(answers, np.stack(done))
