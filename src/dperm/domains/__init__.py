"""Domains: one file each. To add one, write its file and import it here; the contract tests find it."""

from dperm.domains.base import Domain
from dperm.domains.box import Box
from dperm.domains.group_ball import GroupBall
from dperm.domains.l1_ball import L1Ball
from dperm.domains.l2_ball import L2Ball
from dperm.domains.simplex import Simplex
from dperm.domains.whole_space import WholeSpace

__all__ = ["Box", "Domain", "GroupBall", "L1Ball", "L2Ball", "Simplex", "WholeSpace"]
