"""dperm: differentially private empirical risk minimization, with a guarantee proved for the run that happened."""

from dperm.accounting.guarantee import Guarantee
from dperm.accounting.ledger import Budget
from dperm.errors import (
    BudgetExceeded,
    DpermError,
    InvalidParameter,
    LargeDeltaWarning,
    LedgerDamaged,
    NotForReleaseWarning,
    NotSolved,
    NoWitnessWarning,
    PlanExceeded,
)
from dperm.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.planning.fitting import Release, minimize, price
from dperm.problem import Problem
from dperm.problem.domains import Box, GroupBall, L1Ball, L2Ball, Simplex, WholeSpace
from dperm.problem.losses import (
    Huber,
    Logistic,
    Loss,
    OneVsRestHinge,
    Poisson,
    Sigmoid,
    SmoothedHinge,
    Softmax,
    Squared,
    Welsch,
)
from dperm.problem.regularizers import L1, L2, ElasticNet, GroupL2, NoRegularizer
from dperm.release.model_file import load_model, save_model
from dperm.release.statement import PrivacyStatement
from dperm.schema import Amount, Bins, Category, Classes, Number, Schema, load_schema
from dperm.solvers.descent.bassily_sgd import BassilySGD
from dperm.solvers.descent.dp_agd import DPAGD
from dperm.solvers.descent.dp_gd import DPGD
from dperm.solvers.descent.dp_sgd import DPSGD
from dperm.solvers.descent.rrpsgd import RRPSGD
from dperm.solvers.mirror.dp_accmd import DPAccMD
from dperm.solvers.mirror.support_descent import SupportDescent
from dperm.solvers.mirror.talwar_frank_wolfe import TalwarFrankWolfe
from dperm.solvers.mirror.talwar_mirror import TalwarMirror
from dperm.solvers.perturbation.chaudhuri_objective import ChaudhuriObjective
from dperm.solvers.perturbation.chaudhuri_output import ChaudhuriOutput
from dperm.solvers.perturbation.dp_objective import DPObjective
from dperm.solvers.perturbation.kifer_objective import KiferObjective
from dperm.solvers.perturbation.talwar_objective import TalwarObjective
from dperm.solvers.perturbation.zhang_output import ZhangOutput
from dperm.solvers.published import PrintedSVRG, PrintedSVRGPlusPlus, PublishedAdaSSP
from dperm.solvers.second_order.adassp import AdaSSP
from dperm.solvers.second_order.dp_newton import DPNewton
from dperm.solvers.variance_reduced.dp_katyusha import DPKatyusha
from dperm.solvers.variance_reduced.dp_spider import DPSpider
from dperm.solvers.variance_reduced.dp_svrg import DPSVRG
from dperm.solvers.variance_reduced.dp_svrg_plus_plus import DPSVRGPlusPlus
from dperm.trusted.risk import empirical_risk
from dperm.version import __version__

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
    "Box",
    "Budget",
    "BudgetExceeded",
    "Category",
    "ChaudhuriObjective",
    "ChaudhuriOutput",
    "Classes",
    "DPAccMD",
    "DPKatyusha",
    "DPNewton",
    "DPObjective",
    "DPSVRGPlusPlus",
    "DPSpider",
    "DpermError",
    "ElasticNet",
    "GroupBall",
    "GroupL2",
    "Guarantee",
    "Huber",
    "InvalidParameter",
    "KiferObjective",
    "L1Ball",
    "L2Ball",
    "LargeDeltaWarning",
    "LedgerDamaged",
    "Logistic",
    "Loss",
    "NoRegularizer",
    "NoWitnessWarning",
    "NotForReleaseWarning",
    "NotSolved",
    "Number",
    "OneVsRestHinge",
    "PlanExceeded",
    "Poisson",
    "PrintedSVRG",
    "PrintedSVRGPlusPlus",
    "PrivacyStatement",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "Problem",
    "PublishedAdaSSP",
    "Release",
    "Schema",
    "Sigmoid",
    "Simplex",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "SupportDescent",
    "TalwarFrankWolfe",
    "TalwarMirror",
    "TalwarObjective",
    "Welsch",
    "WholeSpace",
    "ZhangOutput",
    "__version__",
    "empirical_risk",
    "load_model",
    "load_schema",
    "minimize",
    "price",
    "save_model",
]
