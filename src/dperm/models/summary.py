"""Intervals of a linear model's coefficients, and the table that `summary` prints."""

import math
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from dperm.errors import InvalidParameterError
from dperm.files.content import column_names
from dperm.files.plan_data import own_part, solver_from
from dperm.printable import one_line
from dperm.privacy.caveats import in_words
from dperm.privacy.unit import counted

Array = NDArray[np.float64]

_HOW = (
    "refit with intervals=True (dperm fit --intervals 0.5): the same ε then covers the coefficients and their intervals"
)


class Intervals(NamedTuple):
    """One row per coefficient, the intercept last.

    Attributes
    ----------
    names : tuple of str
        Whose.
    estimate : array
        What the interval is around: the coefficient without the pull of the penalty and of the solver.
    standard_error : array
        Of the estimate, by sampling and by noise; infinite where noise hides it.
    lower, upper : arrays
        Both ends; infinite where noise hides the coefficient.
    """

    names: tuple[str, ...]
    estimate: Array
    standard_error: Array
    lower: Array
    upper: Array


def intervals_of(model: Any, level: float) -> Intervals:
    """The intervals of a fitted model.

    Parameters
    ----------
    model : PrivateGLM
        A fitted one.
    level : float
        The share of intervals that are to hold the true coefficient.
    """
    known = model.uncertainty_
    if known is None:
        raise InvalidParameterError(f"this fit has no intervals; {_HOW}.")
    lower, upper = known.intervals(level)
    estimate, error = known.estimates()
    units = model._to_own_units(np.stack([estimate, lower, upper, np.zeros(estimate.size), np.ones(estimate.size)]))
    names = (*column_names(model), *(("intercept",) if known.constant else ()))
    return Intervals(names, units[0], error * (units[4] - units[3]), units[1], units[2])


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """The coefficients of a fitted model as a table: `print` it, or let a notebook show it.

    Attributes
    ----------
    title : str
        What was fitted.
    header : tuple of (str, str)
        Facts about the fit.
    columns : tuple of str
        Heads of the table's columns.
    names : tuple of str
        Names of its rows.
    rows : list of lists of float
        Its numbers.
    notes : tuple of str
        What they mean.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLinearRegression
    >>> X = np.random.default_rng(0).uniform(-0.5, 0.5, size=(5000, 1))
    >>> PrivateLinearRegression(1.0, 1e-6, row_norm=1.0).fit(X, 0.5 * X[:, 0]).summary().names
    ('x0', 'intercept')
    """

    title: str
    header: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    rows: list[list[float]]
    notes: tuple[str, ...]

    def to_frame(self) -> Any:
        """The table as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(self.rows, index=list(self.names), columns=list(self.columns))

    def __repr__(self) -> str:
        """The table, where a prompt shows it."""
        return str(self)

    def __str__(self) -> str:
        """As statsmodels prints one."""
        cells = [[_cell(value, head) for value, head in zip(row, self.columns, strict=True)] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(self.columns, *cells, strict=True)]
        names = [one_line(name) for name in self.names]
        first = max(map(len, names))
        lines = [
            f"{name:<{first}}  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
            for name, row in zip(names, cells, strict=True)
        ]
        head = " " * (first + 2) + "  ".join(
            f"{head:>{width}}" for head, width in zip(self.columns, widths, strict=True)
        )
        width = max(len(head), *(len(line) for line in lines))
        facts = [f"{name + ':':<12}{one_line(text)}" for name, text in self.header]
        body = ["=" * width, head, "-" * width, *lines, "=" * width]
        return "\n".join([f"{self.title:^{width}}".rstrip(), *facts, *body, *self.notes])

    def _repr_html_(self) -> str:
        """For notebooks."""
        facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self.header)
        head = "".join(f"<th>{escape(text)}</th>" for text in ("", *self.columns))
        rows = "".join(
            f"<tr><th>{escape(name)}</th>"
            + "".join(f"<td>{_cell(value, head)}</td>" for value, head in zip(row, self.columns, strict=True))
            + "</tr>"
            for name, row in zip(self.names, self.rows, strict=True)
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return f"<table><caption>{escape(self.title)}</caption><tbody>{facts}</tbody></table>{table}{notes}"


def summary_of(model: Any, level: float) -> Summary:
    """The summary of a fitted linear model.

    Parameters
    ----------
    model : PrivateGLM
        A fitted one.
    level : float
        Of the intervals.
    """
    title = f"Private {model.title}"
    if model.uncertainty_ is None:
        return _without_intervals(model, title)
    found = intervals_of(model, level)
    coef = np.append(np.ravel(model.coef_), np.ravel(model.intercept_))[: len(found.names)]
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(found.standard_error > 0.0, found.estimate / found.standard_error, np.nan)
    columns = (coef, found.estimate, found.standard_error, z, 2.0 * norm.sf(np.abs(z)), found.lower, found.upper)
    low, high = f"[{(1.0 - level) / 2.0:.5g}", f"{(1.0 + level) / 2.0:.5g}]"
    notes = [
        f"The intervals cover sampling and privacy noise, at {100 * level:g} %.",
        "coef is what predicts. estimate is the same without the pull of the penalty and of the solver: the interval "
        "is around it.",
    ]
    if model.uncertainty_.groups:
        notes.append(
            "Levels of a category are given relative to their mean in estimate and interval: they add up to 0."
        )
    n_hidden = int(np.isinf(found.upper).sum())
    if n_hidden:
        notes.append(
            f"Noise hides {n_hidden} of {len(found.names)} coefficients: their intervals are infinite. More rows, a "
            "larger ε or fewer columns would help."
        )
    return Summary(
        title, _header(model), ("coef", "estimate", "std err", "z", "P>|z|", low, high), found.names,
        np.stack(columns, axis=1).tolist(), tuple(notes),
    )  # fmt: skip


def _without_intervals(model: Any, title: str) -> Summary:
    """Coefficients and, where it is known, how far noise moves one."""
    coef, intercepts = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    labels = [f"{label}: " for label in model.classes_] if len(coef) > 1 else [""]
    names = [f"{label}{name}" for label in labels for name in (*column_names(model), "intercept")]
    values = np.column_stack([coef, intercepts]).reshape(-1)
    noise = model.privacy_.coefficient_noise
    unit = model.privacy_.unit
    why = _HOW if unit is None else f"rows of one {unit.word} are not independent"
    if not hasattr(model, "intervals"):
        why = f"none are known for a {model.title}"
    notes = [f"There are no intervals: {why}."]
    if noise is None:
        rows, columns = values[:, None], ["coef"]
        notes.insert(0, "No bound on the noise of a single coefficient is known for this solver.")
    else:
        # The bound is for the columns' coefficients; the intercept is that of the constant column times its value.
        bounds = np.tile(np.append(np.full(coef.shape[1], noise), np.nan), len(coef))
        rows, columns = np.column_stack([values, bounds]), ["coef", "noise ≤"]
        notes.insert(0, "noise is a bound on the standard deviation that privacy noise gives a coefficient.")
    return Summary(title, _header(model), tuple(columns), tuple(names), rows.tolist(), tuple(notes))


def _header(model: Any) -> tuple[tuple[str, str], ...]:
    statement, _, note = model.promised
    promise = "nothing: the run had no noise (ε = ∞)"
    if not math.isinf(statement.epsilon):
        promise = f"ε = {statement.epsilon:g}, δ = {statement.delta:g}, adjacency {statement.adjacency}"
        promise += "" if statement.unit is None else f", unit: {statement.unit.described}"
        promise += f", {note}" if note else ""
    solver = "" if model.plan_ is None else solver_from(own_part(model)).name
    facts = [
        (counted(statement.unit), f"n = {statement.n}"),
        ("promised", promise),
        ("solver", solver or model.privacy_.mechanism),
    ]
    if hasattr(model, "predicts"):
        facts.append(("predicts", model.predicts))
    if statement.caveats:
        facts.append(("release", f"NOT FOR RELEASE: {in_words(statement.caveats)}"))
    return tuple(facts)


def _cell(value: float, head: str) -> str:
    """A number in about four digits; p-values have three after the point, and NaN is nothing known."""
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0.0 else "−∞"
    if head in ("z", "P>|z|"):
        return f"{value:.3f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")
