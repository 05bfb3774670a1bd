"""Tables 1 to 3: their rows with the paper's bounds, and the problems that they are measured on."""

import math
from collections.abc import Sequence
from dataclasses import replace

from dperm.paper.studies.reproduce.bounds import DELTA, Axis, Place, Row
from dperm.paper.studies.reproduce.comparison import Comparison
from dperm.paper.studies.reproduce.rows import HARD_LENGTH, HardRows, SparseRows, SphereRows
from dperm.problem.domains import L1Ball
from dperm.solvers.descent.bassily_sgd import BassilySGD
from dperm.solvers.mirror.dp_accmd import DPAccMD
from dperm.solvers.mirror.talwar_frank_wolfe import TalwarFrankWolfe
from dperm.solvers.mirror.talwar_mirror import TalwarMirror
from dperm.solvers.perturbation.chaudhuri_objective import ChaudhuriObjective
from dperm.solvers.perturbation.kifer_objective import KiferObjective
from dperm.solvers.perturbation.talwar_objective import TalwarObjective
from dperm.solvers.perturbation.zhang_output import ZhangOutput
from dperm.solvers.variance_reduced.dp_svrg import DPSVRG
from dperm.solvers.variance_reduced.dp_svrg_plus_plus import DPSVRGPlusPlus

STRENGTH, RADIUS = 0.1, 20.0
KAPPA = 0.25 / STRENGTH


def _axes(
    base: Place, ns: Sequence[int], epsilons: Sequence[float], ps: Sequence[int], *, logarithmic: bool = False
) -> tuple[Axis, ...]:  # fmt: skip
    by_p = tuple(replace(base, p=p) for p in ps)
    return (
        Axis("n", tuple(replace(base, n=n) for n in ns), lambda at: at.n),
        Axis("ε", tuple(replace(base, epsilon=epsilon) for epsilon in epsilons), lambda at: at.epsilon),
        Axis("ln 2p", by_p, lambda at: math.log(2.0 * at.p)) if logarithmic else Axis("p", by_p, lambda at: at.p),
    )


def _squared_n(at: Place) -> float:
    return float(at.n) ** 2


def _bassily(quick: bool) -> BassilySGD:
    return BassilySGD(max_steps=5_000, max_passes=10.0) if quick else BassilySGD()


def table_1(quick: bool) -> Comparison:
    """Strongly convex: p ln(1/δ)/(μ n²ε²), here with μ = λ."""

    def rate(at: Place) -> float:
        return at.p * at.log_delta / (STRENGTH * (at.n * at.epsilon) ** 2)

    seeds = 3 if quick else 16
    rows = (
        Row("Chaudhuri et al., objective perturbation", ChaudhuriObjective(), (rate,), (), False, seeds, pure=True),
        Row(
            "Kifer et al., objective perturbation", KiferObjective(),
            (rate, lambda at: 1.0 / (at.n * at.epsilon)), (), True, seeds,
        ),
        Row(
            "Bassily et al., gradient perturbation", _bassily(quick),
            (lambda at: rate(at) * math.log(at.n) ** 2,), (_squared_n,), True, 3 * seeds,
            counted=_squared_n, outdone=True, published=False,
        ),
        Row(
            "Zhang et al., output perturbation", ZhangOutput(),
            (rate,), (lambda at: at.n * KAPPA * math.log(at.n * at.epsilon / KAPPA),), False, seeds,
            outdone=True,
        ),
        Row(
            "this paper, DP-SVRG", DPSVRG(),
            (lambda at: rate(at) * math.log(at.n),),
            (lambda at: (at.n + KAPPA) * math.log(at.n * at.epsilon * STRENGTH / at.p),),
            True, seeds, published=not quick,
        ),
    )  # fmt: skip
    base = Place(8_000, 1.0, 20) if quick else Place(20_000, 1.0, 40)
    axes = (
        _axes(base, (4_000, 8_000, 16_000), (0.5, 1.0, 2.0), (10, 20, 40))
        if quick
        else _axes(base, (5_000, 10_000, 20_000, 40_000, 80_000), (0.25, 0.5, 1.0, 2.0), (20, 40, 80, 160, 320))
    )
    return Comparison(
        "table-1",
        "Table 1: strongly convex losses",
        f"Ridge {STRENGTH:g}",
        (
            f"Logistic loss with a ridge of {STRENGTH:g} on rows of norm 1 in random directions. Bassily et al. take "
            "n² steps as published, which are not run: their row has certified noise on fewer steps. Chaudhuri et al. "
            "have pure ε, for which p² is known and the table's p is not. The rows themselves add a curvature of "
            "1/(4p), an eighth of the ridge or less.",
        ),
        rows,
        lambda at, seed: SphereRows(at.n, at.p, seed, STRENGTH),
        lambda at, seed: SphereRows(at.n, at.p, seed, STRENGTH, l1=0.002),
        axes,
        base,
        is_headline=True,
    )


