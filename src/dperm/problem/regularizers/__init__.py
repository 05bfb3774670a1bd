"""Regularizers: one file each. docs/extending.md says how to add one."""

from dperm.problem.regularizers.base import Regularizer
from dperm.problem.regularizers.blocks import BlockRegularizer
from dperm.problem.regularizers.elastic_net import ElasticNet
from dperm.problem.regularizers.group_l2 import GroupL2
from dperm.problem.regularizers.l1 import L1
from dperm.problem.regularizers.l2 import L2
from dperm.problem.regularizers.none import NoRegularizer

__all__ = ["L1", "L2", "BlockRegularizer", "ElasticNet", "GroupL2", "NoRegularizer", "Regularizer"]
