"""Steps that learn nothing from rows: tried out on synthetic ones, from which their width follows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from dperm.errors import InvalidParameterError
from dperm.pipelines.public_step import dense, quietly, rows_in, through
from dperm.validation import count

_MADE_UP_ROWS = 4


def made_up(X: Any) -> Any:
    """A few synthetic rows with the columns of a table: of it only the shape, the names and the types are used.

    Parameters
    ----------
    X : table
        Of numbers; a data frame may hold text.
    """
    rng = np.random.default_rng(0)
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        import pandas as pd  # anyone who has a data frame has it

        columns = {}
        for name, kind in zip(X.columns, X.dtypes, strict=True):
            columns[name] = rng.random(_MADE_UP_ROWS) if _is_number(kind) else [""] * _MADE_UP_ROWS
        return pd.DataFrame(columns, columns=list(X.columns))
    if getattr(X, "ndim", 2) != 2 or not hasattr(X, "shape"):
        return ["a"] * _MADE_UP_ROWS  # texts
    if getattr(X.dtype, "kind", "f") in "OUS":
        return np.full((_MADE_UP_ROWS, X.shape[1]), "", dtype=object)
    return rng.random((_MADE_UP_ROWS, X.shape[1]))


def form_of(rows: Any) -> Any:
    """What made-up rows look like, as plain data: names and whether each is a number; how many columns; or texts."""
    if isinstance(rows, list):
        return "texts"
    if hasattr(rows, "columns"):
        return [[str(name), _is_number(kind)] for name, kind in zip(rows.columns, rows.dtypes, strict=True)]
    return {"n_features": int(rows.shape[1]), "numbers": rows.dtype.kind not in "OUS"}


def rows_of_form(form: Any) -> Any:
    """Made-up rows of this form; raises if it is none."""
    if form == "texts":
        return made_up([])
    if isinstance(form, list):
        import pandas as pd

        return made_up(pd.DataFrame({name: pd.Series(dtype=float if number else object) for name, number in form}))
    if set(form) != {"n_features", "numbers"} or type(form["numbers"]) is not bool or form["n_features"] > 10**6:
        raise ValueError("rows")
    return made_up(np.empty((0, count("n_features", form["n_features"])), dtype=float if form["numbers"] else object))


def width_of(rows: Any) -> int:
    """How many columns synthetic rows have.

    Raises
    ------
    InvalidParameterError
        If they are texts, which only a vectorizer takes.
    """
    if np.ndim(rows) != 2:
        raise InvalidParameterError("Expected 2D array. Reshape your data: one row per person, one column per feature.")
    return int(np.shape(rows)[1])


def tried(name: str, step: Any, rows: Any) -> Any:
    """Fit a public step on synthetic rows, and give these back as it makes them.

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
    InvalidParameterError
        If the step makes other rows of several together than of each alone: then it looks at rows across the table.
    """
    if step is None or isinstance(step, str):
        return rows
    failure = None
    try:
        with quietly():
            out = step.fit(rows).transform(rows)
            dense(out)
            _, width = out.shape
    except Exception as error:  # its text is the step's own, and may hold anything that the step knows
        failure = type(error).__name__
    if failure is not None:
        raise InvalidParameterError(
            f"the step {name!r} fails on synthetic rows, which determine its width, with a {failure}: try it on "
            "synthetic rows."
        )
    with quietly():
        alike = all(_is_by_row(step, table, width, out) for table in (rows, *_harder(rows)))
    if not alike:
        raise InvalidParameterError(
            f"the step {name!r} does not map each row independently: it combines rows of the table, without noise."
        )
    return out


def _is_by_row(step: Any, rows: Any, width: int, like: Any) -> bool:
    """Whether a fitted step makes the same of synthetic rows together as of each alone."""
    try:
        if step.transform(rows).shape != (rows_in(rows), width):
            return False
    except Exception:  # at a row that it cannot take, which comes out as missing
        pass
    together = dense(through(step, rows, like))
    return all(
        np.allclose(one, dense(through(step, rows[place : place + 1], like))[0], rtol=1e-6, equal_nan=True)
        for place, one in enumerate(together)
    )


def _harder(rows: Any) -> Iterator[Any]:
    """Synthetic rows twice, the second time with values missing in some, or with other texts."""
    if isinstance(rows, list):  # texts
        yield from ([*rows, *rows[1:], text] for text in (None, "b"))
        return
    some, last = _MADE_UP_ROWS // 2, _MADE_UP_ROWS - 1
    if sparse.issparse(rows):
        gaps = sparse.csr_matrix(([np.nan] * 2, ([some, last], [0, rows.shape[1] - 1])), shape=rows.shape)
        yield sparse.vstack([rows, rows + gaps], format="csr")
        return
    named = hasattr(rows, "iloc")
    numbers = [_is_number(kind) for kind in (rows.dtypes if named else [rows.dtype] * rows.shape[1])]
    if all(numbers):  # of any kind: as floats they can be missing
        rows = type(rows)(dense(rows), columns=rows.columns) if named else dense(rows)
    for value in (np.nan, None, "b"):
        places = [place for place, number in enumerate(numbers) if number is isinstance(value, float)]
        if places:
            again = rows.copy()
            cells = again.iloc if named else again
            cells[some, places], cells[last, places[-1]] = value, value
            yield _one_below_the_other(rows, again)


def _one_below_the_other(rows: Any, more: Any) -> Any:
    if not hasattr(rows, "iloc"):
        return np.vstack([rows, more])
    import pandas as pd  # anyone who has a data frame has it

    return pd.concat([rows, more], ignore_index=True)


def _is_number(kind: Any) -> bool:
    """Whether a column of this type holds numbers. Categories may have been read from rows: only their type is used."""
    held = getattr(getattr(kind, "categories", None), "dtype", kind)
    return getattr(held, "kind", "O") in "fiub"