def table_2(quick: bool) -> Comparison:
    """Convex: ‖w*‖ √(p ln(1/δ))/(nε)."""

    def share(at: Place) -> float:
        return math.sqrt(at.p * at.log_delta) / (at.n * at.epsilon)

    def rate(at: Place) -> float:
        return HARD_LENGTH * share(at)

    quick_seeds, slow_seeds = (3, 3) if quick else (24, 6)
    rows = (
        Row("Kifer et al., objective perturbation", KiferObjective(), (rate,), (), True, quick_seeds),
        Row(
            "Bassily et al., gradient perturbation", _bassily(quick),
            (lambda at: rate(at) * math.log(at.n) ** 1.5,), (_squared_n,), True, slow_seeds,
            counted=_squared_n, outdone=True, published=False,
        ),
        Row(
            "Zhang et al., output perturbation", ZhangOutput(),
            (lambda at: HARD_LENGTH * share(at) ** (2.0 / 3.0),),
            (lambda at: at.n * (at.n * at.epsilon / at.p) ** (2.0 / 3.0),), False, quick_seeds,
            outdone=True,
        ),
        Row(
            "this paper, DP-SVRG++", DPSVRGPlusPlus(max_steps=300) if quick else DPSVRGPlusPlus(),
            (rate,),
            (lambda at: at.n * at.epsilon / math.sqrt(at.p), lambda at: at.n * math.log(at.n * at.epsilon / at.p)),
            True, slow_seeds, published=not quick,
        ),
    )  # fmt: skip
    base = Place(10_000, 1.0, 10) if quick else Place(40_000, 1.0, 20)
    axes = (
        _axes(base, (5_000, 10_000, 20_000), (0.5, 1.0, 2.0), (5, 10, 20))
        if quick
        else _axes(base, (10_000, 20_000, 40_000, 80_000), (0.5, 1.0, 2.0, 4.0), (10, 20, 40, 80))
    )
    return Comparison(
        "table-2",
        "Table 2: convex losses",
        "No regularizer",
        (
            "Logistic loss without a regularizer. On fixed rows the risk of a smooth loss falls faster than Table 2's "
            "rate; so for every n, ε and p the rows are so short that their curvature is close to the least favourable "
            "one (about 16 times it, where w = 0 has about 256 times the excess of the best noisy minimiser). So F(0) "
            "− F* roughly follows the rate itself: its powers are in the table, and a method must stay well below it "
            "to count. Bassily et al.'s n² steps are not run: their row has certified noise on fewer steps.",
        ),
        rows,
        lambda at, seed: HardRows(at.n, at.p, seed, at.epsilon, DELTA),
        lambda at, seed: HardRows(at.n, at.p, seed, at.epsilon, DELTA, l1=1e-4),
        axes,
        base,
    )


def table_3(quick: bool) -> Comparison:
    """High-dimensional, on the l1 ball: √(G_C² + ‖C‖²) √ln(1/δ)/(nε)."""
    ball = L1Ball(RADIUS)
    diameter = 2.0 * RADIUS

    def width(at: Place) -> float:
        return ball.gaussian_width(at.p)

    def unit(at: Place) -> float:
        return math.sqrt(at.log_delta) / (at.n * at.epsilon)

    most, seeds = (100, 2) if quick else (1_000, 4)
    rows = (
        Row(
            "Talwar et al. 2014, gradient perturbation", TalwarMirror(max_steps=most),
            (lambda at: width(at) * math.log(at.n) * unit(at), lambda at: diameter * math.log(at.n) * unit(at)),
            (lambda at: at.n**3 * at.epsilon**2 / ((width(at) ** 2 + diameter**2) * math.log(at.n) ** 2),), True, seeds,
            counted="paper", outdone=True,
        ),
        Row(
            "Talwar et al. 2014, objective perturbation", TalwarObjective(),
            (lambda at: width(at) * unit(at), lambda at: 0.25 * diameter**2 * unit(at)), (), False, seeds,
        ),
        Row(
            "Talwar et al. 2015, Frank–Wolfe", TalwarFrankWolfe(max_steps=most),
            (lambda at: (width(at) * unit(at)) ** (2.0 / 3.0) * math.log(at.n) ** 2,),
            (lambda at: at.n * (at.n * at.epsilon / width(at)) ** (2.0 / 3.0),), True, seeds,
        ),
        Row(
            "this paper, DP-AccMD", DPAccMD(),
            (lambda at: width(at) * unit(at), lambda at: diameter * unit(at)),
            (lambda at: at.n**1.5 * math.sqrt(at.epsilon / math.hypot(width(at), diameter)),), False, seeds,
        ),
    )  # fmt: skip
    base = Place(2_000, 4.0, 100) if quick else Place(10_000, 1.0, 1_000)
    axes = (
        _axes(base, (1_000, 2_000, 4_000), (2.0, 4.0, 8.0), (40, 100, 200), logarithmic=True)
        if quick
        else _axes(
            base, (5_000, 10_000, 20_000, 40_000), (0.5, 1.0, 2.0, 4.0), (100, 1_000, 10_000, 30_000),
            logarithmic=True,
        )
    )  # fmt: skip
    return Comparison(
        "table-3",
        "Table 3: many columns, on the l1 ball",
        f"Radius {RADIUS:g}",
        (
            "Logistic loss on the l1 ball, sparse rows of norm about 1, ten columns that matter. The table's G_C is "
            "the Gaussian width of the ball, about √(2 ln 2p) times its radius, and ‖C‖ its diameter: so powers are of "
            f"ln 2p. Noisy mirror descent and Frank–Wolfe are cut at {most} steps, a matter of running time; for "
            "mirror descent the gradients are those of its published number of steps. The table's complexity of "
            "Frank–Wolfe counts steps: n times that is taken. None of these solvers takes a regularizer. These rows "
            "are not the least favourable ones: excess risk may fall faster than the bounds.",
        ),
        rows,
        lambda at, seed: SparseRows(at.n, at.p, seed, RADIUS),
        lambda at, seed: SparseRows(at.n, at.p, seed, RADIUS, l1=1e-3),
        axes,
        base,
    )
