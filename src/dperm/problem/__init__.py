"""What is minimised, and its constants from declared bounds alone. Nothing here sees a row."""

from dperm.problem.problem import Constants, Problem

__all__ = ["Constants", "Problem"]
