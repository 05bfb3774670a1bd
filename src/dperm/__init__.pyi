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
    NotKeptWarning,
    NotSettledError,
    NotSolvedError,
    NoWitnessWarning,
    PlanExceededError,
    SearchCostWarning,
    UnsupportedProblemError,
)
from .evaluation.result import PrivateEvaluation
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
from .paper.printed.adassp import PublishedAdaSSP
from .paper.printed.dp_svrg import PrintedSVRG
from .paper.printed.dp_svrg_plus_plus import PrintedSVRGPlusPlus
from .pipelines.check import check_pipeline
from .pipelines.pipeline import PrivatePipeline, make_private_pipeline
from .plan.fit_plan import FitPlan, Release
from .plan.minimize import minimize
from .plan.options import FitOptions
from .plan.rows_per_unit import RowsPerUnit, rows_per_unit
from .privacy.guarantee import Guarantee
from .privacy.statement import PrivacyStatement
from .privacy.unit import PrivacyUnit
from .problem import Problem
from .problem.domains.blocks import BlockDomain
from .problem.domains.box import Box
from .problem.domains.group_ball import GroupBall
from .problem.domains.l1_ball import L1Ball
from .problem.domains.l2_ball import L2Ball
from .problem.domains.simplex import Simplex
from .problem.domains.whole_space import WholeSpace
from .problem.losses.base import Loss
from .problem.losses.function import FunctionLoss
from .problem.losses.huber import Huber
from .problem.losses.logistic import Logistic
from .problem.losses.one_vs_rest_hinge import OneVsRestHinge
from .problem.losses.poisson import Poisson
from .problem.losses.sigmoid import Sigmoid
from .problem.losses.smoothed_hinge import SmoothedHinge
from .problem.losses.softmax import Softmax
from .problem.losses.squared import Squared
from .problem.losses.welsch import Welsch
from .problem.regularizers.blocks import BlockRegularizer
from .problem.regularizers.elastic_net import ElasticNet
from .problem.regularizers.group_l2 import GroupL2
from .problem.regularizers.l1 import L1
from .problem.regularizers.l2 import L2
from .problem.regularizers.none import NoRegularizer
from .rows.cluster import ClusterSource
from .rows.streamed import FileSource
from .schema import Amount, Bins, Category, Classes, Number, Schema, load_schema
from .solvers.descent.bassily_sgd import BassilySGD
from .solvers.descent.dp_adam import DPAdam
from .solvers.descent.dp_agd import DPAGD
from .solvers.descent.dp_gd import DPGD
from .solvers.descent.dp_sgd import DPSGD
from .solvers.descent.rrpsgd import RRPSGD
from .solvers.mirror.dp_accmd import DPAccMD
from .solvers.mirror.support_descent import SupportDescent
from .solvers.mirror.talwar_frank_wolfe import TalwarFrankWolfe
from .solvers.mirror.talwar_mirror import TalwarMirror
from .solvers.perturbation.chaudhuri_objective import ChaudhuriObjective
from .solvers.perturbation.chaudhuri_output import ChaudhuriOutput
from .solvers.perturbation.dp_objective import DPObjective
from .solvers.perturbation.dp_regression import DPRegression
from .solvers.perturbation.dp_softmax import DPSoftmax
from .solvers.perturbation.kifer_objective import KiferObjective
from .solvers.perturbation.talwar_objective import TalwarObjective
from .solvers.perturbation.zhang_output import ZhangOutput
from .solvers.second_order.adassp import AdaSSP
from .solvers.second_order.dp_newton import DPNewton
from .solvers.variance_reduced.dp_katyusha import DPKatyusha
from .solvers.variance_reduced.dp_spider import DPSpider
from .solvers.variance_reduced.dp_svrg import DPSVRG
from .solvers.variance_reduced.dp_svrg_plus_plus import DPSVRGPlusPlus
from .transformers.min_max_scaler import PrivateMinMaxScaler
from .transformers.pca import PrivatePCA
from .transformers.quantile_transformer import PrivateQuantileTransformer
from .transformers.standard_scaler import PrivateStandardScaler

__version__: str

__all__ = [
    "DPAGD",
    "DPGD",
    "DPSGD",
    "DPSVRG",
    "L1",
    "L2",
    "RRPSGD",
    "AdaSSP",
    "Amount",
    "BassilySGD",
    "Bins",
    "BlockDomain",
    "BlockRegularizer",
    "Box",
    "Budget",
    "BudgetExceededError",
    "CacheFullWarning",
    "Category",
    "ChaudhuriObjective",
    "ChaudhuriOutput",
    "Classes",
    "ClusterError",
    "ClusterSource",
    "DPAccMD",
    "DPAdam",
    "DPKatyusha",
    "DPNewton",
    "DPObjective",
    "DPRegression",
    "DPSVRGPlusPlus",
    "DPSoftmax",
    "DPSpider",
    "DivergedError",
    "DpermError",
    "DroppedRowsWarning",
    "ElasticNet",
    "FileSource",
    "FitOptions",
    "FitPlan",
    "FunctionLoss",
    "GroupBall",
    "GroupL2",
    "Guarantee",
    "Huber",
    "InvalidParameterError",
    "InvalidTableError",
    "KiferObjective",
    "L1Ball",
    "L2Ball",
    "LargeDeltaWarning",
    "LedgerDamagedError",
    "Logistic",
    "Loss",
    "NoRegularizer",
    "NoWitnessWarning",
    "NoiseTooLargeError",
    "NotForReleaseWarning",
    "NotInstalledError",
    "NotKeptWarning",
    "NotSettledError",
    "NotSolvedError",
    "Number",
    "OneVsRestHinge",
    "PlanExceededError",
    "Poisson",
    "PrintedSVRG",
    "PrintedSVRGPlusPlus",
    "PrivacyStatement",
    "PrivacyUnit",
    "PrivateEvaluation",
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
    "PublishedAdaSSP",
    "Release",
    "RowsPerUnit",
    "Schema",
    "SearchCostWarning",
    "Sigmoid",
    "Simplex",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "SupportDescent",
    "TalwarFrankWolfe",
    "TalwarMirror",
    "TalwarObjective",
    "UnsupportedProblemError",
    "Welsch",
    "WholeSpace",
    "ZhangOutput",
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
