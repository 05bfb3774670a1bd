"""Every solver of the package, found through its base class, at its defaults and with its main settings."""

from contracts.discovered import concrete
from dperm import DPGD, DPSVRG, DPAccMD, DPSVRGPlusPlus
from dperm.solvers import Solver

SOLVER_EXAMPLES = [
    *(cls.example() for cls in concrete(Solver)),
    DPGD(accounting="composition"),
    DPGD(accounting="composition", release="uniform"),
    DPSVRG(form="printed"),
    DPSVRG(barzilai_borwein=True),
    DPSVRGPlusPlus(form="printed"),
    DPAccMD(y_step="argmin"),
]
