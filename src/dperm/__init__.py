"""dperm: differentially private empirical risk minimization, with a guarantee proved for the run that happened."""

from dperm.domains import Box, GroupBall, L1Ball, L2Ball, Simplex, WholeSpace
from dperm.errors import DpermError, InvalidParameter, LargeDeltaWarning, NotForReleaseWarning, NotSolved, PlanExceeded
from dperm.estimators import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dperm.fitting import Release, minimize, price
from dperm.losses import (
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
from dperm.privacy.guarantee import Guarantee
from dperm.privacy.statement import PrivacyStatement
from dperm.problem import Problem
from dperm.regularizers import L1, L2, ElasticNet, GroupL2, NoRegularizer
from dperm.solvers import (
    DPAGD,
    DPGD,
    DPSGD,
    DPSVRG,
    RRPSGD,
    BassilySGD,
    ChaudhuriObjective,
    ChaudhuriOutput,
    DPAccMD,
    DPKatyusha,
    DPSVRGPlusPlus,
    KiferObjective,
    TalwarFrankWolfe,
    TalwarMirror,
    TalwarObjective,
    ZhangOutput,
)
from dperm.trusted.risk import empirical_risk

__version__ = "0.1.0"

__all__ = [
    "DPAGD",
    "DPGD",
    "DPSGD",
    "DPSVRG",
    "L1",
    "L2",
    "RRPSGD",
    "BassilySGD",
    "Box",
    "ChaudhuriObjective",
    "ChaudhuriOutput",
    "DPAccMD",
    "DPKatyusha",
    "DPSVRGPlusPlus",
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
    "Logistic",
    "Loss",
    "NoRegularizer",
    "NotForReleaseWarning",
    "NotSolved",
    "OneVsRestHinge",
    "PlanExceeded",
    "Poisson",
    "PrivacyStatement",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "Problem",
    "Release",
    "Sigmoid",
    "Simplex",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "TalwarFrankWolfe",
    "TalwarMirror",
    "TalwarObjective",
    "Welsch",
    "WholeSpace",
    "ZhangOutput",
    "empirical_risk",
    "minimize",
    "price",
]
