"""`dperm plan`: what a fit would cost, from public numbers."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.options import build_estimator, fit_options, memory_option, schema_option
from dperm.errors import InvalidParameterError
from dperm.schema import load_schema
from dperm.validation import positive

if TYPE_CHECKING:
    from dperm.mechanisms.setting import Setting
    from dperm.plan.fit_plan import FitPlan
    from dperm.privacy.guarantee import Guarantee
    from dperm.solvers import Solver


@click.command(context_settings=CONTEXT)
@schema_option
@click.option("--n", type=int, help="Public number of rows, or of privacy units [default: the schema's].")
@click.option("--p", "n_features", type=int, help="Public number of feature columns [default: the schema's].")
@click.option(
    "--rows-per-unit",
    type=float,
    help="With --unit: typical number of rows per unit, if public, to compare choices of --max-rows-per-unit.",
)
@click.option("--explain", is_flag=True, help="Show the predicted risk of every solver, by which auto chooses.")
@memory_option
@fit_options()
def plan(
    schema: Path | None, n: int | None, n_features: int | None, rows_per_unit: float | None, explain: bool, memory: str,
    **options: Any,
) -> None:  # fmt: skip
    """Show noise and privacy cost of a fit without reading data.

    With --unit it also compares choices of --max-rows-per-unit.

    Example: dperm plan --n 200000 --p 54 --epsilon 1 --delta 1e-6 --explain

    Example: dperm plan --n 20000 --p 54 --epsilon 1 --delta 1e-6 --unit patient_id --max-rows-per-unit 5
    """
    with ended_by_an_interrupt():
        from dperm.plan.large_delta import warn_of_large_delta
        from dperm.rows.memory import MemoryBudget, is_on_disk
    if explain and options["noise"] != "certified":
        raise InvalidParameterError("--explain requires certified noise; remove --noise.")
    public = None if schema is None else load_schema(schema)
    if public is not None and n_features is not None:
        raise InvalidParameterError("--p cannot be combined with --schema, which determines the number of columns.")
    if (n is None and (public is None or public.n is None)) or (public is None and n_features is None):
        raise InvalidParameterError("pass --n and --p, or a --schema that declares n.")
    model = build_estimator(**options, schema=public, n=n)
    whose = model.options().protected_unit
    if rows_per_unit is not None and whose is None:
        raise InvalidParameterError("--rows-per-unit requires --unit.")
    if rows_per_unit is not None:
        positive("--rows-per-unit", rows_per_unit)
    budget = MemoryBudget.of(memory)
    planned = model.plan(
        n, n_features, is_slow=lambda rows, schema: schema is not None and is_on_disk(rows, schema, budget)
    )
    constants = planned.setting.constants
    warn_of_large_delta(planned.statement.delta, planned.statement.n, planned.statement.unit)
    click.echo(str(planned))
    click.echo(
        f"constants:  G = {constants.lipschitz:g}, L = {constants.smoothness:g}, μ = {constants.strong_convexity:g}, "
        f"diameter {constants.diameter:g}, {constants.dimension} coefficients"
    )
    click.echo(f"solver:     {', '.join([planned.solver.name, *_settings(planned.settings)])}")
    click.echo(f"cost:       {_passes(planned.passes)}")
    if planned.statement.noise == "certified":
        click.echo(f"checked:    {_cross_check(planned)}")
    if whose is not None and planned.verdict.word not in ("unknown", "exact"):
        click.echo(f"\n{planned.risk_of_max_rows(rows_per_unit)}")
    if explain:
        _explain(planned)


def _explain(planned: FitPlan) -> None:
    """Every solver that takes the problem, the smallest expected risk first."""
    from dperm.plan.auto import predictions
    from dperm.solvers import SOLVERS

    guarantee = planned.guarantee
    click.echo("\nexpected excess risk of every solver that supports this problem, and its passes over the rows:")
    for solver, risk in predictions(planned.problem, planned.setting, guarantee, tuple(SOLVERS.values())):
        passes = _passes_of(solver, planned.setting, guarantee)
        expected = f"{risk:.1e}" if math.isfinite(risk) else "unknown"
        cost = "unknown" if passes is None else f"{passes:.3g}" if math.isfinite(passes) else "until solved"
        click.echo(f"  {solver.name:<22}{expected:>9}  {cost:>12}")
    click.echo("These are estimates from public numbers: they rank the solvers and may be off by a factor of several.")


def _passes_of(solver: Solver, setting: Setting, guarantee: Guarantee) -> float | None:
    """How often a solver would read the rows; None if it cannot plan with numbers of these sizes."""
    try:
        return solver.plan(setting, guarantee).passes
    except (ArithmeticError, ValueError):
        return None


def _passes(passes: float) -> str:
    if passes == float("inf"):
        return "as many passes over the rows as the minimiser takes, which is not published"
    return f"{round(passes, 1):g} passes over the rows"


def _cross_check(planned: FitPlan) -> str:
    """What an accountant that shares no code with the first one says."""
    from dperm.accounting.renyi import has_renyi_bound, rdp_epsilon

    event, statement = planned.event, planned.statement
    if not has_renyi_bound(event):
        return f"evaluated again, ε = {statement.certified_epsilon:.4g}; Rényi accounting does not cover this noise"
    check = rdp_epsilon(event, statement.delta, planned.setting.adjacency)
    verdict = "looser, as expected" if check >= statement.certified_epsilon else "tighter than ours"
    return f"Rényi accounting gives ε ≤ {check:.4g}, {verdict}"


def _settings(settings: Any) -> list[str]:
    """What a solver decided; None is what it has no use for."""
    shown = [(entry.name, getattr(settings, entry.name)) for entry in fields(settings) if entry.repr]
    return [f"{name} = {_short(value)}" for name, value in shown if value is not None]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
