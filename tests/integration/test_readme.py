"""The README's code runs, and its transcript has the shape of what is printed today."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from dperm.cli.main import run_with

README = (Path(__file__).parents[2] / "README.md").read_text()


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


def test_the_researchers_example_runs():
    out = io.StringIO()
    with redirect_stdout(out):
        exec(blocks("python")[1], {})
    assert "[" in out.getvalue()


def test_the_plan_in_the_readme_is_the_plan_today(capsys):
    command, *shown = blocks("text")[1].split("$ dperm ")[-1].splitlines()
    assert run_with(command.split()) == 0
    assert capsys.readouterr().out.splitlines() == shown


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_lead_somewhere(link):
    assert (Path(__file__).parents[2] / link).exists()
