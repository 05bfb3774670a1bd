"""`private_evaluate`: from a public model and sensitive rows to a private evaluation."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dperm.errors import InvalidParameterError
from dperm.evaluation.design import Design
from dperm.evaluation.held_out import held_out
from dperm.evaluation.result import PrivateEvaluation
from dperm.evaluation.scores import parts_of
from dperm.files.content import content_of
from dperm.files.plan_data import plan_to_dict
from dperm.ledger import Budget
from dperm.models.base import PrivateEstimator
from dperm.models.classifier import check_classes
from dperm.models.units import Declared, declared_unit, protected_unit, split_groups, unit_parameters
from dperm.plan.transaction import Transaction, check_releasable, undeclared_n
from dperm.privacy.caveats import Caveat
from dperm.privacy.guarantee import Adjacency, Guarantee
from dperm.privacy.unit import PrivacyUnit
from dperm.rows.table import Table, taken
from dperm.schema import Amount
from dperm.validation import count, finite


def private_evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    delta: float = 0.0,
    adjacency: str = "replace_one",
    n: int | None = None,
    target: str | None = None,
    target_range: tuple[float, float] | None = None,
    error_bound: float | None = None,
    level: float = 0.95,
    unit: str | None = None,
    max_rows_per_unit: int | None = None,
    contribution: str | None = None,
    missing_units: str | None = None,
    groups: Any = None,
    budget: Budget | None = None,
    random_state: Any = None,
    save: Callable[[PrivateEvaluation], object] | None = None,
) -> PrivateEvaluation:
    """Evaluate a released model on sensitive rows, with (ε, δ)-differential privacy.

    Parameters
    ----------
    model : object
        A dperm estimator, a loaded model file, or anything with `predict`; `predict_proba` or `decision_function`
        are used if available. It must be released or public: the guarantee covers the rows it is evaluated on. An
        evaluation on the training table is a further release from it: charge it to the same budget.
    X : array, table, files or Dask data frame
        The rows: whatever `dperm.rows.Table` takes. Files (a path, a pattern with `*`, a folder, a list of paths, a
        pyarrow dataset) and Dask frames are read a few rows at a time; 10 to 24 bytes of every row are kept until the
        end.
    y : array, optional
        Targets. A model with a schema finds them in the table. Rows with a missing or undeclared target, or whose
        prediction is not finite, are dropped; so are rows with NaN if the model has no schema.
    epsilon, delta : float
        The guarantee. δ = 0 uses Laplace noise, the least for one evaluation; δ > 0 uses Gaussian noise, which
        composes better with other releases from the same rows (docs/evaluation.md).
    adjacency : {"replace_one", "add_remove"}
        Neighbouring relation: one record replaced, or one added/removed.
    n : int, optional
        The public number of rows, or of privacy units; required under add_remove, and with missing_units="ignore".
    target : str, optional
        The target column of files, for a model without a schema.
    target_range : (float, float), optional
        For a regression model without a declared range: targets and predictions are clipped to it.
    error_bound : float, optional
        For a regression model: absolute errors are clipped to it. By default half the range, which predicting its
        middle never exceeds. The noise grows with it.
        level : float
        Confidence level of the intervals.
    unit, max_rows_per_unit, contribution, missing_units
        The privacy unit, as in the estimators; by default that of the model or its schema. n and all metrics then refer
        to units: with "limit" all used rows count the same, with "average" all units do.
    groups : array of shape (rows,), optional
        The id of every row's unit, for a table in memory without a schema; by default the frame's column of that name.
        budget : Budget, optional
        The dataset's budget in a ledger. The evaluation is reserved there before a row is read.
    random_state : int, optional
        Seed. Makes the result reproducible, and not for release.
    save : callable, optional
        Called with the evaluation before the reservation is settled.

    Returns
    -------
    PrivateEvaluation
        Prints as a table with intervals and the statement.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLogisticRegression, private_evaluate
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40000, 2)) / 3; y = (X[:, 0] + rng.normal(size=40000) / 3 > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X[:20000], y[:20000])
    >>> found = private_evaluate(model, X[20000:], y[20000:], epsilon=0.5)
    >>> 0.7 < found.accuracy.value < 0.8
    True
    """
    guarantee, side = Guarantee(epsilon, delta), Adjacency.parse(adjacency)
    check_releasable(budget, random_state)
    if not 0.0 < finite("level", level) < 1.0:
        raise InvalidParameterError(f"level must lie strictly between 0 and 1, got {level!r}.")
    if n is None and side is Adjacency.ADD_REMOVE:
        raise InvalidParameterError("under add_remove the number of rows is private: declare a public n.")
    design = design_of(model, target_range, error_bound)
    own = isinstance(model, PrivateEstimator)
    declared = _declared(model, unit, max_rows_per_unit, contribution, missing_units)
    protected = protected_unit(declared)
    if n is None and undeclared_n(side, protected):
        raise InvalidParameterError("with missing_units='ignore' the number of units is private: declare a public n.")
    X = taken(X)
    if not isinstance(X, Table):
        X, groups = split_groups(declared, X, groups)
    rows = held_out(
        model, X, y, schema=declared.schema, classes=design.classes, target=target, takes_anything=own,
        unit=protected, groups=groups,
    )  # fmt: skip
    public_n = count("n", rows.n_units if n is None else n)
    plan = design.plan(public_n, guarantee, side, protected)
    caveats = (Caveat.MODEL_NOT_FOR_RELEASE,) if own and model.privacy_.caveats else ()
    parts = parts_of(lambda: rows.predicted(model, design.kind, design.classes), design.terms(plan))
    with Transaction(plan, budget, random_state, found=rows.n_units, unit=protected) as transaction:
        released = plan.answer(transaction, parts, rows.membership, caveats)
        found = PrivateEvaluation(
            design, released.answers, released.deviations, released.statement, float(level),
            event_=released.event,
            model=model.title if own else type(model).__name__,
            model_fingerprint=content_of(model)["fingerprint"] if own and model.plan_ is not None else None,
            ledger_entry_=transaction.ledger_entry,
            plan_=plan_to_dict(plan),
        )  # fmt: skip
        transaction.write(found, lambda: str(found.to_dict()["fingerprint"]), save)
    return found


def _declared(
    model: Any, name: str | None, max_rows: int | None, contribution: str | None, missing: str | None
) -> Declared:  # fmt: skip
    """The model's schema and the unit: what the caller says of it, else what the model declares."""
    schema = model.schema_ if isinstance(model, PrivateEstimator) else None
    # Of searches and pipelines as well.
    own = getattr(getattr(model, "privacy_", None), "unit", None) if schema is None else schema.unit
    if own is not None and name in (None, own.name):
        said = {"max_rows": max_rows, "contribution": contribution, "missing": missing}
        unit: PrivacyUnit | None = replace(own, **{key: value for key, value in said.items() if value is not None})
    else:
        unit = declared_unit(Declared(name, max_rows, contribution or "limit", missing or "separate"))
    return Declared(**unit_parameters(unit), schema=None if schema is None else replace(schema, unit=unit))


