"""Exact diagnostics of a fit for the data holder: its rows, and what the noise did to it.

Nothing here adds noise. Never publish what it returns about sensitive rows, nor anything chosen by looking at it.
"""

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from dperm.errors import InvalidParameterError
from dperm.kernel.block import Block, as_table
from dperm.kernel.source import LocalSource, Source
from dperm.models.linear import PrivateGLM
from dperm.models.units import schema_with_unit, split_groups
from dperm.models.weights import check_given
from dperm.printable import one_line
from dperm.privacy.unit import PrivacyUnit
from dperm.problem import Problem
from dperm.problem.regularizers import NoRegularizer
from dperm.rows.columns import Columns, as_numbers, as_words
from dperm.rows.encoding import target_numbers
from dperm.rows.ids import membership_of, membership_of_array
from dperm.rows.labels import numeric_target, one_by_one, read_table, read_target
from dperm.rows.table import in_memory
from dperm.schema import Amount, Category, Number, Schema
from dperm.unsafe import risk_over

Array = NDArray[np.float64]

# A row that is divided by more than this was clipped; below it is the room that is left for rounding.
_UNCLIPPED = 1.0 + 1e-6
# This many columns are named in one line.
_NAMED = 8
# The constant decides almost alone where this many rows get the same class, and the exact model tells more apart.
_NEARLY_ALL = 0.99


@dataclass(frozen=True)
class UnitFacts:
    """How the rows of units were used: NOT FOR RELEASE.

    Attributes
    ----------
    unit : PrivacyUnit
        Whose rows are protected together.
    n : int
        How many units there are.
    rows_without_id : int
        Rows that do not say whose they are.
    rows_beyond : int
        Rows that are not used because their unit has more than max_rows.
    mean_weight : float
        What all rows of a unit weigh together, in the mean: at most 1 without weights of rows.
    """

    unit: PrivacyUnit
    n: int
    rows_without_id: int
    rows_beyond: int
    mean_weight: float

    def __str__(self) -> str:
        """One line."""
        fate = "each one of its own" if self.unit.missing == "separate" else "ignored"
        without = f"rows without a usable {self.unit.name}: {self.rows_without_id}, {fate}"
        parts = [self.unit.numbered(self.n), without if self.rows_without_id else "every row has an id"]
        if self.unit.max_rows is not None:
            parts.append(f"rows beyond max_rows, not used: {self.rows_beyond}")
        parts.append(f"one {self.unit.word} weighs {self.mean_weight:.3g} in the mean, by which losses are divided")
        return one_line(f"units:      {'; '.join(parts)}")


