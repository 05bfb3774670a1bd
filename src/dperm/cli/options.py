"""Options that `fit` and `plan` share, and how they become an estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dperm.cli.choices import ACCOUNTANTS, MODELS, OWN_OPTIONS
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.output import FILE
from dperm.errors import InvalidParameterError, InvalidTableError
from dperm.privacy.unit import CONTRIBUTIONS, MISSING
from dperm.schema import Amount, Schema

if TYPE_CHECKING:
    from dperm.models.base import PrivateEstimator

# Classes of dperm.problem.
_PENALTIES = {"l2": "L2", "l1": "L1", "elastic-net": "ElasticNet"}
_DOMAINS = {"l2-ball": "L2Ball", "l1-ball": "L1Ball", "box": "Box", "simplex": "Simplex"}

_OPTIONS = (
    click.option(
        "--model",
        type=click.Choice(MODELS),
        help="[default: logistic; linear if the schema's target has a range]",
    ),
    *(click.option(f"--{name.replace('_', '-')}", type=kind, help=text) for name, (kind, text) in OWN_OPTIONS.items()),
    click.option(
        "--row-norm",
        type=float,
        help="Clip rows to this l2 norm (without a schema) [default: 1; required for regression without a schema].",
    ),
    click.option("--entry-bound", type=float, help="Also scale rows to entries of at most this size [default: off]."),
    click.option(
        "--penalty",
        default="auto",
        show_default=True,
        help="auto, l2 or l1 (strength by rule), l2:λ or just λ, l1:λ, elastic-net:λ:ratio or none.",
    ),
    click.option(
        "--domain", default="none", show_default=True, help="l2-ball:r, l1-ball:r, box:low:high, simplex:total or none."
    ),
    click.option(
        "--solver",
        metavar="NAME",
        default="auto",
        show_default=True,
        help="auto, or a name from `dperm solvers`.",
    ),
    click.option(
        "--adjacency", type=click.Choice(["replace_one", "add_remove"]), default="replace_one", show_default=True
    ),
    click.option(
        "--noise",
        type=click.Choice(["certified", "paper", "none"]),
        default="certified",
        show_default=True,
        help="paper and none are not for release.",
    ),
    click.option(
        "--accountant",
        type=click.Choice(ACCOUNTANTS),
        default="pld",
        show_default=True,
        help="Accounting method used to calibrate noise. advanced-composition is the paper's Appendix B.1: more noise, "
        "and an error where its conditions fail.",
    ),
    click.option(
        "--intervals",
        type=float,
        help="Spend this share of the precision, such as 0.5, on confidence intervals (linear, poisson, and logistic "
        "with two classes) [default: off].",
    ),
    click.option(
        "--unit",
        help="Column identifying the privacy unit (e.g. patient_id); all rows of a unit are protected together, and n "
        "is the number of units [default: each row is its own unit].",
    ),
    click.option(
        "--max-rows-per-unit",
        type=int,
        help="Use at most this many rows of each unit, chosen at random; required unless --contribution average.",
    ),
    click.option(
        "--contribution",
        type=click.Choice(CONTRIBUTIONS),
        default="limit",
        show_default=True,
        help="Weight of a unit's row: limit, 1/max-rows-per-unit; average, 1/(rows used of the unit).",
    ),
    click.option(
        "--missing-units",
        type=click.Choice(MISSING),
        default="separate",
        show_default=True,
        help="Rows without an id: count each as its own unit, or drop them.",
    ),
    click.option("--intercept/--no-intercept", default=True, show_default=True, help="Fit an intercept."),
)


schema_option = click.option(
    "--schema",
    type=FILE,
    help="TOML file with the public facts about the table; see `dperm schema draft`.",
)


memory_option = click.option(
    "--memory",
    default="1 GB",
    show_default=True,
    help="Memory limit with a schema, e.g. 512 MB, at least 100 MB; Python and its libraries take 0.15 GB more.",
)


def fit_options(*, required: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the shared options to a command; ε is optional if not `required`."""
    guarantee = (
        click.option("--epsilon", type=float, required=required, help="ε of the guarantee, above 0."),
        click.option(
            "--delta", type=float, default=1e-5, show_default=True, help="δ of the guarantee; should be well below 1/n."
        ),
    )

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed((*guarantee, *_OPTIONS)):
            command = option(command)
        return command

    return decorated


def given_options(*names: str) -> list[str]:
    """Which of these parameters of the running command were given, as typed."""
    context = click.get_current_context()
    return [
        parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
        for parameter in context.command.params
        if parameter.name in names and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT
    ]


