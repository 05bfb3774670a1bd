"""What steps of scikit-learn do with rows: which learn nothing from them, and what to take instead of those that do."""

from collections.abc import Callable
from typing import Any

# Each row on its own, to the last bit, or the shape alone. Steps that multiply matrices (RBFSampler, projections) are
# not among them: BLAS rounds a row according to its place in the table.
_STATELESS = {
    "AdditiveChi2Sampler", "Binarizer", "FunctionTransformer", "HashingVectorizer", "Normalizer", "PolynomialFeatures",
}  # fmt: skip

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
    parts = {"Pipeline": "steps", "ColumnTransformer": "transformers", "FeatureUnion": "transformer_list"}
    if name in parts:
        rest = getattr(step, "remainder", None)  # what a ColumnTransformer does with the columns that it does not name
        return is_public(rest) and all(is_public(part[1]) for part in getattr(step, parts[name]))
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
