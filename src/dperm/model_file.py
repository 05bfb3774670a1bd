"""Fitted models as JSON: what was released and what is promised about it, nothing else."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dperm.errors import InvalidParameter
from dperm.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.estimators.base import PrivateLinearModel
from dperm.files import write_whole
from dperm.privacy.events import event_to_list
from dperm.privacy.statement import PrivacyStatement

ESTIMATORS: dict[str, type[PrivateLinearModel]] = {
    "logistic": PrivateLogisticRegression,
    "svc": PrivateLinearSVC,
    "linear": PrivateLinearRegression,
}
_FORMAT, _VERSION = "dperm-model", 1


def save_model(model: PrivateLinearModel, columns: Sequence[str], target: str, path: Path) -> None:
    """Write a fitted model; a crash leaves the old file or none, never half of one.

    Parameters
    ----------
    model : estimator
        A fitted one.
    columns : sequence of str
        Names of the feature columns, in order.
    target : str
        Name of the target column.
    path : Path
        Where to.
    """
    kind = next(name for name, estimator in ESTIMATORS.items() if type(model) is estimator)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "kind": kind,
        "columns": list(columns),
        "target": target,
        "coef": np.asarray(model.coef_).tolist(),
        "intercept": np.asarray(model.intercept_).tolist(),
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        "privacy": model.privacy_.to_dict(),
        "events": event_to_list(model.event_),
    }
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def load_model(path: Path) -> tuple[PrivateLinearModel, list[str], str]:
    """Read a model file: the estimator, its feature columns and the target's name."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT or content["version"] != _VERSION:
            raise KeyError("format")
        model = ESTIMATORS[content["kind"]]()
        model.coef_ = np.asarray(content["coef"], dtype=np.float64)
        intercept = np.asarray(content["intercept"], dtype=np.float64)
        model.intercept_ = intercept if intercept.ndim else float(intercept)
        model.n_features_in_ = len(content["columns"])
        if model.coef_.shape[-1] != model.n_features_in_:
            raise ValueError("shape")
        if content["classes"] is not None:
            model.classes_ = np.asarray(content["classes"])  # type: ignore[attr-defined]
        model.privacy_ = PrivacyStatement.from_dict(content["privacy"])
        return model, list(content["columns"]), str(content["target"])
    except (ValueError, KeyError, TypeError, UnicodeDecodeError):
        raise InvalidParameter(f"{path} is not a dperm model file of version {_VERSION}.") from None
