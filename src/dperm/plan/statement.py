"""The privacy statement of a plan."""

import math
from typing import TYPE_CHECKING

from dperm.accounting.composition import delta_of, epsilon_of
from dperm.kernel.noise import GENERATOR
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.plan.coefficient_noise import coefficient_noise
from dperm.privacy.statement import PrivacyStatement
from dperm.problem import Problem
from dperm.solvers import Solver

if TYPE_CHECKING:
    from dperm.plan.options import FitOptions

_CAVEATS = {
    "certified": (),
    "paper": ("the paper's noise is for reproduction only",),
    None: ("no noise was added",),
}


def statement_of(
    options: "FitOptions",
    problem: Problem,
    n_features: int,
    setting: Setting,
    solver: Solver,
    calibrated: CalibratedPlan,
) -> PrivacyStatement:
    """What a fit by this plan promises; what happens in a run (a seed, classes read from the rows) is added there.

    Parameters
    ----------
    options : FitOptions
        What was asked for.
    problem : Problem
        What is minimised, with all that was left to rules.
    n_features : int
        Columns of a row.
    setting : Setting
        Public facts.
    solver : Solver
        The one that was chosen.
    calibrated : CalibratedPlan
        What will be asked, and its noise.
    """
    guarantee, plan = options.guarantee, calibrated.plan
    promised = (math.inf, 0.0) if options.noise is None or guarantee is None else (guarantee.epsilon, guarantee.delta)
    epsilon, delta = promised
    event, first = calibrated.event(), plan.planned[0]
    return PrivacyStatement(
        epsilon=epsilon,
        delta=delta,
        certified_epsilon=epsilon_of(event, delta, setting.adjacency),
        certified_delta=delta_of(event, epsilon, setting.adjacency),
        adjacency=setting.adjacency.value,
        mechanism=f"{solver.name} without noise" if options.noise is None else plan.mechanism,
        n_steps=plan.n_steps,
        noise=options.noise or "none",
        noise_multiplier=(calibrated.noise_multiplier or 0.0) * first.relative_noise,
        sigma=calibrated.sigma(first),
        noise_levels=len({item.relative_noise for item in plan.planned}),
        distribution=first.query.distribution,
        n=setting.n,
        n_features=n_features,
        classes=None,
        row_norm=problem.row_norm if problem.loss.scales_rows else math.inf,
        full_row_norm=problem.full_row_norm if problem.loss.scales_rows else math.inf,
        entry_bound=problem.entry_bound,
        target_range=problem.loss.clipped_range,
        target_transform=None if options.schema is None else getattr(options.schema.target, "transform", None),
        seeded=False,
        caveats=_CAVEATS[options.noise],
        accountant=options.accountant,
        private_ranges=plan.private_ranges,
        private_edges=plan.private_edges,
        coefficient_noise=coefficient_noise(calibrated),
        generator=GENERATOR,
        exact=options.noise is not None,
        gradient_clip=None if problem.loss.scales_rows else setting.constants.lipschitz,
        unit=setting.unit,
    )
