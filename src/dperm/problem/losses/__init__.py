"""Losses: one file each. docs/extending.md says how to add one."""

from dperm.problem.losses.base import Loss
from dperm.problem.losses.function import FunctionLoss
from dperm.problem.losses.huber import Huber
from dperm.problem.losses.logistic import Logistic
from dperm.problem.losses.one_vs_rest_hinge import OneVsRestHinge
from dperm.problem.losses.poisson import Poisson
from dperm.problem.losses.sigmoid import Sigmoid
from dperm.problem.losses.smoothed_hinge import SmoothedHinge
from dperm.problem.losses.softmax import Softmax
from dperm.problem.losses.squared import Squared
from dperm.problem.losses.welsch import Welsch

__all__ = [
    "FunctionLoss",
    "Huber",
    "Logistic",
    "Loss",
    "OneVsRestHinge",
    "Poisson",
    "Sigmoid",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "Welsch",
]