@dataclass(frozen=True)
class Diagnosis:
    """Exact facts about rows and a model: NOT FOR RELEASE. It prints as a short block.

    Attributes
    ----------
    n_rows : int
        Rows.
    ignored_values, ignored_targets : float
        Share of the rows that were ignored because of a value that is not finite (with a schema: one that is missing
        under the policy "row"), and because the target is none of the declared classes or no number.
    clipped : float
        Share of the rows that were scaled down to the declared bound.
    median_factor, largest_factor : float
        How many times too long those are; 1 if there are none.
    outside : float or None
        Share of the targets outside their declared range; None for classes.
    farthest : float
        How far outside the farthest is, in multiples of the range's width.
    columns : dict of str to tuple of str
        Columns that are "always the same", "always missing", or mostly "outside their range" or "unseen".
    risk, exact_risk, constant_risk : float
        The mean loss, without the penalty, of the released model, of the one that the same fit finds without noise on
        these rows, and of the best constant predictor. With a unit it is divided by what a unit weighs in the mean.
    score, exact_score : float
        What `score` says of the two on the rows that count: accuracy, R² or D²; NaN if no row counts.
    majority : float or None
        Share of the most frequent class among the rows that count.
    one_class, exact_one_class : float or None
        Share of the rows that get the most frequent prediction, by the two models.
    units : UnitFacts or None
        How the rows of units were used; None for single rows.
    """

    n_rows: int
    ignored_values: float
    ignored_targets: float
    clipped: float
    median_factor: float
    largest_factor: float
    outside: float | None
    farthest: float
    columns: dict[str, tuple[str, ...]]
    risk: float
    exact_risk: float
    constant_risk: float
    score: float
    exact_score: float
    majority: float | None
    one_class: float | None
    exact_one_class: float | None
    has_schema: bool
    units: UnitFacts | None = None

    @property
    def excess_risk(self) -> float:
        """What the noise added to the mean loss on these rows; below 0 if it undid some of what the penalty costs."""
        return self.risk - self.exact_risk

    @property
    def intercept_decides(self) -> bool:
        """Whether the constant decides nearly every prediction, while without noise it does not."""
        if self.one_class is None or self.exact_one_class is None:
            return False
        return self.one_class >= _NEARLY_ALL > self.exact_one_class

    def __str__(self) -> str:
        """A short block that says of itself that it must not be published."""
        why = "a value that is missing under the policy row" if self.has_schema else "NaN/inf"
        no_target = "no number as a target" if self.majority is None else "an undeclared label"
        lines = [
            "NOT FOR RELEASE: exact facts about these rows, without noise, for the data holder",
            f"rows:       {self.n_rows}; dropped: {_percent(self.ignored_values)} with {why}, "
            f"{_percent(self.ignored_targets)} with {no_target}",
            f"clipped:    {_percent(self.clipped)} of the rows"
            + (
                f", in the median {self.median_factor:.3g} times as long as the bound, at most "
                f"{self.largest_factor:.3g} times"
                if self.clipped > 0.0
                else ""
            ),
        ]
        if self.units is not None:
            lines.insert(2, str(self.units))
        if self.outside is not None:
            far = f", the farthest by {self.farthest:.3g} times its width" if self.outside > 0.0 else ""
            lines.append(f"targets:    {_percent(self.outside)} outside the declared range{far}")
        lines += [f"columns:    {_names(names)}: {state}" for state, names in self.columns.items()]
        lines.append(
            f"noise:      {'lowered' if self.excess_risk < 0.0 else 'raised'} the loss by {abs(self.excess_risk):.3g}: "
            f"{self.risk:.4g} instead of {self.exact_risk:.4g}; a constant predictor has {self.constant_risk:.4g}"
        )
        most_frequent = "" if self.majority is None else f"; the most frequent class has {self.majority:.3f}"
        label = "score:      " if self.majority is None else "accuracy:   "
        lines.append(f"{label}{self.score:.3f}, and {self.exact_score:.3f} without noise{most_frequent}")
        if self.intercept_decides:
            lines.append(
                f"intercept:  decides almost alone: {_percent(self.one_class or 0.0)} of the rows get the same class, "
                f"{_percent(self.exact_one_class or 0.0)} without noise"
            )
        return "\n".join(lines)


