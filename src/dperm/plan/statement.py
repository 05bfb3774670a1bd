"""The privacy statement of a plan."""

import math
from typing import TYPE_CHECKING

from dperm.accounting.composition import delta_of, epsilon_of
from dperm.kernel.noise import GENERATOR
from dperm.plan.coefficient_noise import coefficient_noise
from dperm.privacy.caveats import Caveat
from dperm.privacy.statement import FitStatement

if TYPE_CHECKING:
    from dperm.plan.fit_plan import FitPlan

_CAVEATS: dict[str | None, tuple[Caveat, ...]] = {
    "certified": (),
    "paper": (Caveat.PAPER_NOISE,),
    None: (Caveat.NO_NOISE,),
}


def statement_of(fit: "FitPlan") -> FitStatement:
    """What a fit by this plan promises; what happens in a run (a seed, classes read from the rows) is added there."""
    options, problem, setting, calibrated = fit.options, fit.problem, fit.setting, fit.calibrated
    guarantee, plan = fit.promise.guarantee, calibrated.plan
    epsilon, delta = (math.inf, 0.0) if guarantee is None else (guarantee.epsilon, guarantee.delta)
    event, first = fit.event, plan.planned[0]
    return FitStatement(
        epsilon,
        delta,
        certified_epsilon=epsilon_of(event, delta, setting.adjacency),
        certified_delta=delta_of(event, epsilon, setting.adjacency),
        adjacency=setting.adjacency.value,
        mechanism=f"{fit.solver.name} without noise" if options.noise is None else plan.mechanism,
        n_steps=plan.n_steps,
        noise=options.noise or "none",
        noise_multiplier=(calibrated.noise_multiplier or 0.0) * first.relative_noise,
        sigma=calibrated.sigma(first),
        noise_levels=len({item.relative_noise for item in plan.planned}),
        distribution=first.query.distribution,
        n=setting.n,
        n_features=fit.n_features,
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