def design_of(model: Any, target_range: tuple[float, float] | None, error_bound: float | None) -> Design:
    """What can be counted of a model, from what it has; parameters as of `private_evaluate`."""
    own = isinstance(model, PrivateEstimator)
    if own:
        check_is_fitted(model, "privacy_")
    elif isinstance(model, str | Path):
        raise InvalidParameterError("this is a string, not a model; if it is a path, load it with dperm.load_model.")
    elif isinstance(model, BaseEstimator) and hasattr(model, "fit"):
        check_is_fitted(model)
    if not hasattr(model, "predict"):
        raise InvalidParameterError(f"a model must have predict; {type(model).__name__} has not.")
    if hasattr(model, "classes_"):
        if target_range is not None or error_bound is not None:
            raise InvalidParameterError("target_range and error_bound are for regression models; this one has classes.")
        kinds = {"probability": "predict_proba", "score": "decision_function"}
        kind = next((kind for kind, method in kinds.items() if hasattr(model, method)), "label")
        return Design(kind, check_classes(model.classes_))
    declared = _declared_range(model) if own else None
    if declared is not None and target_range is not None:
        raise InvalidParameterError("target_range cannot be combined with a model that declares it.")
    found = declared if target_range is None else target_range
    if found is None:
        raise InvalidParameterError("declare target_range=(low, high), as public numbers.")
    try:
        low, high = (float(end) for end in found)
    except (TypeError, ValueError):
        raise InvalidParameterError("target_range must be (low, high) with low < high.") from None
    return Design("number", None, (low, high), (high - low) / 2.0 if error_bound is None else error_bound)


def _declared_range(model: PrivateEstimator) -> tuple[float, float] | None:
    """Of the target, in its own units."""
    if model.schema_ is not None and isinstance(model.schema_.target, Amount):
        return model.schema_.target.number.bounds
    found = model.privacy_.target_range
    return None if found is None else (float(found[0]), float(found[1]))
