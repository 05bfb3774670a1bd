"""Forest Covertype, the paper's data (notice: covertype.NOTICE.txt), scaled by public numbers."""

from importlib.resources import as_file, files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.tables import Tables
from dperm.errors import InvalidParameterError
from dperm.schema import load_schema

Array = NDArray[np.float64]

# Ranges of the ten numeric columns as documented with the data: declared, not measured at run time.
_LOW = np.array([1859, 0, 0, 0, -173, 0, 0, 0, 0, 0], dtype=np.float64)
_HIGH = np.array([3858, 360, 66, 1397, 601, 7117, 254, 254, 254, 7173], dtype=np.float64)
_N_WILDERNESS, _N_SOIL, _N_ROWS = 4, 40, 581_012


class Covertype(NamedTuple):
    """Rows of unit norm and targets: +1 for class 2 (lodgepole pine), −1 for the rest."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


def load_covertype(n_train: int = 200_000, seed: int = 1) -> Covertype:
    """Load the data, permute it, and split off training rows.

    The ten numeric columns are scaled to [0, 1] by their documented ranges, the two categorical ones are one-hot
    encoded, and every row is divided by its norm.

    Parameters
    ----------
    n_train : int
        Training rows; the remaining ones are for testing.
    seed : int
        Of the permutation; the stored rows are ordered.

    Examples
    --------
    >>> load_covertype(n_train=1000).X.shape
    (1000, 54)
    """
    if not 1 <= n_train <= _N_ROWS:
        raise InvalidParameterError(f"n_train must lie between 1 and {_N_ROWS}, got {n_train!r}.")
    stored = _permuted(seed, _N_ROWS)
    numeric = (stored["num_T"] - _LOW) / (_HIGH - _LOW)
    wilderness, soil = np.eye(_N_WILDERNESS)[stored["wilderness"]], np.eye(_N_SOIL)[stored["soil"]]
    target = np.where(stored["y"] == 2, 1.0, -1.0)
    rows = np.hstack([numeric, wilderness, soil])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Covertype(rows[:n_train], target[:n_train], rows[n_train:], target[n_train:])


def load_covertype_table(n_train: int = 200_000, n_test: int = 50_000, seed: int = 1) -> Tables:
    """Load the raw columns, two of them categories, and the cover type, one of seven, as tables with a schema.

    Parameters
    ----------
    n_train, n_test : int
        Rows to fit and rows to test on.
    seed : int
        Of the permutation; the stored rows are ordered.

    Examples
    --------
    >>> load_covertype_table(n_train=1000, n_test=500).train.shape
    (1000, 13)
    """
    import pyarrow as pa

    if n_train < 1 or n_test < 1 or n_train + n_test > _N_ROWS:
        raise InvalidParameterError(f"n_train and n_test must be at least 1 and together at most {_N_ROWS}.")
    with as_file(files("dperm.datasets") / "covertype.toml") as path:
        schema = load_schema(path)
    stored = _permuted(seed, n_train + n_test)
    columns = [*stored["num_T"].T, stored["wilderness"], stored["soil"], stored["y"]]
    table = pa.table([pa.array(np.ascontiguousarray(column)) for column in columns], [*schema.columns, "cover"])
    return Tables(schema, table.slice(0, n_train), table.slice(n_train))


def _permuted(seed: int, n: int) -> dict[str, Any]:
    """What is stored, a row for every cell of the forest, in a random order."""
    with as_file(files("dperm.datasets") / "covertype.npz") as path, np.load(path) as stored:
        order = np.random.default_rng(seed).permutation(_N_ROWS)[:n]
        return {name: (stored[name].T if name == "num_T" else stored[name])[order] for name in stored.files}
