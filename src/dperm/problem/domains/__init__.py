"""Domains: one file each. docs/extending.md says how to add one."""

from dperm.problem.domains.base import Domain
from dperm.problem.domains.blocks import BlockDomain
from dperm.problem.domains.box import Box
from dperm.problem.domains.group_ball import GroupBall
from dperm.problem.domains.l1_ball import L1Ball
from dperm.problem.domains.l2_ball import L2Ball
from dperm.problem.domains.simplex import Simplex
from dperm.problem.domains.whole_space import WholeSpace

__all__ = ["BlockDomain", "Box", "Domain", "GroupBall", "L1Ball", "L2Ball", "Simplex", "WholeSpace"]