def diagnose(
    model: PrivateGLM, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
) -> Diagnosis:  # fmt: skip
    """Compare a fitted model with the rows it was fitted on. Nothing is charged, and nothing may be published.

    Parameters
    ----------
    model : estimator
        A fitted or loaded one.
    X, y, sample_weight, groups
        What its `fit` takes. Files and Dask frames are read into memory.

    Notes
    -----
    All numbers are exact, hence not differentially private. The exact minimiser is found by the same fit without noise.
    """
    again = _as_fitted(model)
    schema = schema_with_unit(again)
    X = in_memory(X, () if schema is None else (schema,))
    check_given(again, X, sample_weight)
    X, groups = split_groups(again, X, groups)
    source, options, facts = again._read(X, y, again.options(), sample_weight, groups)
    width = np.atleast_2d(model.coef_).shape[1]
    if source.n_features != width:
        raise InvalidParameterError(f"the model has {width} columns, and the table has {source.n_features}.")
    # The same fit without noise.
    plan = replace(options, guarantee=None, adjacency="replace_one").plan(source._n_units, source.n_features)
    problem, exact = plan.problem, plan.run(source, row_warnings=False)
    again._keep(exact, problem, facts)
    w, blocks = _coefficients(model, problem), _blocks(source, problem)
    counted, unweighted = np.concatenate([block.weight > 0.0 for block in blocks]), blocks
    if sample_weight is not None or source.unit is not None:  # a row of weight 0 need not have a bad target
        alone = replace(
            options, unit=None, schema=None if options.schema is None else replace(options.schema, unit=None)
        )
        unweighted = _blocks(again._read(X, y, alone)[0], problem)
    usable = np.concatenate([block.weight > 0.0 for block in unweighted])
    factors = 1.0 / np.concatenate([block.scale for block in blocks])[counted]
    factors = factors[factors > _UNCLIPPED]
    bad_values = sum(block.facts.n_bad_values for block in unweighted if block.facts is not None)
    target = np.concatenate([block.target for block in blocks])[counted]
    outside, farthest = _outside(model, X, y, problem)
    units = None if source.unit is None else _units(source, blocks, X, groups, options.schema)
    # Rows that are not used weigh nothing, but the mean is over all units.
    weight = 1.0 if units is None or units.mean_weight == 0.0 else units.mean_weight
    # A constant predictor has no penalty, so the losses beside its own have none either.
    bare = replace(problem, regularizer=NoRegularizer(), start_point=None)
    has_classes = hasattr(model, "classes_")
    with np.errstate(invalid="ignore"):
        predicted, exactly = (np.asarray(one.predict(X))[counted] for one in (model, again))
    return Diagnosis(
        n_rows=source._n_rows,
        ignored_values=bad_values / source._n_rows,
        ignored_targets=(np.count_nonzero(~usable) - bad_values) / source._n_rows,
        clipped=factors.size / source._n_rows,
        median_factor=float(np.median(factors)) if factors.size else 1.0,
        largest_factor=float(factors.max()) if factors.size else 1.0,
        outside=outside,
        farthest=farthest,
        columns=_columns(model, X),
        risk=risk_over(source, bare, w) / weight,
        exact_risk=risk_over(source, bare, exact.w) / weight,
        constant_risk=_constant_risk(source, bare, blocks) / weight,
        score=_score(model, X, y, counted),
        exact_score=_score(again, X, y, counted),
        majority=_largest_share(target) if has_classes else None,
        one_class=_largest_share(predicted) if has_classes else None,
        exact_one_class=_largest_share(exactly) if has_classes else None,
        has_schema=model.schema_ is not None,
        units=units,
    )


def _units(source: Source, blocks: list[Block], X: Any, groups: Any, schema: Schema | None) -> UnitFacts:
    unit = source.unit
    assert unit is not None
    named = replace(unit, missing="ignore")  # rows without an id are of no unit
    found = (
        membership_of_array(groups, source._n_rows, named)
        if schema is None
        else membership_of(X, replace(schema, unit=named))
    )
    assert found is not None
    rows = np.bincount(found.numbers[found.numbers >= 0], minlength=1)  # of every unit
    return UnitFacts(
        unit=unit,
        n=source._n_units,
        rows_without_id=int(np.count_nonzero(found.numbers < 0)),
        rows_beyond=0 if unit.max_rows is None else int(np.maximum(rows - unit.max_rows, 0).sum()),
        mean_weight=sum(float(block.weight.sum()) for block in blocks) / source._n_units,
    )


def _blocks(source: Source, problem: Problem) -> list[Block]:
    return list(source._blocks(problem)) if isinstance(source, LocalSource) else []


def _as_fitted(model: PrivateGLM) -> PrivateGLM:
    """The estimator that was fitted, without what belongs to one release; a loaded model has it in its file."""
    schema, more = model.schema_, model.parameters_of_fit()
    more |= {"schema": None if schema is None else replace(schema, n=None), "n": None, "budget": None}
    more |= {"noise": None, "solver": "auto", "accountant": "pld", "random_state": None, "start": None}
    again: PrivateGLM = clone(model).set_params(**more)
    return again


def _coefficients(model: PrivateGLM, problem: Problem) -> Array:
    """The released coefficients as the loss sees them."""
    matrix, intercepts = (np.array(part, dtype=np.float64) for part in model._loss_coefficients())
    if problem.intercept:
        matrix = np.column_stack([matrix, intercepts / problem.intercept_value])
    return np.asarray(matrix.ravel())


def _constant_risk(source: Source, problem: Problem, blocks: list[Block]) -> float:
    """The least mean loss of a constant predictor: the mean, or the share of every class."""
    problem = replace(problem, intercept=problem.intercept or True)
    scores = np.zeros((problem.loss.n_outputs, source.n_features + 1))
    direction, reach = np.ones(len(scores)), 15.0
    if len(scores) > 1:
        target, weight = (np.concatenate([getattr(block, part) for block in blocks]) for part in ("target", "weight"))
        shares = np.bincount(target[weight > 0.0].astype(np.intp), weight[weight > 0.0], len(scores))
        direction = np.log(np.maximum(shares, 1e-9) / max(shares.sum(), 1e-9))
    elif problem.loss.clipped_range is not None:
        reach = max(reach, *map(abs, problem.loss.clipped_range))

    def risk(length: float) -> float:
        scores[:, -1] = length * direction / problem.intercept_value
        return risk_over(source, problem, scores.ravel())

    return float(minimize_scalar(risk, bounds=(-reach, reach), method="bounded").fun)


