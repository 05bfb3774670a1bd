"""Noise that a formula prescribes: it carries no guarantee, and is there to reproduce what was published."""

from collections.abc import Callable

from dperm.extensions import Registry
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.privacy.guarantee import Guarantee
from dperm.solvers.base import Solver

# What was asked for, public facts and what the formula is asked for, to the solver that runs and its plan with noise.
NoiseMode = Callable[[Solver, Setting, Guarantee], tuple[Solver, CalibratedPlan]]

NOISE_MODES: Registry[NoiseMode] = Registry({})
