"""What steps of scikit-learn do with rows: which learn nothing from them, and what to take instead of those that do."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from dperm.files.described import described, value_of

# Each row on its own, to the last bit, or the shape alone. Steps that multiply matrices (RBFSampler, projections) are
# not among them: BLAS rounds a row according to its place in the table.
_STATELESS = {
    "AdditiveChi2Sampler", "Binarizer", "FunctionTransformer", "HashingVectorizer", "Normalizer", "PolynomialFeatures",
}  # fmt: skip

# Steps that hold others, and where.
_PARTS = {"Pipeline": "steps", "ColumnTransformer": "transformers", "FeatureUnion": "transformer_list"}

_CONSTANT = "SimpleImputer(strategy='constant', fill_value=…, keep_empty_features=True), with a public value"
_DECLARED = "the same step with declared categories=[…] and handle_unknown='ignore'"
_HASHED = "HashingVectorizer, which learns no vocabulary"
_PENALTY = "an l1 penalty in the model (penalty='l1')"

# What to take instead of a step that learns from rows without noise.
INSTEAD = {
    "StandardScaler": "dperm.PrivateStandardScaler", "RobustScaler": "dperm.PrivateStandardScaler",
    "MinMaxScaler": "dperm.PrivateMinMaxScaler", "MaxAbsScaler": "dperm.PrivateMinMaxScaler",
    "QuantileTransformer": "dperm.PrivateQuantileTransformer", "PowerTransformer": "dperm.PrivateQuantileTransformer",
    "KBinsDiscretizer": "dperm.PrivateQuantileTransformer", "PCA": "dperm.PrivatePCA",
    "IncrementalPCA": "dperm.PrivatePCA", "TruncatedSVD": "dperm.PrivatePCA", "KernelPCA": "dperm.PrivatePCA",
    "FactorAnalysis": "dperm.PrivatePCA", "FastICA": "dperm.PrivatePCA",
    "SimpleImputer": _CONSTANT, "KNNImputer": _CONSTANT, "IterativeImputer": _CONSTANT,
    "OneHotEncoder": _DECLARED, "OrdinalEncoder": "declared categories=[…] and handle_unknown='use_encoded_value'",
    "TargetEncoder": "OneHotEncoder with declared categories=[…] and handle_unknown='ignore'",
    "CountVectorizer": _HASHED, "TfidfVectorizer": _HASHED, "TfidfTransformer": _HASHED,
    "SelectKBest": _PENALTY, "SelectPercentile": _PENALTY, "SelectFpr": _PENALTY, "SelectFdr": _PENALTY,
    "VarianceThreshold": _PENALTY, "RFE": _PENALTY, "RFECV": _PENALTY, "SequentialFeatureSelector": _PENALTY,
    "LogisticRegression": "dperm.PrivateLogisticRegression", "LogisticRegressionCV": "dperm.PrivateLogisticRegression",
    "SGDClassifier": "dperm.PrivateLogisticRegression", "LinearSVC": "dperm.PrivateLinearSVC",
    "SVC": "dperm.PrivateLinearSVC", "LinearRegression": "dperm.PrivateLinearRegression",
    "Ridge": "dperm.PrivateLinearRegression", "Lasso": "dperm.PrivateLinearRegression",
    "HuberRegressor": "dperm.PrivateHuberRegression", "PoissonRegressor": "dperm.PrivatePoissonRegression",
    "MLPClassifier": "dperm.PrivateMLPClassifier", "MLPRegressor": "dperm.PrivateMLPRegressor",
}  # fmt: skip


# Where scikit-learn has the steps that may be public, which a file names.
_MODULES = {
    "AdditiveChi2Sampler": "kernel_approximation", "HashingVectorizer": "feature_extraction.text",
    "SimpleImputer": "impute", "Pipeline": "pipeline", "FeatureUnion": "pipeline", "ColumnTransformer": "compose",
}  # fmt: skip


def step_to_dict(step: Any) -> Any:
    """A public step as plain data: its class and the parameters that are not the usual ones.

    Parameters
    ----------
    step : transformer
        One that `is_public`.

    Raises
    ------
    NotDescribableError
        If a parameter is code.
    """
    if is_nothing(step):
        return step
    usual = type(step)().get_params(deep=False) if name_in_sklearn(step) not in _PARTS else {}
    asked = {name: value for name, value in step.get_params(deep=False).items() if not _same(value, usual.get(name))}
    return {"public": name_in_sklearn(step), "parameters": {name: _told(value) for name, value in asked.items()}}


def _same(first: Any, second: Any) -> bool:
    return first is second or (
        type(first) is type(second) and isinstance(first, bool | int | float | str) and first == second
    )


def _told(value: Any) -> Any:
    name = getattr(value, "__name__", "")
    if isinstance(value, np.ufunc) and getattr(np, name, None) is value:
        return {"numpy": name}
    if isinstance(value, list | tuple):
        return [_told(entry) for entry in value]
    return step_to_dict(value) if name_in_sklearn(value) is not None else described(value)


def step_from_dict(content: Any) -> Any:
    """Read what `step_to_dict` gave: only steps that learn nothing from rows, whatever a file names."""
    if content is None or isinstance(content, str):
        step = content
    else:
        name = content["public"]
        if set(content) != {"public", "parameters"} or name not in {*_STATELESS, *_IF_DECLARED, *_PARTS}:
            raise ValueError("public")
        kind = getattr(importlib.import_module(f"sklearn.{_MODULES.get(name, 'preprocessing')}"), name)
        step = kind(**{key: _value(value) for key, value in content["parameters"].items()})
    if not is_public(step):
        raise ValueError("public")
    return step


def _value(content: Any) -> Any:
    if isinstance(content, list):
        return [_value(entry) for entry in content]
    if isinstance(content, dict) and set(content) == {"numpy"}:
        found = getattr(np, content["numpy"])
        if not isinstance(found, np.ufunc):
            raise ValueError("numpy")
        return found
    return step_from_dict(content) if isinstance(content, dict) and "public" in content else value_of(content)


def name_in_sklearn(step: Any) -> str | None:
    """The class of a step if it is scikit-learn's own; None for any other, which may do anything."""
    return type(step).__name__ if type(step).__module__.startswith("sklearn.") else None


