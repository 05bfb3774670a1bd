"""The tables of the comparison of networks: encoded once, by public ranges and categories, for everybody alike.

Ranges and categories are those of benchmarks/accuracy/schemas. The files are read from the folder that DPERM_DATA
names, by default ../shared/data beside the repository; nothing is downloaded.
"""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("DPERM_DATA", ROOT.parent / "shared" / "data"))
SPLIT_SEED, QUICK_ROWS = 1, 4000


@dataclass(frozen=True)
class Table:
    """One table, encoded and split once and for all.

    Attributes
    ----------
    name : str
        As printed.
    X, X_test : float32 array of shape (rows, columns)
        Encoded rows.
    y, y_test : array
        Classes 0, 1, … (int64), or numbers in [−1, 1] (float32).
    n_classes : int
        How many classes there are, 0 for a regression.
    row_norm : float
        A public bound on the norm of a row: every column of the raw table adds at most 1 to its square.
    """

    name: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    n_classes: int
    row_norm: float


class AbsentError(Exception):
    """A file of the data is not there."""


def load(name: str, quick: bool = False) -> Table:
    """The table of this name; `quick` keeps few rows."""
    X, y, X_test, y_test, n_classes, n_columns = LOADERS[name]()
    kept = QUICK_ROWS if quick else len(y)
    dtype = np.int64 if n_classes else np.float32
    return Table(
        name,
        X[:kept].astype(np.float32), y[:kept].astype(dtype),
        X_test[:kept].astype(np.float32), y_test[:kept].astype(dtype),
        n_classes, n_columns**0.5,
    )  # fmt: skip


def adult() -> tuple[Any, ...]:
    """Twelve columns: categories one-hot, a missing one as a category of its own; numbers scaled to [0, 1]."""
    schema = _schema("adult")
    tables = [
        pd.read_csv(_file(name), names=schema["table"]["header"], skipinitialspace=True, comment="|")
        for name in ("adult.data.xz", "adult.test.xz")
    ]
    parts = []
    for table in tables:
        blocks = []
        for name, column in schema["columns"].items():
            if "range" in column:
                low, high = column["range"]
                blocks.append((table[name].to_numpy(dtype=np.float64).clip(low, high)[:, None] - low) / (high - low))
            else:
                values = column["values"] + (["?"] if "missing" in column else [])
                blocks.append(table[name].to_numpy(dtype=str)[:, None] == np.array(values))
        parts += [np.hstack(blocks), table["income"].str.startswith(">50K").to_numpy()]
    return *parts, 2, len(schema["columns"])


def letter() -> tuple[Any, ...]:
    """Sixteen integers 0..15, scaled to [−1, 1]."""
    table = pd.read_csv(_file("letter_recognition.data.xz"), header=None)
    X = table.iloc[:, 1:].to_numpy(dtype=np.float64) / 7.5 - 1.0
    return *_split(X, table[0].map(ord).to_numpy() - ord("A")), 26, X.shape[1]


def california() -> tuple[Any, ...]:
    """Eight numbers, clipped to their ranges; they and the target are scaled to [−1, 1]."""
    schema = _schema("california")
    with np.load(_file("california_housing.npz")) as stored:
        X, y = stored["X"], stored["y"]
    low, high = np.array([column["range"] for column in schema["columns"].values()]).T
    bottom, top = schema["target"]["range"]
    X, y = X.clip(low, high), y.clip(bottom, top)
    X, y = 2.0 * (X - low) / (high - low) - 1.0, 2.0 * (y - bottom) / (top - bottom) - 1.0
    return *_split(X, y), 0, X.shape[1]


LOADERS = {"adult": adult, "letter": letter, "california": california}


def _schema(name: str) -> dict[str, Any]:
    path = ROOT / "benchmarks" / "accuracy" / "schemas" / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _file(name: str) -> Path:
    path = FOLDER / name
    if not path.is_file():
        raise AbsentError(f"{name} is not in {FOLDER}; DPERM_DATA names the folder that holds it.")
    return path


def _split(X: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """Four fifths to fit, one to judge by."""
    order = np.random.default_rng(SPLIT_SEED).permutation(len(y))
    train, test = np.split(order, [len(y) * 4 // 5])
    return X[train], y[train], X[test], y[test]
