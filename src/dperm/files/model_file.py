"""Model files: a release as JSON, read back as an estimator. No pickle, so opening one runs nothing."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from dperm.accounting.events import event_from_list
from dperm.disk import as_path, fingerprint, read_json, read_text, write_whole
from dperm.errors import InvalidParameterError
from dperm.files.content import FORMAT, VERSION, column_names, content_of
from dperm.files.search_record import SearchRecord
from dperm.models.base import PrivateEstimator
from dperm.models.registry import models
from dperm.models.search import PrivateSearch
from dperm.plan.uncertainty import Uncertainty
from dperm.printable import one_line
from dperm.privacy.statement import FitStatement, check_classes
from dperm.schema import schema_from_dict

# More than five million coefficients need.
_MOST_BYTES = 2**28
# What contents that do not fit together may raise.
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError)


def save_model(model: PrivateEstimator, path: str | Path) -> None:
    """Write a fitted model; a crash leaves the old file or none, never half of one.

    Parameters
    ----------
    model : estimator
        A fitted one.
    path : str or Path
        Where to.
    """
    if isinstance(model, PrivateSearch):
        raise InvalidParameterError("a search has no model file: save search.best_estimator_.")
    if isinstance(model, Pipeline):
        raise InvalidParameterError("a pipeline has no model file: pickle it.")
    if not isinstance(model, PrivateEstimator):
        raise InvalidParameterError(f"a model file holds an estimator of dperm, got {type(model).__name__}.")
    write_whole(as_path(path), model_text(model))


def model_text(model: PrivateEstimator) -> str:
    """The text of a fitted model's file."""
    return json.dumps(content_of(model), indent=2, ensure_ascii=False) + "\n"


def read_content(path: str | Path) -> dict[str, Any]:
    """Read a model file's contents as they stand, or raise if it is none; `verify` says whether they are true."""
    try:
        content = read_json(read_text(path, _MOST_BYTES))
    except InvalidParameterError:
        raise
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _no_model(path)
    if type(content.get("version")) is not int or content["version"] != VERSION:
        raise _no_model(path)
    return content


def _no_model(path: str | Path) -> InvalidParameterError:
    return InvalidParameterError(f"{one_line(path)} is not a dperm model file of version {VERSION}.")


def load_model(path: str | Path) -> PrivateEstimator:
    """Read a model file back: an estimator that predicts, with its statement in `privacy_` and the fit's parameters.

    Its solver is the one that ran. n, a budget and a seed are not among the parameters: they belong to one fit.

    Parameters
    ----------
    path : str or Path
        What `save_model` or `dperm fit` wrote.

    Raises
    ------
    InvalidParameterError
        If it is not a model file, or was changed after it was written.
    """
    content = read_content(path)
    if not is_unchanged(content):
        raise InvalidParameterError(f"{one_line(path)} was changed after it was written: its fingerprint is another.")
    model = model_from(content)
    if model is None or not _takes_parameters(model):
        raise _no_model(path)
    return model


def _takes_parameters(model: PrivateEstimator) -> bool:
    """Give the model the parameters of its fit, so that no later fit protects less; False if there are none such."""
    try:
        asked = model.parameters_of_fit()
        model.set_params(**{name: asked[name] for name in asked if name not in model.code_parameters})
    except _DAMAGED:
        return False
    return True


def is_library(text: object) -> bool:
    """Whether it names a version of dperm."""
    return isinstance(text, str) and re.fullmatch(r"dperm \d+\.\d+\.\d+[\w.+]{0,40}", text, re.ASCII) is not None


def is_unchanged(content: dict[str, Any]) -> bool:
    """Whether the fingerprint is that of the rest."""
    return bool(content.get("fingerprint") == fingerprint_of(content))


def fingerprint_of(content: dict[str, Any]) -> str:
    """The fingerprint that the contents have, whatever they say it is."""
    return fingerprint({key: value for key, value in content.items() if key != "fingerprint"})


def model_from(content: dict[str, Any]) -> PrivateEstimator | None:
    """The estimator of a model file's contents, None if they do not fit together."""
    try:
        _check_types(content)
        model = models()[content["kind"]]()
        if content["classes"] is not None:
            model.classes_ = np.asarray(content["classes"])  # type: ignore[attr-defined]
            if not len(content["classes"]) >= 2:
                raise ValueError("classes")
        model.schema_ = None if content["schema"] is None else schema_from_dict(content["schema"])
        if model.schema_ is None:
            model.feature_names_in_ = np.asarray(content["columns"], dtype=object)
        else:
            model.feature_names_in_ = np.asarray(list(model.schema_.columns), dtype=object)
        model.n_features_in_ = len(model.feature_names_in_)
        model.ledger_entry_ = content["ledger"]
        model.privacy_ = FitStatement.from_dict(content["privacy"])
        model.event_ = event_from_list(content["events"])
        model.parameters_ = content["fit"]
        if "search" in content:
            model.search_ = SearchRecord.from_dict(content["search"])
        str(model.privacy_)  # its numbers are numbers
        model.take_numbers(content, len(content["columns"]))
        model.uncertainty_ = _uncertainty(content)
        return model if column_names(model) == content["columns"] else None
    except _DAMAGED:
        return None


def _uncertainty(content: dict[str, Any]) -> Uncertainty | None:
    """What intervals rest on, if there is something; raise if it does not belong to the coefficients."""
    if "uncertainty" not in content:
        return None
    constant = content["uncertainty"]["constant"]
    return Uncertainty.from_dict(content["uncertainty"], len(content["columns"]) + (constant != 0.0))


def _check_types(content: dict[str, Any]) -> None:
    """Raise unless numbers are numbers and texts are texts: neither "1.5" nor true is a coefficient."""
    for key in {"coef", "intercept", "weights"} & content.keys():
        _check_numbers(list(content[key].values()) if key == "weights" else content[key])
    for key in ("columns", "statement", "assumptions"):
        texts = content[key]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise TypeError(key)
    check_classes(content["classes"])
    entry = content["ledger"]
    if entry is not None:
        types = {key: type(entry[key]) for key in entry}
        if types != {"dataset": str, "number": int, "digest": str, "fixed_in_advance": bool}:
            raise TypeError("ledger")
    fit = content["fit"]
    if fit is not None and not isinstance(fit["solver"]["kind"], str):
        raise TypeError("fit")
    if not is_library(content["library"]):
        raise TypeError("library")


def _check_numbers(value: Any) -> None:
    if isinstance(value, list):
        for entry in value:
            _check_numbers(entry)
    elif type(value) not in (int, float):
        raise TypeError("a number")
