"""Every solver of the package, found through its base class, at its defaults and with its main settings."""

import dperm.paper  # its solvers are found as well
from contracts.discovered import concrete
from dperm import FitOptions
from dperm.solvers import DPAGD, DPGD, DPSVRG, DPAccMD, DPAdam, Solver, TalwarFrankWolfe, TalwarMirror

# Few steps, for the sake of time: accounting for millions of them takes a while.
_FEW = {
    "bassily-sgd": {"max_steps": 2_000, "max_passes": 20.0},
    "dp-adam": {"n_steps": 200},
    "dp-sgd": {"max_steps": 2_000, "max_passes": 20.0},
    "dp-spider": {"max_steps": 100},
    "dp-svrg++": {"max_steps": 2_000},
    "dp-svrg++ as printed": {"max_steps": 2_000},
    "rrpsgd": {"max_steps": 2_000, "max_passes": 20.0},
    "talwar-mirror": {"max_steps": 1_000},
}


def example_of(method):
    """A solver at its defaults, but for how many steps they take."""
    return method(**_FEW.get(method.name, {}))


# What several of them share has no name.
METHODS = [cls for cls in concrete(Solver) if hasattr(cls, "name")]

SOLVER_EXAMPLES = [
    *map(example_of, METHODS),
    DPGD(accounting="composition"),
    DPGD(accounting="composition", release="uniform"),
    DPSVRG(barzilai_borwein=True),
    DPAccMD(y_step="argmin"),
    DPAdam(n_steps=500, sampling_rate=1.0, second_momentum=None),
]

# Those that return an iterate drawn at random do not ask all that is planned, nor come to the optimum every time.
STEADY_EXAMPLES = [
    solver
    for solver in SOLVER_EXAMPLES
    if not isinstance(solver, dperm.paper.RRPSGD) and getattr(solver, "release", None) != "uniform"
]

# With a step size of its own for every coefficient DP-Adam is exact for regularizers that work coordinate by coordinate
# (tests/solvers/test_dp_adam.py), not for groups and balls. With one step size it is exact for all.
CONVERGING_EXAMPLES = [
    solver for solver in STEADY_EXAMPLES if not (isinstance(solver, DPAdam) and solver.second_momentum is not None)
]


def noiseless_gap(solver, problem, n, n_features):
    """How far from the optimum a run without noise may stay: nothing to speak of, or what the method's bound says."""
    if isinstance(solver, DPAGD):
        return 1e-5  # what its default T aims at
    if not isinstance(solver, TalwarMirror | TalwarFrankWolfe):
        return 1e-6
    fit = FitOptions(problem, guarantee=None, noise=None, solver=solver).plan(n, n_features)
    constants, settings = fit.setting.constants, fit.settings
    if isinstance(solver, TalwarFrankWolfe):  # 2Γ/(T + 2)
        return 2.0 * constants.curvature / (settings.n_steps + 2.0)
    return constants.divergence_bound / (settings.step_size * settings.n_steps)  # a mean of iterates: B/(ηT)
