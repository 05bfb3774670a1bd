"""The tables that `dperm example` writes, to try commands on."""

import io
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from dperm.datasets.adult import load_adult
from dperm.datasets.covertype import load_covertype_table
from dperm.datasets.hospital import load_hospital
from dperm.datasets.tables import Tables
from dperm.disk import write_whole

# The loader of every example; its schema is the file NAME.toml beside this one.
EXAMPLES: dict[str, Callable[[], Tables]] = {
    "adult": load_adult,
    "covertype": load_covertype_table,
    "hospital": load_hospital,
}


def files_of_example(name: str, folder: Path) -> list[Path]:
    """What `write_example` writes: NAME.csv to fit, NAME-test.csv to test on, and NAME.toml, the schema."""
    return [folder / f"{name}{ending}" for ending in (".csv", "-test.csv", ".toml")]


def write_example(name: str, folder: Path) -> None:
    """Write an example's tables and the public facts about them.

    Parameters
    ----------
    name : str
        Among `EXAMPLES`.
    folder : Path
        Where to. Files that are there are replaced.
    """
    tables = EXAMPLES[name]()
    public = (files("dperm.datasets") / f"{name}.toml").read_text(encoding="utf-8")
    contents: list[str | bytes] = [_csv(tables.train), _csv(tables.test), public]
    for path, content in zip(files_of_example(name, folder), contents, strict=True):
        write_whole(path, content)


def _csv(table: object) -> bytes:
    from pyarrow import csv

    stream = io.BytesIO()
    csv.write_csv(table, stream, csv.WriteOptions(quoting_style="none", quoting_header="none"))
    return stream.getvalue()
