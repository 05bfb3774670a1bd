"""Steps that learn nothing from rows: tried out on made-up ones, from which their width follows."""

from typing import Any

import numpy as np

from dperm.errors import InvalidParameter
from dperm.trusted.public_step import dense, quietly

_MADE_UP_ROWS = 4


def made_up(X: Any) -> Any:
    """A few made-up rows with the columns of a table: of it only the shape, the names and the types are used.

    Parameters
    ----------
    X : table
        Of numbers; a data frame may hold text.
    """
    rng = np.random.default_rng(0)
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        import pandas as pd  # whoever has a data frame has it

        columns = {}
        for name, kind in zip(X.columns, X.dtypes, strict=True):
            # Categories may have been read from rows: only their type is used.
            held = getattr(getattr(kind, "categories", None), "dtype", kind)
            numbers = getattr(held, "kind", "O") in "fiub"
            columns[name] = rng.random(_MADE_UP_ROWS) if numbers else [""] * _MADE_UP_ROWS
        return pd.DataFrame(columns, columns=list(X.columns))
    if getattr(X, "ndim", 2) != 2 or not hasattr(X, "shape"):
        return ["a"] * _MADE_UP_ROWS  # texts
    if getattr(X.dtype, "kind", "f") in "OUS":
        return np.full((_MADE_UP_ROWS, X.shape[1]), "", dtype=object)
    return rng.random((_MADE_UP_ROWS, X.shape[1]))


def width_of(rows: Any) -> int:
    """How many columns made-up rows have.

    Raises
    ------
    InvalidParameter
        If they are texts, which only a vectorizer takes.
    """
    if np.ndim(rows) != 2:
        raise InvalidParameter("Expected 2D array. Reshape your data: one row a person, one column a feature.")
    return int(np.shape(rows)[1])


def tried(name: str, step: Any, rows: Any) -> Any:
    """Fit a public step on made-up rows, and give these back as it makes them.

    Parameters
    ----------
    name : str
        Of the step, for messages.
    step : transformer
        Public, or `passthrough`.
    rows : table
        Made up.

    Raises
    ------
    InvalidParameter
        If the step makes other rows of several together than of each alone: then it looks at rows across the table.
    """
    if step is None or isinstance(step, str):
        return rows
    failure = None
    try:
        with quietly():
            out = step.fit(rows).transform(rows)
            alone = [dense(step.transform(rows[place : place + 1])) for place in range(_MADE_UP_ROWS)]
            together = dense(out)
    except Exception as error:  # its text is the step's own, and may hold anything that the step knows
        failure = type(error).__name__
    if failure is not None:
        raise InvalidParameter(
            f"the step {name!r} fails on made-up rows, of which its width is learned, with a {failure}: try it on rows "
            "of your own making."
        )
    same = together.shape[0] == _MADE_UP_ROWS and together.shape == np.vstack(alone).shape
    if not (same and np.allclose(together, np.vstack(alone), rtol=1e-6, equal_nan=True)):
        raise InvalidParameter(
            f"the step {name!r} makes something else of a row when others are there: it looks at rows across the "
            "table, without noise."
        )
    return out
