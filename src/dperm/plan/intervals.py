"""What intervals need of a fit: queries that are asked after the solver, with a share of the precision."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.accounting.curve import gaussian_mu
from dperm.errors import InvalidParameterError
from dperm.mechanisms import GradientQuery, HessianQuery, MomentsQuery
from dperm.mechanisms.plan import CalibratedPlan, PlannedQuery
from dperm.mechanisms.setting import Setting
from dperm.plan.uncertainty import Uncertainty
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.problem.losses import Logistic, Poisson, Squared
from dperm.schema import Amount, Bins, Category, Schema
from dperm.validation import finite

Array = NDArray[np.float64]

# The share of the precision (of μ²) that goes to intervals if nobody says how much.
DEFAULT_SHARE = 0.5
# How that is divided: a Hessian and a gradient at the coefficients, and a gradient at the point that they lead to, are
# there to come near; the intervals rest on a Hessian and a gradient at the last point.
_SHARES = (0.12, 0.06, 0.12, 0.3, 0.4)
# What the target adds to ‖z‖², over what the row does, κ²t²/R²: noise hurts least near here if ‖w‖ is about t/R.
_TARGET_SHARE = 0.5
# A matrix of this many rows still goes into a model file.
_MOST_COEFFICIENTS = 1000


def check_share(intervals: object) -> float:
    """The share of the precision for intervals, 0 for none, or raise."""
    if isinstance(intervals, bool | np.bool_):
        return DEFAULT_SHARE if intervals else 0.0
    share = finite("intervals", intervals)
    if not 0.0 < share < 1.0:
        raise InvalidParameterError(
            f"intervals must be True, False or a share of the precision strictly between 0 and 1, got {intervals!r}."
        )
    return share


def check_problem(problem: Problem, guarantee: Guarantee | None) -> None:
    """Raise unless there are intervals for this problem and this guarantee."""
    if type(problem.loss) not in (Logistic, Squared, Poisson):
        raise InvalidParameterError(
            "intervals are available for logistic regression with two classes, linear regression and Poisson "
            f"regression, not for the loss {problem.loss.name}: leave intervals out."
        )
    if problem.weight_bound != 1.0:
        raise InvalidParameterError("intervals cannot be combined with class_weight or sample_weight.")
    if guarantee is not None and guarantee.delta == 0.0:
        raise InvalidParameterError("intervals need Gaussian noise, hence delta > 0.")


def interval_queries(
    problem: Problem, setting: Setting, guarantee: Guarantee, share: float
) -> tuple[PlannedQuery, ...]:  # fmt: skip
    """What is asked after the solver, with noise that costs this share of a guarantee's precision.

    Parameters
    ----------
    problem : Problem
        One that `check_problem` takes.
    setting : Setting
        Its constants, the public n and the adjacency.
    guarantee : Guarantee
        What there is for the solver and for this together.
    share : float
        Of μ².
    """
    size = setting.constants.dimension
    if size > _MOST_COEFFICIENTS:
        raise InvalidParameterError(
            f"intervals are available for at most {_MOST_COEFFICIENTS} coefficients, and this fit has {size}."
        )
    mu = math.sqrt(share) * gaussian_mu(guarantee)
    if isinstance(problem.loss, Squared):
        return (_planned(moments_query(problem, setting), mu),)
    hessian, gradient = HessianQuery(setting), GradientQuery(setting)
    queries = (hessian, gradient, gradient, hessian, gradient)
    return tuple(_planned(query, math.sqrt(part) * mu) for query, part in zip(queries, _SHARES, strict=True))


def _planned(query: Any, mu: float) -> PlannedQuery:
    return PlannedQuery(query, relative_noise=1.0 / mu * (1.0 + 1e-11), fixed=True)


def moments_query(problem: Problem, setting: Setting) -> MomentsQuery:
    """The second moments of rows and targets, with the targets scaled so that noise hurts both alike."""
    if not isinstance(problem.loss, Squared):
        raise InvalidParameterError("second moments are for least squares.")
    norm = problem.full_row_norm
    return MomentsQuery(
        setting,
        math.sqrt(_TARGET_SHARE) * norm / problem.loss.target_bound,
        (1.0 + _TARGET_SHARE) * norm**2 * (1.0 + 1e-12),
    )


def in_words(afterwards: tuple[PlannedQuery, ...]) -> str | None:
    """What is found after the solver, for the statement."""
    if not afterwards:
        return None
    what = "the second moments" if isinstance(afterwards[0].query, MomentsQuery) else "Hessians and gradients"
    levels = ", ".join(f"{item.relative_noise:.4g}" for item in afterwards)
    return f"{what} for intervals (Gaussian, multiplier{'s' if len(afterwards) > 1 else ''} {levels})"


def ask_uncertainty(
    ask: Callable[..., Array], problem: Problem, calibrated: CalibratedPlan, schema: Schema | None, w: Array
) -> Uncertainty | None:
    """Ask what the plan has for intervals, at released coefficients; None where it has nothing.

    Parameters
    ----------
    ask : callable
        The oracle's.
    problem : Problem
        What was minimised.
    calibrated : CalibratedPlan
        What runs.
    schema : Schema or None
        What rows were encoded by.
    w : array
        Released coefficients.
    """
    afterwards = calibrated.plan.afterwards
    if not afterwards:
        return None
    if isinstance(afterwards[0].query, MomentsQuery):
        scale, matrix, zero = afterwards[0].query.target_scale, ask(afterwards[0]), np.zeros(w.size)
        hessian, products, square = matrix[:-1, :-1], matrix[:-1, -1] / scale, float(matrix[-1, -1]) / scale**2
        dispersion = _residual_variance(hessian, products, square, w, problem)
        facts = public_facts(problem, calibrated, schema, zero)
        return Uncertainty(zero, -products, hessian, dispersion=dispersion, **facts)
    dispersion = dispersion_of(problem, schema)
    rough, *looks, curvature, slope = afterwards
    point = centred(w, levels_of(schema), problem.intercept_value)
    hessian = ask(rough, point)
    for look in looks:
        facts = public_facts(problem, calibrated, schema, point, (rough, look))
        point = Uncertainty(point, ask(look, point), hessian, dispersion=dispersion, **facts).nearer_point()
    facts = public_facts(problem, calibrated, schema, point)
    return Uncertainty(point, ask(slope, point), ask(curvature, point), dispersion=dispersion, **facts)


def dispersion_of(problem: Problem, schema: Schema | None) -> float:
    """φ of a model whose variance follows from its mean: counts over their largest have less than counts."""
    if schema is None or not isinstance(problem.loss, Poisson) or not isinstance(schema.target, Amount):
        return 1.0
    low, high = schema.target.number.bounds
    return 1.0 / (high - low)


def public_facts(
    problem: Problem,
    calibrated: CalibratedPlan,
    schema: Schema | None,
    point: Array,
    asked: tuple[PlannedQuery, PlannedQuery] | None = None,
) -> dict[str, Any]:
    """What `Uncertainty` holds besides answers: it follows from the plan and the released point.

    Parameters
    ----------
    problem, calibrated, schema
        As of `ask_uncertainty`.
    point : array
        Where the Hessian and the gradient are asked for.
    asked : pair of PlannedQuery, optional
        The two; by default the last of the plan.
    """
    afterwards = calibrated.plan.afterwards
    if isinstance(afterwards[0].query, MomentsQuery):
        hessian_noise = calibrated.sigma(afterwards[0])
        gradient_noise = hessian_noise / (math.sqrt(2.0) * afterwards[0].query.target_scale)
    else:
        noises = [calibrated.sigma(item, item.query.sensitivity_at(point)) for item in asked or afterwards[-2:]]
        hessian_noise, gradient_noise = noises
    return {
        "gradient_noise": gradient_noise,
        "hessian_noise": hessian_noise,
        # |ℓ'''| ≤ ℓ'' for logistic losses, ℓ''' = ℓ'' for Poisson losses, and ℓ''' = 0 for least squares.
        "bend": 0.0 if isinstance(problem.loss, Squared) else problem.full_row_norm,
        "skew": float(isinstance(problem.loss, Poisson)),
        "constant": problem.intercept_value,
        "n": calibrated.plan.n,
        "groups": levels_of(schema),
    }


def levels_of(schema: Schema | None) -> tuple[tuple[int, int], ...]:
    """Where the levels of every category stand among the entries of a row."""
    found, first = [], 0
    for name, column in ({} if schema is None else schema.columns).items():
        last = first + len(column.column_names(name))
        if isinstance(column, Category | Bins):
            found.append((first, last))
        first = last
    return tuple(found)


def centred(w: Array, groups: tuple[tuple[int, int], ...], constant: float) -> Array:
    """Coefficients that predict the same and whose levels add up to 0, but for a first category without a constant."""
    found = w.copy()
    for first, last in groups if constant else groups[1:]:
        mean = float(found[first:last].mean())
        found[first:last] -= mean
        if constant:
            found[-1] += mean / constant
        else:
            found[slice(*groups[0])] += mean
    return found


def _residual_variance(hessian: Array, products: Array, square: float, w: Array, problem: Problem) -> float:
    """The mean squared residual at the coefficients, from released moments; between 0 and the largest that there is."""
    largest = problem.loss.target_bound**2  # type: ignore[attr-defined]
    found = square - 2.0 * float(products @ w) + float(w @ hessian @ w)
    return float(np.clip(np.nan_to_num(found, nan=largest), 1e-9 * largest, largest))
