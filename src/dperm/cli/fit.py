"""`dperm fit`: from a table on disk to a model file."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.entry import ended_by_an_interrupt
from dperm.cli.options import build_estimator, fit_options, memory_option, schema_option
from dperm.cli.output import FILE, output_option
from dperm.cli.schema import tell
from dperm.consequences import CONSEQUENCES
from dperm.disk import WholeFile
from dperm.errors import DpermError, InvalidParameterError, InvalidTableError
from dperm.printable import one_line
from dperm.privacy.caveats import Caveat
from dperm.schema import Amount, Schema, load_schema

if TYPE_CHECKING:
    from dperm.models.base import PrivateEstimator

# Bytes that are written before anything is spent, so that a full disk is detected then; most model files are smaller.
ROOM = 2**20
# Rows that are looked at before every fit on a terminal; --check looks at all.
LOOKED_AT = 2**17


@click.command(context_settings=CONTEXT)
@click.argument("table", type=FILE)
@schema_option
@click.option("--target", help="Column to predict; a schema declares it.")
@click.option("--features", help="Feature columns, separated by commas [default: all others].")
@output_option("Output path of the model file.", required=True)
@click.option("--n", type=int, help="Public number of rows or privacy units [default: the schema's or the table's].")
@click.option("--dataset", help="Charge the fit to the budget of this dataset; see `dperm budget`.")
@click.option("--ledger", envvar="DPERM_LEDGER", help="Ledger: SQLite file or database URL [default: your own].")
@memory_option
@click.option(
    "--cache",
    "cache_folder",
    type=FILE,
    help="Folder for encoded rows that do not fit into memory. The file is private to you and removed when the command "
    "ends [default: $DPERM_CACHE, else your cache folder, else a temporary folder].",
)
@click.option("--no-cache", is_flag=True, help="Do not cache encoded rows on disk; every pass re-reads TABLE.")
@click.option(
    "--cluster",
    help="Run on a Dask cluster: the scheduler's address, or local[4] for four local processes.",
)
@click.option("--seed", type=int, help="Make the fit reproducible; a seeded result is not for release.")
@click.option(
    "--row-warnings/--no-row-warnings",
    default=None,
    help="Warn on stderr about bad columns, and when many rows are dropped or clipped. Not private. [default: only on "
    "a terminal]",
)
@click.option(
    "--check",
    is_flag=True,
    help="Run `dperm schema check` on TABLE first (not private, on stderr), and stop before anything is spent if a "
    "column is unusable.",
)
@fit_options()
def fit(
    table: Path, schema: Path | None, target: str | None, features: str | None, output: Path, force: bool,
    n: int | None, dataset: str | None, ledger: str | None, memory: str, cache_folder: Path | None, no_cache: bool,
    cluster: str | None, seed: int | None, row_warnings: bool | None, check: bool, **options: Any,
) -> None:  # fmt: skip
    """Fit a model on the sensitive TABLE (CSV or Parquet) and write a releasable model file.

    With a schema, TABLE may be a folder of files or a glob pattern, of any size, and columns may contain categories
    and missing values. Without a schema it is a single file of numeric columns.

    Example: dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-6 --dataset people -o model.json

    Example: dperm fit visits.csv --target ill --unit patient_id --max-rows-per-unit 5 --epsilon 1 --delta 1e-6 -o
    model.json
    """
    with ended_by_an_interrupt():
        from dperm.plan.transaction import check_budget
        from dperm.rows import Table
        from dperm.rows.dask_client import open_cluster
        from dperm.rows.memory import return_freed_memory
    return_freed_memory()
    outputs.check(output, force=force, inputs=[table, schema], ledger=ledger)
    budget = outputs.charged_budget(dataset, ledger)
    public = None if schema is None else load_schema(schema)
    told = sys.stderr.isatty() if row_warnings is None else row_warnings
    model = build_estimator(
        **options, schema=public, n=n, budget=budget, random_state=seed, verbose=True,
        row_warnings=told,
    )  # fmt: skip
    asked = model.options()  # raises what is wrong with the parameters before the table is opened
    if public is not None and (target is not None or features is not None):
        raise InvalidParameterError("--target and --features cannot be combined with --schema, which declares them.")
    if cache_folder is not None and no_cache:
        raise InvalidParameterError("--cache and --no-cache cannot be combined.")
    if public is None and (cluster is not None or cache_folder is not None or no_cache):
        raise InvalidParameterError("--cluster, --cache and --no-cache require a --schema.")
    with ExitStack() as opened:
        rows: tuple[Any, Any]
        ids: dict[str, Any] = {}
        keeping: dict[str, Any] = {"memory": memory, "cache": cache_folder or not no_cache}
        plan = columns = None
        if public is not None:
            source = Table(table, **keeping, n_rows=asked.declared_rows).source()
            if asked.declared_n is not None:  # before the table is opened
                plan = asked.plan(is_slow=source.is_slow if cluster is None else lambda *_: True)
                check_budget(plan, budget)
            if cluster is not None:
                client = opened.enter_context(open_cluster(cluster))
                source = Table(table, client=client, **keeping, n_rows=asked.declared_rows).source()
            source = source.with_schema(asked.schema or public)
            rows = (source, None)
            plan = plan or asked.plan(source._n_units, source.n_features, source.is_slow)
        else:
            rows, ids = rows_in_memory(table, None, target, features, model, asked.declared_rows)
            columns = [*rows[0].column_names, str(target)]
            if not ids or n is not None:  # how many units there are is counted by the fit
                plan = asked.plan(*rows[0].shape)  # of a table with a row and a column, at least
        if check or (told and cluster is None):  # with a cluster, files may be out of this machine's reach
            read = table if public is None else Table(table, **keeping)
            checked(read, asked.schema or public, columns, target, whole=check, kind=model.kind)
        # The file is made before anything is spent, and complete before the ledger is told.
        file = opened.enter_context(WholeFile(output, replace=force, room=ROOM))
        written = Writing(file, output)
        model.fit(*rows, **ids, plan=plan, save=written)
    written.check()
    click.echo(str(model.privacy_))
    if (
        Caveat.CLASSES_READ not in model.privacy_.caveats or len(model.privacy_.classes or ()) == 2
    ):  # a plan without classes is one for two
        plan = plan or asked.plan(model.privacy_.n, model.privacy_.n_features)
        click.echo(f"verdict:    {plan.verdict}")
    if budget is not None:
        click.echo(f"budget:     {one_line(dataset)}: {budget.account().summary}")
    click.echo(f"wrote {one_line(output)}")


def checked(
    table: Any, schema: Schema | None, columns: list[str] | None, target: str | None, *, whole: bool, kind: str
) -> None:  # fmt: skip
    """Tell the holder what is wrong with the columns: all of it, or what is serious in the first rows.

    That a target looks like counts is said before any model for another kind of target.

    Raises
    ------
    InvalidTableError
        If all was asked for and a column has nothing that the schema can use, in 99 of 100 rows.
    """
    from dperm.unsafe import check_schema

    found = check_schema(table, schema, columns=columns, target=target, rows=None if whole else LOOKED_AT)
    found = tuple(one for one in found if one.kind != "count" or kind != "poisson")
    said = [one for one in found if whole or one.serious or one.kind == "count"]
    if whole or said:
        tell(said)
    unusable = [one_line(one.column) for one in found if one.unusable]
    if whole and unusable:
        raise InvalidTableError(
            f"unusable columns: {', '.join(unusable)}; nothing was fitted or spent. Fix the table or the schema, or "
            "fit without --check."
        )


class Writing:
    """Writes a fitted model, and if that fails somewhere else: it was accounted for and must not be lost.

    Parameters
    ----------
    file : WholeFile
        What is written to.
    output : Path
        Its name.
    """

    def __init__(self, file: WholeFile, output: Path) -> None:
        self._file, self._output = file, output
        self._failure: str | None = None

    def __call__(self, model: PrivateEstimator) -> None:
        """Write the model."""
        from dperm.files.model_file import release_text

        text = release_text(model)
        try:
            self._file.write(text)
        except OSError as error:
            self._failure = error.strerror or "it cannot be used"
            _rescue(text)

    def check(self) -> None:
        """Raise if the model is not where it should be; where it is is said with whatever ends a command."""
        if self._failure is not None:
            raise DpermError(f"{one_line(self._output)} cannot be written: {self._failure}.")


def _rescue(text: str) -> None:
    """Write a model that cannot be written where it should be: among temporary files, or at least on the screen."""
    try:
        handle, name = tempfile.mkstemp(prefix="dperm-model-", suffix=".json")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        CONSEQUENCES.will_appear(Path(name), Path(name))
    except OSError:
        click.echo(text, nl=False)
        CONSEQUENCES.notes.append("the model was printed to standard output")


def rows_in_memory(
    table: Path, schema: Schema | None, target: str | None, features: str | None, model: PrivateEstimator,
    n_rows: int | None,
) -> tuple[tuple[Any, Any], dict[str, Any]]:  # fmt: skip
    """Rows and target as `fit` takes them, and the ids of units where no schema names their column.

    Without a schema the rows are columns of numbers, of which the options name the target.
    """
    from dperm.rows import Table

    opened = Table(table, n_rows=n_rows).opened
    if schema is not None:
        return (opened(schema.header, schema.separator).table, None), {}
    if target is None:
        raise InvalidParameterError("pass --target or a --schema.")
    source = opened()
    source.select([target] if model.unit is None else [target, model.unit])
    columns = (
        [name.strip() for name in features.split(",")]
        if features
        else [name for name in source.names if name not in (target, model.unit)]
    )
    if model.unit == target:
        raise InvalidParameterError(f"{model.unit!r} is the privacy unit and cannot also be the target.")
    if model.unit in columns:
        raise InvalidParameterError(f"{model.unit!r} is the privacy unit and cannot also be a feature.")
    if target in columns:
        raise InvalidParameterError(f"{target!r} is the target and cannot also be a feature.")
    if not columns:
        raise InvalidParameterError("the table has no feature columns.")
    majority = model.unit is None
    labels = (
        source.numbers([target], majority).column(0).to_numpy()
        if model.target_kind is Amount
        else source.labels(target, getattr(model, "classes", None))
    )
    ids = {} if model.unit is None else {"groups": source.ids(model.unit)}
    return (source.numbers(columns, majority), labels), ids
