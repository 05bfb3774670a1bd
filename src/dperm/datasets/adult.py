"""Adult, a census extract of 1994 (notice: adult.NOTICE.txt), with its categories and missing values."""

import csv
import lzma
from importlib.resources import as_file, files
from typing import Any

from dperm.datasets.tables import Tables
from dperm.schema import load_schema

_FOLDER = files("dperm.datasets")
# The published files do not name their columns.
_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
_NUMBERS = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}


def load_adult() -> Tables:
    """Load the published training and test rows: whether a person's income is above 50 000 dollars.

    A missing value is written "?", as published. The dot that the test file writes after an income is removed.

    Returns
    -------
    Tables
        32 561 rows to fit, 16 281 to test on, and a schema of public ranges and categories.

    Examples
    --------
    >>> data = load_adult()
    >>> data.train.shape, data.test.shape
    ((32561, 15), (16281, 15))
    """
    with as_file(_FOLDER / "adult.toml") as path:
        schema = load_schema(path)
    return Tables(schema, _read("adult.data.xz"), _read("adult.test.xz"))


def _read(name: str) -> Any:
    import pyarrow as pa

    lines = lzma.decompress((_FOLDER / name).read_bytes()).decode("ascii").splitlines()
    # The test file begins with a line that is not a row, and both end with an empty one.
    rows = [row for row in csv.reader(lines, skipinitialspace=True) if len(row) == len(_COLUMNS)]
    columns: dict[str, Any] = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True))
    columns |= {name: [int(value) for value in columns[name]] for name in _NUMBERS}
    columns["income"] = [value.removesuffix(".") for value in columns["income"]]
    return pa.table({name: pa.array(values) for name, values in columns.items()})
