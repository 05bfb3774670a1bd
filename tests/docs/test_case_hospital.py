"""The worked case: its commands run in order, and print what the page shows but for the numbers that noise changes."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from dperm.cli.main import run_with

PAGE = (Path(__file__).parents[2] / "docs" / "case_hospital.md").read_text()
# What takes minutes: the second derivation of ε of a search, and hundreds of fits.
LONG = ("verify readmission", "audit", "report")


def commands():
    """What is typed, and what the page shows below it."""
    blocks = re.findall(r"```text\n(.*?)```", PAGE, flags=re.S)
    typed = [command for block in blocks for command in re.split(r"^\$ ", block, flags=re.M)[1:]]
    return [command.partition("\n")[::2] for command in typed]


def shape(text):
    """Words without numbers, times, fingerprints, and the name of the schema that won."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d|\b[0-9a-f]{12}\b|(?<=schema = )\w+", "#", text)
    return re.sub(r"[-−]?\d[\d.]*(e[-+]?\d+)?", "#", text).split()


def run_the_page(capsys, left_out=()):
    for typed, shown in commands():
        program, _, rest = typed.partition(" ")
        if program != "dperm":
            subprocess.run(typed, shell=True, check=True)
            continue
        if rest.startswith(left_out):
            continue
        code = run_with(shlex.split(rest))
        printed = capsys.readouterr()
        assert code == (2 if shown.startswith("dperm: ") else 0), printed.err
        assert shape(printed.err if code else printed.out) == shape(shown), typed
        if rest.startswith("plan"):  # no noise in it
            assert printed.out == shown


@pytest.fixture(autouse=True)
def _empty_folder(own_folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_short_commands_of_the_case_print_what_the_page_shows(capsys):
    run_the_page(capsys, LONG)


@pytest.mark.slow
def test_all_commands_of_the_case_print_what_the_page_shows(capsys, tmp_path):
    run_the_page(capsys)
    page = (tmp_path / "readmission.html").read_text()
    assert "What attacks found" in page
    assert "AUC" in page


def test_the_page_has_every_step():
    steps = [typed.split()[1] for typed, _ in commands() if typed.startswith("dperm ")]
    assert steps == [
        "example", "schema", "fit", "plan", "budget", "budget", "tune", "verify", "audit", "evaluate", "report",
        "budget", "budget",
    ]  # fmt: skip


def test_the_schema_on_the_page_is_the_one_that_is_written():
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE, flags=re.S)
    written = (Path(__file__).parents[2] / "src" / "dperm" / "datasets" / "hospital.toml").read_text()
    for section in shown.strip().split("\n\n"):
        assert section in written
