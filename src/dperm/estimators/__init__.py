"""Faces in scikit-learn style."""

from dperm.estimators.linear_regression import PrivateLinearRegression
from dperm.estimators.linear_svc import PrivateLinearSVC
from dperm.estimators.logistic_regression import PrivateLogisticRegression

__all__ = ["PrivateLinearRegression", "PrivateLinearSVC", "PrivateLogisticRegression"]
