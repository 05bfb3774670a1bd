"""The README's code runs, and its transcript has the shape of what is printed today."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from dperm.cli.main import run_with

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", README, flags=re.S)


def shape(text):
    """Words without the numbers that noise changes."""
    return re.sub(r"[0-9.]+", "#", text).split()


def test_the_first_example_prints_what_the_readme_shows():
    out = io.StringIO()
    with redirect_stdout(out):
        exec(blocks("python")[0], {})
    assert shape(out.getvalue()) == shape(blocks("text")[0])
    promised, shown = (text.splitlines()[1:] for text in (out.getvalue(), blocks("text")[0]))
    assert promised == shown  # the statement has no noise in it


def test_the_example_with_a_schema_and_what_follows_it_run():
    names, printed = {}, []
    for block in blocks("python")[1:3]:
        out = io.StringIO()
        with redirect_stdout(out):
            exec(block, names)
        printed.append(out.getvalue())
    assert float(printed[0].split()[-1]) >= 0.83
    assert "'penalty'" in printed[1]
    assert "AUC" in printed[1]


def test_the_lower_level_example_runs():
    out = io.StringIO()
    with redirect_stdout(out):
        exec(blocks("python")[3], {})
    assert "[" in out.getvalue()


def test_the_steps_from_a_table_to_a_release_print_what_the_readme_shows(monkeypatch, tmp_path, capsys, own_folders):
    monkeypatch.chdir(tmp_path)
    for command in blocks("text")[2].split("$ dperm ")[1:]:
        typed, shown = command.split("\n", 1)
        assert run_with(typed.split()) == 0
        printed = capsys.readouterr().out
        if typed.startswith("budget show"):  # dates, and a fingerprint that noise changes
            printed, shown = (re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d|[0-9a-f]{12}", "#", text) for text in (printed, shown))
        assert printed == shown
    assert (tmp_path / "adult.html").exists()


def test_the_plan_in_the_readme_is_the_plan_today(capsys):
    command, *shown = blocks("text")[1].split("$ dperm ")[-1].splitlines()
    assert run_with(command.split()) == 0
    assert capsys.readouterr().out.splitlines() == shown


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()
