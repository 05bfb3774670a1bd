"""Model files: a release as JSON, read back as an estimator. No pickle, so opening one runs nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from dperm.accounting.events import event_from_list
from dperm.errors import InvalidParameter
from dperm.estimators.base import PrivateGLM
from dperm.estimators.registry import models
from dperm.files import fingerprint, write_whole
from dperm.release.content import FORMAT, VERSION, column_names, content_of
from dperm.release.statement import PrivacyStatement
from dperm.schema import schema_from_dict


def save_model(model: PrivateGLM, path: str | Path) -> None:
    """Write a fitted model; a crash leaves the old file or none, never half of one.

    Parameters
    ----------
    model : estimator
        A fitted one.
    path : str or Path
        Where to.
    """
    write_whole(Path(path), json.dumps(content_of(model), indent=2, ensure_ascii=False) + "\n")


def read_content(path: str | Path) -> dict[str, Any]:
    """Read a model file's contents as they stand, or raise if it is none; `verify` says whether they are true."""
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("version") != VERSION:
        raise InvalidParameter(f"{path} is not a dperm model file of version {VERSION}.")
    return content


def load_model(path: str | Path) -> PrivateGLM:
    """Read a model file back: an estimator that predicts, with its statement in `privacy_`.

    Parameters
    ----------
    path : str or Path
        What `save_model` or `dperm fit` wrote.

    Raises
    ------
    InvalidParameter
        If it is not a model file, or was changed after it was written.
    """
    content = read_content(path)
    if not is_unchanged(content):
        raise InvalidParameter(f"{path} was changed after it was written: its fingerprint is another.")
    model = model_from(content)
    if model is None:
        raise InvalidParameter(f"{path} is not a dperm model file of version {VERSION}.")
    return model


def is_unchanged(content: dict[str, Any]) -> bool:
    """Whether the fingerprint is that of the rest."""
    rest = {key: value for key, value in content.items() if key != "fingerprint"}
    return bool(content.get("fingerprint") == fingerprint(rest))


def model_from(content: dict[str, Any]) -> PrivateGLM | None:
    """The estimator of a model file's contents, None if they do not fit together."""
    try:
        model = models()[content["kind"]]()
        model.coef_ = np.asarray(content["coef"], dtype=np.float64)
        intercept = np.asarray(content["intercept"], dtype=np.float64)
        model.intercept_ = intercept if intercept.ndim else float(intercept)
        if content["classes"] is not None:
            model.classes_ = np.asarray(content["classes"])  # type: ignore[attr-defined]
        model.schema_ = None if content["schema"] is None else schema_from_dict(content["schema"])
        if model.schema_ is None:
            model.feature_names_in_ = np.asarray(content["columns"], dtype=object)
        else:
            model.feature_names_in_ = np.asarray(list(model.schema_.columns), dtype=object)
        model.n_features_in_ = len(model.feature_names_in_)
        entry = content["ledger"]
        if entry is not None and [type(entry[key]) for key in ("dataset", "number", "digest")] != [str, int, str]:
            raise TypeError("ledger")
        model.ledger_entry_ = entry
        model.privacy_ = PrivacyStatement.from_dict(content["privacy"])
        model.event_ = event_from_list(content["events"])
        str(model.privacy_)  # its numbers are numbers
        if not all(isinstance(content[key], list) for key in ("statement", "assumptions")):
            raise TypeError("words")
        finite = np.isfinite(model.coef_).all() and np.isfinite(intercept).all()
        fits = model.coef_.shape[-1] == len(content["columns"]) and column_names(model) == content["columns"]
        return model if finite and fits and _shapes_agree(model) else None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError):
        return None


def _shapes_agree(model: PrivateGLM) -> bool:
    if not hasattr(model, "classes_"):
        return bool(model.coef_.ndim == 1 and np.ndim(model.intercept_) == 0)
    n_classes = len(model.classes_)
    outputs = 1 if n_classes == 2 else n_classes
    shape = (outputs, model.coef_.shape[-1])
    return bool(n_classes >= 2 and model.coef_.shape == shape and np.shape(model.intercept_) == (outputs,))
