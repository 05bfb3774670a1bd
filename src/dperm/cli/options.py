"""Options that `fit` and `plan` share, and how they become an estimator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dperm.accounting.calibration import ACCOUNTANTS
from dperm.errors import InvalidParameter
from dperm.estimators.base import PrivateLinearModel
from dperm.problem.domains import Box, Domain, L1Ball, L2Ball, Simplex
from dperm.problem.regularizers import L1, L2, ElasticNet, Regularizer
from dperm.release.model_file import ESTIMATORS
from dperm.schema import Amount, Schema
from dperm.solvers import SOLVERS

# Of every command.
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

_PENALTIES: dict[str, Callable[..., Regularizer]] = {"l2": L2, "l1": L1, "elastic-net": ElasticNet}
_DOMAINS: dict[str, Callable[..., Domain]] = {"l2-ball": L2Ball, "l1-ball": L1Ball, "box": Box, "simplex": Simplex}

_OPTIONS = (
    click.option("--epsilon", type=float, required=True, help="ε of the guarantee, above 0."),
    click.option("--delta", type=float, required=True, help="δ of the guarantee, well below 1/n."),
    click.option(
        "--model",
        type=click.Choice(list(ESTIMATORS)),
        help="[default: logistic; linear if the schema's target has a range]",
    ),
    click.option(
        "--classes",
        help="The public classes, separated by commas. If absent they are read from the table, and the result is "
        "not for release.",
    ),
    click.option("--target-bound", type=float, default=1.0, show_default=True, help="Clip targets to ± this (linear)."),
    click.option(
        "--row-norm", type=float, default=1.0, show_default=True, help="Clip rows to this l2 norm (without a schema)."
    ),
    click.option("--entry-bound", type=float, help="Clip rows to entries of this size as well [default: not]."),
    click.option("--penalty", default="l2:0.01", show_default=True, help="l2:λ, l1:λ, elastic-net:λ:ratio or none."),
    click.option(
        "--domain", default="none", show_default=True, help="l2-ball:r, l1-ball:r, box:low:high, simplex:total or none."
    ),
    click.option("--solver", type=click.Choice(["auto", *SOLVERS]), default="auto", show_default=True),
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
        help="How certified noise is found. advanced-composition is Appendix B.1 of the paper: more noise, and refused "
        "where its conditions fail.",
    ),
    click.option("--intercept/--no-intercept", default=True, show_default=True, help="Fit a constant as well."),
)


schema_option = click.option(
    "--schema",
    type=click.Path(path_type=Path),
    help="TOML file with the table's public facts; see `dperm schema draft`.",
)


def fit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def build_estimator(
    *,
    epsilon: float,
    delta: float,
    model: str | None,
    schema: Schema | None,
    classes: str | None,
    target_bound: float,
    row_norm: float,
    entry_bound: float | None,
    penalty: str,
    domain: str,
    solver: str,
    adjacency: str,
    noise: str,
    accountant: str,
    intercept: bool,
    **more: Any,
) -> PrivateLinearModel:
    """Turn the options into an estimator."""
    model = model or ("linear" if schema is not None and isinstance(schema.target, Amount) else "logistic")
    own: dict[str, Any] = {"target_bound": target_bound}
    if model != "linear":
        own = {"classes": None if classes is None else [label.strip() for label in classes.split(",")]}
    elif classes is not None:
        raise InvalidParameter("--classes goes with --model logistic or svc.")
    return ESTIMATORS[model](
        epsilon,
        delta,
        penalty=_parse("--penalty", penalty, _PENALTIES),
        domain=_parse("--domain", domain, _DOMAINS),
        row_norm=row_norm,
        entry_bound=entry_bound,
        solver=solver,
        adjacency=adjacency,
        noise=None if noise == "none" else noise,
        accountant=accountant,
        fit_intercept=intercept,
        schema=schema,
        **own,
        **more,
    )


def _parse(option: str, text: str, kinds: dict[str, Callable[..., Any]]) -> Any:
    """Read "name:number:number", or "none"."""
    name, *numbers = text.split(":")
    if name == "none" and not numbers:
        return None
    if name not in kinds:
        raise InvalidParameter(f"{option} must be none or start with one of {', '.join(kinds)}, got {text!r}.")
    try:
        return kinds[name](*map(float, numbers))
    except TypeError:
        raise InvalidParameter(f"{option} has too many numbers: {text!r}.") from None
    except ValueError as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(f"{option} needs numbers after the colon, got {text!r}.") from None
