"""`dperm solvers`: what there is to choose from."""

from dataclasses import asdict

import click

from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.errors import InvalidParameterError


@click.command(context_settings=CONTEXT)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def solvers(names: tuple[str, ...]) -> None:
    """List the solvers, each with its row of the paper's comparison tables.

    Utility bounds are on the excess empirical risk, without constants and log(1/δ). Gradients are counted per
    example. p is the number of coefficients, κ = L/μ, G_C the Gaussian width of the domain C.

    Example: dperm solvers kifer-objective
    """
    with ended_by_an_interrupt():
        from dperm.solvers import SOLVERS
    unknown = set(names) - set(SOLVERS)
    if unknown:
        raise InvalidParameterError(f"unknown solver {', '.join(sorted(unknown))}; choose from {', '.join(SOLVERS)}.")
    for name in names or SOLVERS:
        profile = asdict(SOLVERS[name].profile)
        click.echo(f"{name}: {profile.pop('summary')}")
        for heading, text in profile.items():
            click.echo(f"  {heading + ':':<14}{text}")
        click.echo(f"  {'guarantee:':<14}{'δ = 0 (pure ε) or δ > 0' if SOLVERS[name].pure else 'δ > 0'}")
