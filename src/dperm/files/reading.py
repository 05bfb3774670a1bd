"""What the contents of a file describe: models, evaluations, transformers, pipelines and counts of rows per unit."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from dperm import transformers
from dperm.evaluation.result import KIND as EVALUATION
from dperm.evaluation.result import PrivateEvaluation
from dperm.files.content import HEAD, column_names
from dperm.files.described import NotImportedError, class_named, import_modules_of
from dperm.files.plan_data import own_part, part_from, plan_from
from dperm.files.search_record import SearchRecord
from dperm.models.base import PrivateEstimator
from dperm.models.registry import models
from dperm.models.steps import step_from_dict
from dperm.models.units import unit_parameters
from dperm.pipelines.pipeline import KIND as PIPELINE
from dperm.pipelines.pipeline import PrivatePipeline
from dperm.pipelines.public_steps import made_up, rows_of_form, tried, width_of
from dperm.plan.rows_per_unit import KIND as ROWS_PER_UNIT
from dperm.plan.rows_per_unit import RowsPerUnit
from dperm.plan.uncertainty import Uncertainty
from dperm.privacy.guarantee import Adjacency
from dperm.privacy.statement import FitStatement, PrivacyStatement, check_classes
from dperm.privacy.unit import PrivacyUnit
from dperm.schema import schema_from_dict
from dperm.transformers.base import PrivateTransformer

_MODEL = frozenset(
    (*HEAD, "kind", "columns", "coef", "intercept", "weights", "classes", "schema", "privacy", "parameters",
     "uncertainty", "plan", "search", "ledger", "fingerprint")
)  # fmt: skip
_TRANSFORMER = frozenset(
    (*HEAD, "kind", "columns", "n_features", "parameters", "released", "privacy", "plan", "ledger", "fingerprint")
)
_PIPELINE = frozenset((*HEAD, "kind", "rows", "steps", "privacy", "plan", "ledger", "fingerprint"))

# What contents that do not fit together may raise.
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError)


def release_from(content: dict[str, Any]) -> Any:
    """What a file's contents describe, an estimator for instance; None if they do not fit together.

    Parameters
    ----------
    content : dict
        What `model_file.read_content` returned.

    Raises
    ------
    NotImportedError
        If they name a class that is not dperm's, and not imported.
    """
    try:
        _check_head(content)
        with np.errstate(all="ignore"):
            return _reader(content["kind"])(content)
    except NotImportedError:
        raise
    except _DAMAGED:
        return None


def _reader(kind: str) -> Callable[[dict[str, Any]], Any]:
    """What reads a file of this kind."""
    known: dict[str, Callable[[dict[str, Any]], Any]] = {
        EVALUATION: PrivateEvaluation.from_dict, PIPELINE: _pipeline_from, ROWS_PER_UNIT: RowsPerUnit.from_dict,
    }  # fmt: skip
    if kind in known:
        return known[kind]
    if kind in models():
        return model_from
    try:
        _transformer_class(kind)
    except (ValueError, NotImportedError):
        return model_from  # a user's own, or none at all
    return _transformer_from


def _check_head(content: dict[str, Any]) -> None:
    """Raise unless the head of the file and the entry of a ledger have the right types."""
    entry = content["ledger"]
    if entry is not None:
        types = {key: type(entry[key]) for key in entry}
        if types != {"dataset": str, "number": int, "digest": str, "fixed_in_advance": bool}:
            raise TypeError("ledger")
    if not is_library(content["library"]) or not isinstance(content["plan"], dict):
        raise TypeError("library")
    if not isinstance(content["kind"], str):
        raise TypeError("kind")


def is_library(text: object) -> bool:
    """Whether it names a version of dperm."""
    return isinstance(text, str) and re.fullmatch(r"dperm \d+\.\d+\.\d+[\w.+]{0,40}", text, re.ASCII) is not None


def promise_of(content: dict[str, Any]) -> tuple[Adjacency, PrivacyUnit | None]:
    """What a file says of adjacency and privacy unit, as its plan rests on them."""
    unit = content["privacy"].get("unit")
    if content["kind"] == ROWS_PER_UNIT:  # every unit is one line of what is counted
        unit = None
    return Adjacency.parse(content["privacy"]["adjacency"]), None if unit is None else PrivacyUnit.from_dict(unit)


def model_from(content: dict[str, Any]) -> PrivateEstimator:
    """The estimator of a model file's contents; raises if they do not fit together."""
    _check_keys(content, _MODEL)
    model = _take_model(content)
    adjacency, unit = promise_of(content)
    model.plan_, event = content["plan"], plan_from(content["plan"], adjacency, unit).event
    if "search" in content:
        model.search_ = SearchRecord.from_dict(content["search"], event)
        event = part_from(own_part(model), adjacency, unit).event
    model.event_, model.ledger_entry_ = event, content["ledger"]
    _take_parameters(model)
    return model  # type: ignore[no-any-return]


