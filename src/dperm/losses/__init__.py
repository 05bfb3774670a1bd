"""Losses: one file each. To add one, write its file and import it here; the contract tests find it."""

from dperm.losses.base import Loss
from dperm.losses.huber import Huber
from dperm.losses.logistic import Logistic
from dperm.losses.one_vs_rest_hinge import OneVsRestHinge
from dperm.losses.poisson import Poisson
from dperm.losses.sigmoid import Sigmoid
from dperm.losses.smoothed_hinge import SmoothedHinge
from dperm.losses.softmax import Softmax
from dperm.losses.squared import Squared
from dperm.losses.welsch import Welsch

__all__ = [
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
