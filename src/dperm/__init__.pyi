from .errors import (
    BudgetExceededError,
    CacheFullWarning,
    ClusterError,
    DivergedError,
    DpermError,
    DroppedRowsWarning,
    InvalidParameterError,
    InvalidTableError,
    LargeDeltaWarning,
    LedgerDamagedError,
    NoiseTooLargeError,
    NotForReleaseWarning,
    NotInstalledError,
    NotSettledError,
    NotSolvedError,
    NoWitnessWarning,
    PlanExceededError,
    UnsupportedProblemError,
)
from .evaluation.score import private_evaluate
from .files.model_file import load_model, save_model
from .ledger import Budget
from .models.classifier import balanced_weights
from .models.huber_regression import PrivateHuberRegression
from .models.linear_regression import PrivateLinearRegression
from .models.linear_svc import PrivateLinearSVC
from .models.logistic_regression import PrivateLogisticRegression
from .models.mlp import PrivateMLPClassifier, PrivateMLPRegressor
from .models.own_function import PrivateJaxClassifier, PrivateJaxRegressor
from .models.poisson_regression import PrivatePoissonRegression
from .models.search import PrivateSearch
from .pipelines.check import check_pipeline
from .pipelines.pipeline import PrivatePipeline, make_private_pipeline
from .plan.minimize import minimize
from .plan.options import FitOptions
from .plan.rows_per_unit import rows_per_unit
from .privacy.guarantee import Guarantee
from .privacy.unit import PrivacyUnit
from .problem import Problem
from .schema import Amount, Bins, Category, Classes, Number, Schema, load_schema
from .transformers.min_max_scaler import PrivateMinMaxScaler
from .transformers.pca import PrivatePCA
from .transformers.quantile_transformer import PrivateQuantileTransformer
from .transformers.standard_scaler import PrivateStandardScaler

__version__: str

__all__ = [
    "Amount",
    "Bins",
    "Budget",
    "BudgetExceededError",
    "CacheFullWarning",
    "Category",
    "Classes",
    "ClusterError",
    "DivergedError",
    "DpermError",
    "DroppedRowsWarning",
    "FitOptions",
    "Guarantee",
    "InvalidParameterError",
    "InvalidTableError",
    "LargeDeltaWarning",
    "LedgerDamagedError",
    "NoWitnessWarning",
    "NoiseTooLargeError",
    "NotForReleaseWarning",
    "NotInstalledError",
    "NotSettledError",
    "NotSolvedError",
    "Number",
    "PlanExceededError",
    "PrivacyUnit",
    "PrivateHuberRegression",
    "PrivateJaxClassifier",
    "PrivateJaxRegressor",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateMLPClassifier",
    "PrivateMLPRegressor",
    "PrivateMinMaxScaler",
    "PrivatePCA",
    "PrivatePipeline",
    "PrivatePoissonRegression",
    "PrivateQuantileTransformer",
    "PrivateSearch",
    "PrivateStandardScaler",
    "Problem",
    "Schema",
    "UnsupportedProblemError",
    "__version__",
    "balanced_weights",
    "check_pipeline",
    "load_model",
    "load_schema",
    "make_private_pipeline",
    "minimize",
    "private_evaluate",
    "rows_per_unit",
    "save_model",
]
