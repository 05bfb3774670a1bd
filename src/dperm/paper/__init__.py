"""The paper's printed forms, methods that it compares with, its accountant and its studies.

Nothing else of dperm imports it: it is loaded when one of its names is asked for, such as `solver="rrpsgd"`,
`noise="paper"` or `accountant="advanced-composition"`, and rests on public names alone (docs/extending.md).
"""

from dperm.accounting.calibration import ACCOUNTANTS, Accountant
from dperm.paper.advanced_composition import advanced_composition_epsilon, advanced_composition_noise
from dperm.paper.printed import PrintedSVRG, PrintedSVRGPlusPlus, PublishedAdaSSP, published_plan
from dperm.paper.solvers.rrpsgd import RRPSGD
from dperm.plan.noise_modes import NOISE_MODES
from dperm.solvers import SOLVERS

__all__ = ["RRPSGD", "PrintedSVRG", "PrintedSVRGPlusPlus", "PublishedAdaSSP"]

SOLVERS.register(RRPSGD.name, RRPSGD)
NOISE_MODES.register("paper", published_plan)
ACCOUNTANTS.register("advanced-composition", Accountant(advanced_composition_epsilon, advanced_composition_noise))
