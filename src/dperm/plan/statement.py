"""The privacy statement of a plan."""

import math

from dperm.accounting.composition import delta_of, epsilon_of
from dperm.kernel.noise import GENERATOR
from dperm.mechanisms.plan import CalibratedPlan
from dperm.mechanisms.setting import Setting
from dperm.plan.coefficient_noise import coefficient_noise
from dperm.privacy.caveats import Caveat
from dperm.privacy.guarantee import Guarantee
from dperm.privacy.statement import FitStatement
from dperm.problem import Problem

_CAVEATS: dict[str | None, tuple[Caveat, ...]] = {
    "certified": (),
    "paper": (Caveat.PAPER_NOISE,),
    None: (Caveat.NO_NOISE,),
}


def statement_of(
    problem: Problem,
    n_features: int,
    setting: Setting,
    calibrated: CalibratedPlan,
    mechanism: str,
    *,
    guarantee: Guarantee | None,
    noise: str | None,
    accountant: str = "pld",
    target_transform: str | None = None,
    certified: tuple[float, float] | None = None,
) -> FitStatement:
    """What a fit by this plan promises; what happens in a run (a seed, classes read from the rows) is added there.

    Parameters
    ----------
    problem : Problem
        What is minimised, with all that was left to rules.
    n_features : int
        Columns of a row.
    setting : Setting
        Public facts.
    calibrated : CalibratedPlan
        What will be asked, and its noise.
    mechanism : str
        What runs, in words.
    guarantee, noise, accountant
        As of `FitOptions`.
    target_transform : str, optional
        What a schema says is taken of targets.
    certified : (float, float), optional
        ε at this δ and δ at this ε where they are known; otherwise the accountant finds them.
    """
    plan = calibrated.plan
    epsilon, delta = (math.inf, 0.0) if guarantee is None else (guarantee.epsilon, guarantee.delta)
    first = plan.planned[0]
    if certified is None:
        event = calibrated.event()
        certified = (epsilon_of(event, delta, setting.adjacency), delta_of(event, epsilon, setting.adjacency))
    return FitStatement(
        epsilon,
        delta,
        certified_epsilon=certified[0],
        certified_delta=certified[1],
        adjacency=setting.adjacency.value,
        mechanism=mechanism,
        n_steps=plan.n_steps,
        noise=noise or "none",
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
        target_transform=target_transform,
        seeded=False,
        caveats=_CAVEATS[noise],
        accountant=accountant,
        private_ranges=plan.private_ranges,
        private_edges=plan.private_edges,
        coefficient_noise=coefficient_noise(calibrated),
        generator=GENERATOR,
        exact=noise is not None,
        gradient_clip=None if problem.loss.scales_rows else setting.constants.lipschitz,
        unit=setting.unit,
    )
