"""Every solver of the package, found through its base class, at its defaults and with its main settings."""

from contracts.discovered import concrete
from dperm import DPGD, DPSVRG, DPAccMD, DPSVRGPlusPlus, TalwarMirror, price
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


def noiseless_gap(solver, problem, n, n_features):
    """How far from the optimum a run without noise may stay: nothing to speak of, or what the method's bound says."""
    if isinstance(solver, TalwarMirror):  # a mean of iterates: B/(ηT)
        fit = price(problem, n, n_features, guarantee=None, noise=None, solver=solver)
        settings = fit.paid.plan.settings
        return fit.setting.constants.divergence_bound / (settings["step_size"] * settings["n_steps"])
    return 1e-6
