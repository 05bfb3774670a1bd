"""Regularizers: one file each. To add one, write its file and import it here; the contract tests find it."""

from dperm.regularizers.base import Regularizer
from dperm.regularizers.elastic_net import ElasticNet
from dperm.regularizers.group_l2 import GroupL2
from dperm.regularizers.l1 import L1
from dperm.regularizers.l2 import L2
from dperm.regularizers.none import NoRegularizer

__all__ = ["L1", "L2", "ElasticNet", "GroupL2", "NoRegularizer", "Regularizer"]
