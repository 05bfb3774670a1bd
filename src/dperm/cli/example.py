"""`dperm example`: example tables and their schemas."""

from pathlib import Path

import click

from dperm.cli import output as outputs
from dperm.cli.context import CONTEXT
from dperm.cli.output import FILE
from dperm.datasets.examples import EXAMPLES, files_of_example, write_example
from dperm.disk import make_folder
from dperm.printable import one_line


@click.command(context_settings=CONTEXT)
@click.argument("name", type=click.Choice(list(EXAMPLES)))
@click.option("-o", "--output", type=FILE, default=Path(), help="Output folder [default: the current one].")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def example(name: str, output: Path, force: bool) -> None:
    """Write an example: NAME.csv (training table), NAME-test.csv (test table) and NAME.toml (their schema).

    Example: dperm example adult
    """
    make_folder(output)
    paths = files_of_example(name, output)
    for path in paths:
        outputs.check(path, force=force, inputs=[])
    write_example(name, output)
    for path in paths:
        click.echo(f"wrote {one_line(path)}")
