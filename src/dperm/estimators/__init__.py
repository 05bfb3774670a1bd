"""Estimators in scikit-learn's shape. A new model is one file here: the command line and model files find it."""

from dperm.estimators.base import PrivateGLM
from dperm.estimators.huber_regression import PrivateHuberRegression
from dperm.estimators.linear_regression import PrivateLinearRegression
from dperm.estimators.linear_svc import PrivateLinearSVC
from dperm.estimators.logistic_regression import PrivateLogisticRegression
from dperm.estimators.poisson_regression import PrivatePoissonRegression

__all__ = [
    "PrivateGLM",
    "PrivateHuberRegression",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivatePoissonRegression",
]