def _check_keys(content: dict[str, Any], known: frozenset[str]) -> None:
    extra = set(content) - known
    if extra:
        raise KeyError(min(extra))


def _take_parameters(model: Any) -> None:
    """Give a model the parameters of its fit, so that no later fit protects less."""
    asked = model.parameters_of_fit()
    model.set_params(**{name: value for name, value in asked.items() if name not in model.code_parameters})


def _take_model(content: dict[str, Any]) -> Any:
    """What `model_content` wrote; raises if it does not fit together."""
    kind = content["kind"]
    model: Any = (class_named(kind, PrivateEstimator) if ":" in kind else models()[kind])()
    for key in {"coef", "intercept", "weights"} & content.keys():
        _check_numbers(list(content[key].values()) if key == "weights" else content[key])
    columns = content["columns"]
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise TypeError("columns")
    if not isinstance(content["parameters"], dict):
        raise TypeError("parameters")
    check_classes(content["classes"])
    if content["classes"] is not None:
        model.classes_ = np.asarray(content["classes"])
        if not len(content["classes"]) >= 2:
            raise ValueError("classes")
    model.schema_ = None if content["schema"] is None else schema_from_dict(content["schema"])
    names = columns if model.schema_ is None else list(model.schema_.columns)
    model.feature_names_in_ = np.asarray(names, dtype=object)
    model.n_features_in_ = len(names)
    model.privacy_ = FitStatement.from_dict(content["privacy"])
    model.parameters_ = content["parameters"]
    str(model.privacy_)  # its numbers are numbers
    model.take_numbers(content, len(columns))
    model.uncertainty_ = _uncertainty(content)
    if column_names(model) != columns:
        raise ValueError("columns")
    return model


def _uncertainty(content: dict[str, Any]) -> Uncertainty | None:
    """What intervals rest on, if there is something; raise if it does not belong to the coefficients."""
    if "uncertainty" not in content:
        return None
    constant = content["uncertainty"]["constant"]
    return Uncertainty.from_dict(content["uncertainty"], len(content["columns"]) + (constant != 0.0))


def _check_numbers(value: Any) -> None:
    """Raise unless numbers are numbers: neither "1.5" nor true is a coefficient."""
    if isinstance(value, list):
        for entry in value:
            _check_numbers(entry)
    elif type(value) not in (int, float):
        raise TypeError("a number")


def _transformer_class(kind: object) -> Any:
    import_modules_of(transformers)
    return class_named(kind, PrivateTransformer)


def _transformer_from(content: dict[str, Any]) -> PrivateTransformer:
    _check_keys(content, _TRANSFORMER)
    step: PrivateTransformer = _transformer_class(content["kind"]).from_told(content)
    step.plan_, step.ledger_entry_ = content["plan"], content["ledger"]
    step.event_ = part_from(content["plan"], *promise_of(content)).event
    return step


def _pipeline_from(content: dict[str, Any]) -> PrivatePipeline:
    """The pipeline: private steps have what they released, and public ones see made-up rows, as in the fit."""
    _check_keys(content, _PIPELINE)
    adjacency, unit = promise_of(content)
    plans, rows, steps = list(content["plan"]["sequence"]), rows_of_form(content["rows"]), []
    for name, told in content["steps"][:-1]:
        if isinstance(told, dict) and "kind" in told:
            _check_keys(told, _TRANSFORMER - {"plan", "ledger", *HEAD, "fingerprint"})
            step: Any = _transformer_class(told["kind"]).from_told(told)
            step.plan_, step.ledger_entry_ = plans.pop(0), None
            step.event_ = part_from(step.plan_, adjacency, unit).event
            if width_of(rows) != step.n_features_in_:
                raise ValueError("n_features")
            rows = made_up(np.empty((0, step.n_features_out(step.n_features_in_))))
        else:
            step = step_from_dict(told)
            rows = tried(name, step, rows)
        steps.append((name, step))
    name, told = content["steps"][-1]
    _check_keys(told, _MODEL - {"plan", "search", "ledger", *HEAD, "fingerprint"})
    final = _take_model(told)
    (final.plan_,) = plans
    if len(told["columns"]) != width_of(rows):
        raise ValueError("columns")
    final.event_, final.ledger_entry_ = part_from(final.plan_, adjacency, unit).event, None
    _take_parameters(final)
    statement = PrivacyStatement.from_dict(content["privacy"])
    pipe = PrivatePipeline(
        [*steps, (name, final)], epsilon=statement.epsilon, delta=statement.delta, adjacency=statement.adjacency,
        **unit_parameters(statement.unit),
    )  # fmt: skip
    pipe.form_, pipe.told_, pipe.plan_ = content["rows"], content["steps"], content["plan"]
    pipe.privacy_, pipe.ledger_entry_ = statement, content["ledger"]
    pipe.event_ = plan_from(content["plan"], adjacency, unit).event
    str(statement)  # its numbers are numbers
    return pipe