@contextmanager
def separator_by_option() -> Iterator[None]:
    """Name --separator where no line of a table has the fields: for commands that take it."""
    from dperm.rows.files import OtherSeparatorError

    try:
        yield
    except OtherSeparatorError as error:
        raise InvalidTableError(f"{error.fact}name it with --separator.") from None


def build_estimator(
    *,
    epsilon: float,
    delta: float,
    model: str | None,
    schema: Schema | None,
    row_norm: float | None,
    entry_bound: float | None,
    penalty: str,
    domain: str,
    solver: str,
    adjacency: str,
    noise: str,
    accountant: str,
    intervals: float | None,
    intercept: bool,
    **more: Any,
) -> PrivateEstimator:
    """Turn the options into an estimator."""
    with ended_by_an_interrupt():
        from dperm.models.linear import PrivateGLM
        from dperm.models.registry import models
        from dperm.models.regressor import LinearRegressor
    kind = models()[model or ("linear" if schema is not None and isinstance(schema.target, Amount) else "logistic")]
    given = {name: value for name, value in more.items() if name not in OWN_OPTIONS or value is not None}
    for name in given.keys() & OWN_OPTIONS.keys() - set(kind.own_parameters):
        able = " or ".join(key for key in MODELS if name in models()[key].own_parameters)
        raise InvalidParameterError(f"--{name.replace('_', '-')} requires --model {able}.")
    if "classes" in given:
        given["classes"] = [label.strip() for label in given["classes"].split(",")]
    if "hidden_layer_sizes" in given:
        given["hidden_layer_sizes"] = _whole_numbers("--hidden-layer-sizes", given["hidden_layer_sizes"])
    if issubclass(kind, LinearRegressor) and schema is None and row_norm is None:
        raise InvalidParameterError(
            "the scale of the columns is unknown: pass a --schema with their ranges (dperm schema draft TABLE), or "
            "--row-norm."
        )
    if issubclass(kind, PrivateGLM):
        given |= {"row_norm": row_norm, "entry_bound": entry_bound, "fit_intercept": intercept}
        if hasattr(kind, "intervals"):
            given["intervals"] = False if intervals is None else intervals
        elif intervals is not None:
            raise InvalidParameterError("--intervals goes with --model linear, logistic or poisson.")
        given["penalty"] = penalty if penalty in ("auto", "l2", "l1") else _penalty(penalty)
    else:
        if (row_norm, entry_bound, intercept) != (None, None, True):
            raise InvalidParameterError("--row-norm, --entry-bound and --no-intercept are for linear models.")
        if intervals is not None:
            raise InvalidParameterError(
                "--intervals is for linear models; single weights of a network have no meaning."
            )
        if penalty in ("l2", "l1"):
            raise InvalidParameterError("networks have no automatic penalty; pass e.g. --penalty l2:0.001.")
        given["penalty"] = None if penalty == "auto" else _penalty(penalty)
    return kind(
        epsilon,
        delta,
        domain=_parse("--domain", domain, _DOMAINS),
        solver=solver,
        adjacency=adjacency,
        noise=None if noise == "none" else noise,
        accountant=accountant,
        schema=schema,
        **given,
    )


def _whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Read "64,32"."""
    try:
        return tuple(int(number) for number in text.split(",") if number.strip())
    except ValueError:
        raise InvalidParameterError(f"{option} must be integers separated by commas, got {text!r}.") from None


def _penalty(text: str) -> Any:
    """Read a number, the strength of an l2 penalty with 0 for none, or what `_parse` reads."""
    from dperm.problem import L2

    try:
        strength = float(text)
    except ValueError:
        return _parse("--penalty", text, _PENALTIES)
    return None if strength == 0.0 else L2(strength)


def _parse(option: str, text: str, kinds: dict[str, str]) -> Any:
    """Read "name:number:number", or "none"."""
    from dperm import problem

    name, *numbers = text.split(":")
    if name == "none" and not numbers:
        return None
    if name not in kinds:
        words = "auto, none, a number" if option == "--penalty" else "none"
        raise InvalidParameterError(f"{option} must be {words} or start with one of {', '.join(kinds)}, got {text!r}.")
    try:
        return getattr(problem, kinds[name])(*map(float, numbers))
    except TypeError:
        raise InvalidParameterError(f"{option} has too many numbers: {text!r}.") from None
    except ValueError as error:
        if isinstance(error, InvalidParameterError):
            raise
        raise InvalidParameterError(f"{option} needs numbers after the colon, got {text!r}.") from None