def is_nothing(step: Any) -> bool:
    """Whether it stands for no step at all."""
    return step is None or (isinstance(step, str) and step in ("passthrough", "drop"))


def is_public(step: Any) -> bool:
    """Whether a step, with the parameters that it has, learns nothing from rows but their shape.

    Parameters
    ----------
    step : transformer
        Of a pipeline, a ColumnTransformer or a FeatureUnion, which are public if all of their members are.
    """
    if is_nothing(step):
        return True
    name = name_in_sklearn(step)
    if name in _PARTS:
        rest = getattr(step, "remainder", None)  # what a ColumnTransformer does with the columns that it does not name
        return is_public(rest) and all(is_public(part[1]) for part in getattr(step, _PARTS[name]))
    return name in _STATELESS or (name in _IF_DECLARED and bool(_IF_DECLARED[name](step)))


# Public if what they would learn is declared. Whether a step would raise for a value that nobody declared counts too.
_IF_DECLARED: dict[str, Callable[[Any], bool]] = {
    "SimpleImputer": lambda step: step.strategy == "constant" and step.keep_empty_features and not step.add_indicator,
    "OneHotEncoder": lambda step: _is_declared(step) and step.handle_unknown == "ignore",
    "OrdinalEncoder": lambda step: _is_declared(step) and step.handle_unknown == "use_encoded_value",
}


def _is_declared(step: Any) -> bool:
    return not isinstance(step.categories, str) and step.min_frequency is None and step.max_categories is None


def instead_of(step: Any) -> str | None:
    """What to take instead of a step that learns without noise, in words; None if nothing is known."""
    return INSTEAD.get(name_in_sklearn(step) or "")