def _score(model: PrivateGLM, X: Any, y: Any, counted: NDArray[np.bool_]) -> float:
    """The score on the rows that count."""
    if not counted.any():
        return float("nan")
    if model.schema_ is not None:
        return float(model.score(X, y))
    table, target = read_table(model, X, fitting=False), read_target(model, y, counted.size)
    if not hasattr(model, "classes_"):
        target = numeric_target(target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table has lost the names of its columns
        return float(model.score(table[counted], target[counted]))


def _outside(model: PrivateGLM, X: Any, y: Any, problem: Problem) -> tuple[float | None, float]:
    """Share of the targets outside their range, and how far the farthest is, in widths; None for classes."""
    bounds, schema = problem.loss.clipped_range, model.schema_
    if bounds is None:
        return None, 0.0
    if schema is None:
        numbers = np.asarray(numeric_target(np.asarray(one_by_one(y))), dtype=np.float64)
    else:
        numbers = target_numbers(X, y, schema)
        bounds = schema.target.number.bounds if isinstance(schema.target, Amount) else bounds
    numbers = numbers[np.isfinite(numbers)]
    beyond = np.maximum(bounds[0] - numbers, numbers - bounds[1])
    share = float(np.mean(beyond > 0.0)) if beyond.size else 0.0
    return share, float(beyond.max(initial=0.0)) / (bounds[1] - bounds[0])


def _columns(model: PrivateGLM, X: Any) -> dict[str, tuple[str, ...]]:
    """Columns that tell rows apart badly or not at all, by what is wrong with them."""
    if model.schema_ is not None:
        states = _columns_of_table(Columns(X), model.schema_)
    else:
        table = as_table(read_table(model, X, fitting=False))
        names = getattr(model, "feature_names_in_", range(table.shape[1]))
        states = dict(zip(map(str, names), _states(table), strict=True))
    kinds = dict.fromkeys(state for state in states.values() if state)
    return {kind: tuple(name for name, state in states.items() if state == kind) for kind in kinds}


def _states(table: Any) -> list[str]:
    """What is wrong with every column of numbers, "" for nothing."""
    columns = table.tocsc() if sparse.issparse(table) else table
    states = []
    for place in range(table.shape[1]):
        column = columns[:, [place]].toarray().ravel() if sparse.issparse(table) else columns[:, place]
        states.append(_state_of(np.asarray(column, dtype=np.float64)))
    return states


def _state_of(numbers: Array, bounds: tuple[float, float] | None = None) -> str:
    known = numbers[np.isfinite(numbers)]
    if not known.size:
        return "always missing"
    if bounds is not None and np.mean((known < bounds[0]) | (known > bounds[1])) > 0.5:
        return "mostly outside the declared range"
    return "always the same" if known.min() == known.max() else ""


def _columns_of_table(columns: Columns, schema: Schema) -> dict[str, str]:
    states = {}
    for name, rule in schema.columns.items():
        if isinstance(rule, Category):
            codes, words = as_words(columns.arrow(name), name)
            known = np.isin(codes, [code for code, word in enumerate(words) if word in rule.positions])
            states[name] = (
                "always missing or unseen" if not known.any()
                else "mostly missing or unseen" if np.mean(known) < 0.5
                else "always the same" if len(set(codes.tolist())) == 1
                else ""
            )  # fmt: skip
        else:
            numbers = as_numbers(columns.arrow(name), name, schema.missing)
            states[name] = _state_of(numbers, rule.bounds if isinstance(rule, Number) else None)
    return states


def _largest_share(values: NDArray[Any]) -> float:
    return max(Counter(values.tolist()).values(), default=0) / max(values.size, 1)


def _percent(share: float) -> str:
    return "none" if share == 0.0 else f"{100.0 * share:.3g} %"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(one_line(name) for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
