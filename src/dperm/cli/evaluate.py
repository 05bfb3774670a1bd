"""`dperm evaluate`: how good a model file is on sensitive rows, with noise and with intervals."""

from contextlib import ExitStack, suppress
from pathlib import Path

import click

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.output import FILE, output_option
from dperm.consequences import CONSEQUENCES
from dperm.disk import WholeFile
from dperm.errors import DpermError, InvalidParameterError
from dperm.printable import one_line
from dperm.privacy.unit import CONTRIBUTIONS, MISSING

# Bytes that are set aside before anything is spent, so that a full disk is detected then.
_ROOM = 2**18


@click.command(context_settings=CONTEXT)
@click.argument("model_path", metavar="MODEL", type=FILE)
@click.argument("table", type=FILE)
@click.option("--epsilon", type=float, required=True, help="ε of the evaluation, above 0.")
@click.option(
    "--delta",
    type=float,
    default=0.0,
    show_default=True,
    help="δ of the evaluation. 0 gives the least noise for one evaluation; above 0 composes better with others.",
)
@click.option("--adjacency", type=click.Choice(["replace_one", "add_remove"]), default="replace_one", show_default=True)
@click.option("--n", type=int, help="Public number of rows, or of privacy units; required under add_remove.")
@click.option("--unit", help="Column of TABLE identifying the privacy unit [default: the model's].")
@click.option("--max-rows-per-unit", type=int, help="Use at most this many rows of each unit [default: the model's].")
@click.option("--contribution", type=click.Choice(CONTRIBUTIONS), help="[default: the model's, or limit]")
@click.option("--missing-units", type=click.Choice(MISSING), help="[default: the model's, or separate]")
@click.option("--target", help="Target column of TABLE, for a model without a schema.")
@click.option("--error-bound", type=float, help="Clip regression errors to this size [default: half the target range].")
@click.option("--level", type=float, default=0.95, show_default=True, help="Confidence level of the intervals.")
@click.option("--dataset", help="Charge the budget of this dataset; see `dperm budget`.")
@click.option("--ledger", envvar="DPERM_LEDGER", help="Ledger: SQLite file or database URL [default: your own].")
@click.option("--seed", type=int, help="Make the result reproducible; a seeded result is not for release.")
@output_option("JSON file for `dperm verify` and `dperm report --evaluation`.")
def evaluate(
    model_path: Path, table: Path, epsilon: float, delta: float, adjacency: str, n: int | None, target: str | None,
    unit: str | None, max_rows_per_unit: int | None, contribution: str | None, missing_units: str | None,
    error_bound: float | None, level: float,
    dataset: str | None, ledger: str | None, seed: int | None, output: Path | None, force: bool,
) -> None:  # fmt: skip
    """Evaluate a released MODEL on the sensitive TABLE: accuracy, AUC, calibration or R², with intervals.

    TABLE is a CSV or Parquet file, a folder of such files or a glob pattern. The output is (ε, δ)-differentially
    private. Evaluating on the training table is a further release from it: charge it to the same budget.

    Example: dperm evaluate model.json test.csv --epsilon 0.2 --dataset people -o evaluation.json
    """
    with ended_by_an_interrupt():
        from dperm.evaluation.result import PrivateEvaluation
        from dperm.evaluation.score import private_evaluate
        from dperm.files.model_file import load_model, release_text
    if n is None and adjacency == "add_remove":
        raise InvalidParameterError("under add_remove the number of rows is private: declare a public number with --n.")
    if output is not None:
        outputs.check(output, force=force, inputs=[model_path, table], ledger=ledger)
    budget = outputs.charged_budget(dataset, ledger)
    model = load_model(model_path)
    with ExitStack() as opened:
        file = None if output is None else opened.enter_context(WholeFile(output, replace=force, room=_ROOM))

        def save(found: PrivateEvaluation) -> None:
            if file is not None:
                with suppress(OSError):
                    file.write(release_text(found))
                    return
            # It was accounted for and must not be lost.
            click.echo(str(found) if file is None else release_text(found))
            CONSEQUENCES.notes.append("the evaluation was printed to standard output")

        found = private_evaluate(
            model, str(table), epsilon=epsilon, delta=delta, adjacency=adjacency, n=n, target=target,
            unit=unit, max_rows_per_unit=max_rows_per_unit, contribution=contribution, missing_units=missing_units,
            error_bound=error_bound, level=level, budget=budget, random_state=seed, save=save,
        )  # fmt: skip
    if output is not None:
        if CONSEQUENCES.notes:
            raise DpermError(f"{one_line(output)} cannot be written.")
        click.echo(str(found))
    if budget is not None:
        click.echo(f"budget:     {one_line(dataset)}: {budget.account().summary}")
    if output is not None:
        click.echo(f"wrote {one_line(output)}")
