"""What is minimised, and its constants from declared bounds alone. Nothing here sees a row.

`from dperm.problem import L2, Logistic`: every loss, regularizer and domain that its folder exports.
"""

from dperm.problem.domains import *  # noqa: F403
from dperm.problem.losses import *  # noqa: F403
from dperm.problem.problem import Constants as Constants
from dperm.problem.problem import Problem as Problem
from dperm.problem.regularizers import *  # noqa: F403
