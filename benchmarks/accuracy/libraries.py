"""The other libraries, each behind an interpreter of its own, which `make peers` provides."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from data import HERE, Data
from results import ROOT
from scipy import sparse

import rows

# The worker and the package behind a method.
WORKERS = {"DP-EBM": "interpret", "diffprivlib": "diffprivlib"}
PACKAGES = {"DP-EBM": "interpret-core", "diffprivlib": "diffprivlib"}
ENVIRONMENTS = ROOT / ".venv-peers"
TUNING_SEED = 1000
# diffprivlib's C for rows of norm at most 1: a careful user would try a few.
INVERSES = (0.01, 0.1, 1.0, 10.0)


class Worker:
    """A library: `fit_<name>.py` run by the Python of its environment."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.python = ENVIRONMENTS / name / "bin" / "python"

    @property
    def missing(self) -> str:
        """Why it cannot be run, if so."""
        ready = (ENVIRONMENTS / self.name / ".ready").is_file()
        return "" if ready else f"{self.name} is left out: no environment, `make peers` makes it."

    def predictions(self, X: Any, y: Any, X_test: Any, jobs: list[dict[str, Any]]) -> list[Any]:
        """What it predicts for the test rows, by job."""
        with tempfile.TemporaryDirectory() as folder:
            given, asked, answers = (Path(folder) / name for name in ("rows.npz", "jobs.json", "answers.npy"))
            np.savez(given, X=X, y=y, X_test=X_test)
            asked.write_text(json.dumps(jobs))
            subprocess.run([self.python, HERE / f"fit_{self.name}.py", given, asked, answers], check=True)
            return list(np.load(answers))


def dp_ebm(data: Data, epsilon: float, delta: float, seeds: list[int]) -> dict[int, float]:
    """Scores by seed: raw columns, their types and ranges; a column of an array holds 0 or 1."""
    X, X_test = (_dense(rows.raw(data, table)) for table in (data.train, data.test))
    rules = list(data.columns.values()) or [{"range": [0.0, 1.0]}] * X.shape[1]
    job = {
        "epsilon": epsilon,
        "delta": delta,
        "kinds": ["continuous" if "range" in rule else "nominal" for rule in rules],
        "bounds": [rule.get("range") for rule in rules],
        "target": data.target.get("range"),
    }
    found = Worker("interpret").predictions(X, data.y, X_test, [{**job, "seed": seed} for seed in seeds])
    return {seed: data.score(predicted) for seed, predicted in zip(seeds, found, strict=True)}


def diffprivlib(data: Data, epsilon: float, seeds: list[int]) -> tuple[dict[int, float], str]:
    """Scores by seed at the C that is best on the test rows at another seed, and that C."""
    # Least squares without a ridge needs columns that do not add up to the constant.
    X, X_test = map(_dense, rows.scaled(data, reference=data.measure == "R²"))
    job = {"epsilon": epsilon, "target": data.target.get("range"), "inverse": None}
    setting = ""
    worker = Worker("diffprivlib")
    if data.measure != "R²":
        tried = worker.predictions(
            X, data.y, X_test, [{**job, "inverse": inverse, "seed": TUNING_SEED} for inverse in INVERSES]
        )
        reached = [data.score(_judged(data, predicted)) for predicted in tried]
        job["inverse"] = INVERSES[int(np.argmax(reached))]
        setting = f"C = {job['inverse']:g}"
    found = worker.predictions(X, data.y, X_test, [{**job, "seed": seed} for seed in seeds])
    return {seed: data.score(_judged(data, predicted)) for seed, predicted in zip(seeds, found, strict=True)}, setting


def _judged(data: Data, predicted: Any) -> Any:
    """Signed scores as classes, where the accuracy of two classes is measured; numbers clipped to their range."""
    if data.measure == "R²":
        return np.clip(predicted, *data.target["range"])
    return predicted > 0 if data.measure == "accuracy" and data.n_classes == 2 else predicted


def _dense(table: Any) -> Any:
    return table.toarray() if sparse.issparse(table) else table
