"""One cell of a CSV file may be as long as it likes: it costs a few times its size, and ends no fit."""

import itertools
import os
import re
import subprocess
import sys

import pytest

from cli.hostile import LINES, fit_arguments, run, write_table
from dperm.rows import csv_file
from dperm.rows.csv_file import CsvPiece

pytestmark = pytest.mark.usefixtures("own_folders")

MB = 2**20
CELLS = {
    "quoted": lambda size: '"' + "x" * size + '"',
    "quotes": lambda size: '"' + '""' * (size // 2) + '"',
    "unclosed": lambda size: '"' + "x" * size,
    "plain": lambda size: "x" * size,
    "digits": lambda size: "1" * size,
    "separators": lambda size: "x," * (size // 2),
}


def with_cell(folder, cell):
    """The table with this cell in place of a row's category."""
    write_table(folder)
    lines = [*LINES[:30], f"50,{cell},yes", *LINES[31:]]
    (folder / "table.csv").write_text("\n".join(["age,job,rich", *lines, ""]))


# Reads a table, then another, and prints by how much that raised the peak of its memory, in kB.
READ = """
import resource, sys
from dperm.rows.csv_file import CsvPiece

small, large = sys.argv[1:]
list(CsvPiece.open(small).tables(("age", "job", "rich")))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
list(CsvPiece.open(large).tables(("age", "job", "rich")))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("megabytes", [3, 15])
def test_a_long_cell_takes_no_more_memory_than_a_few_copies_of_it(kind, megabytes, tmp_path):
    for name, size in (("small", 1), ("large", megabytes * MB)):
        (tmp_path / name).mkdir()
        with_cell(tmp_path / name, CELLS[kind](size))
    tables = [str(tmp_path / name / "table.csv") for name in ("small", "large")]
    done = subprocess.run([sys.executable, "-c", READ, *tables], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 15 * megabytes * MB  # it was 130 times


@pytest.mark.parametrize("kind", CELLS)
def test_a_long_cell_is_a_missing_value_and_ends_no_fit(kind, tmp_path):
    with_cell(tmp_path, CELLS[kind](MB))
    code, out, err = run(*fit_arguments(tmp_path, tmp_path / "model.json", "--seed", "0"))
    assert (code, err) == (0, "")
    assert "xxx" not in out
    piece = CsvPiece.open(str(tmp_path / "table.csv"))
    (table,) = piece.tables(("age", "job", "rich"))
    assert table.num_rows == 60
    ages, jobs = table.column("age").to_pylist(), table.column("job").to_pylist()
    assert jobs[30] is None
    assert ages[30] == (None if kind in ("unclosed", "separators") else b"50")  # a line that is none holds no value
    assert jobs[29] == b"clerk" == jobs[31]


def test_a_cell_of_the_longest_size_is_read(tmp_path):
    for size, found in ((csv_file._LONGEST_CELL, b"x" * csv_file._LONGEST_CELL), (csv_file._LONGEST_CELL + 1, None)):
        with_cell(tmp_path, '"' + "x" * size + '"')
        (table,) = CsvPiece.open(str(tmp_path / "table.csv")).tables(("job",))
        assert table.column("job").to_pylist()[30] == found


def test_a_fit_with_a_long_cell_takes_little_more_memory_than_one_without(tmp_path):
    sizes = []
    for cell in ("smith", CELLS["quoted"](15 * MB)):
        with_cell(tmp_path, cell)
        command = [sys.executable, "-m", "dperm", *fit_arguments(tmp_path, tmp_path / "model.json", "--force")]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        sizes.append(used.ru_maxrss * 1024)
    assert sizes[1] - sizes[0] < 15 * 15 * MB


def test_the_matcher_takes_the_same_lines_as_one_that_tries_everything():
    """Possessive repetitions change what a matcher keeps, and here not what it finds."""
    simple = re.compile(r'(?:"(?:""|[^"])*"|[^",]*)(?:,(?:"(?:""|[^"])*"|[^",]*))*')
    piece = CsvPiece("t.csv", ("a", "b"), True, ",", 0, 0, 0, None)
    for length in range(1, 8):
        for letters in itertools.product('",x', repeat=length):
            line = "".join(letters)
            is_record = simple.fullmatch(line) is not None
            _, odd = piece._parse(f'{line}\n"x",x'.encode(), ("a",))
            assert odd[0] == (not is_record or _n_fields(line) != 2), line


def _n_fields(line):
    """Of a record: separators outside of quotes, and one."""
    return 1 + sum(part.count(",") for part in line.split('"')[::2])
