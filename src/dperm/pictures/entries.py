"""What the coefficients of a linear model belong to, in words: scores, columns and the entries of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dperm.errors import InvalidParameterError
from dperm.files.content import column_names
from dperm.schema import Schema

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """The entries of one column of the schema, or of all columns where there is none.

    Attributes
    ----------
    title : str
        The column's name, empty where its one entry has that name.
    labels : tuple of str
        Short names of its entries.
    first : int
        The index of the first among all coefficients.
    """

    title: str
    labels: tuple[str, ...]
    first: int


def coefficients_of(model: Any) -> Array:
    """The released coefficients of a fitted linear model, one row per score; raises for any other model."""
    check_is_fitted(model, "privacy_")
    if not hasattr(model, "coef_"):
        raise InvalidParameterError(
            f"a {model.title} has no coefficients to plot: single weights of a network have no meaning."
        )
    return np.atleast_2d(model.coef_)


def score_titles(model: Any) -> list[tuple[str, str]]:
    """What every row of coefficients predicts, and a sentence that says how."""
    if not hasattr(model, "classes_"):
        target = "the target" if model.schema_ is None else model.schema_.target.column
        return [(target, model.prediction)]
    if len(model.classes_) == 2:
        low, high = map(str, model.classes_)
        return [(high, f"A positive coefficient speaks for {high}, a negative one for {low}.")]
    rule = "A positive coefficient speaks for {}. The class with the highest score is predicted."
    return [(label, rule.format(label)) for label in map(str, model.classes_)]


def groups(model: Any) -> list[Group]:
    """All coefficients in their order, the entries of a column of the schema together."""
    found, first = [], 0
    for title, labels in _labels(model.schema_, column_names(model)):
        found.append(Group(title, tuple(labels), first))
        first += len(labels)
    return found


def _labels(schema: Schema | None, names: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Title of every group, empty where a column has one entry, and short names of its entries."""
    if schema is None:
        yield "", names
        return
    for key, column in schema.columns.items():
        entries = column.column_names(key)
        yield ("", [key]) if len(entries) == 1 and entries[0] == key else (key, [_short(key, name) for name in entries])
    for cross in schema.crosses:
        yield (
            " × ".join(cross.columns),
            [name.replace(" [", ": level ").replace("]", "") for name in cross.column_names()],
        )


def _short(key: str, name: str) -> str:
    """The entry's name without that of its column.

    Examples
    --------
    >>> _short("smokes", "smokes = no"), _short("smokes", "smokes: missing"), _short("gain", "gain < 1")
    ('no', '(missing)', 'gain < 1')
    >>> _short("age", "age at 17")
    'at 17'
    """
    if name == key:
        return "(value)"
    if name.startswith(f"{key} = "):
        return name.removeprefix(f"{key} = ")
    if name.startswith(f"{key} at "):
        return name.removeprefix(f"{key} ")
    return f"({name.removeprefix(f'{key}: ')})" if name.startswith(f"{key}: ") else name
