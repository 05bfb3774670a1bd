"""Pages of the documentation show what is printed today: their code runs, and so do their commands."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from dperm.cli.main import run_with

DOCS = Path(__file__).parents[2] / "docs"
DATE_OR_FINGERPRINT = re.compile(r"\d{4}-\d\d-\d\d|[0-9a-f]{12}")


def blocks(page, kind):
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text(), flags=re.S)


def printed_by(code):
    out = io.StringIO()
    with redirect_stdout(out):
        exec(code, {})
    return out.getvalue()


def commands(page):
    """What the page types, and what it shows after it."""
    text = "".join(block for block in blocks(page, "text") if block.startswith("$ "))
    return [tuple(command.split("\n", 1)) for command in text.split("$ dperm ")[1:]]


@pytest.mark.parametrize("page", ["README.md", "quick_start.md"])
def test_an_example_prints_what_the_page_shows(page):
    code = blocks(page, "python")[0]
    shown = next(text for text in blocks(page, "text") if text.startswith("test accuracy"))
    accuracy, statement = printed_by(code).split("\n", 1)
    expected_accuracy, expected_statement = shown.split("\n", 1)
    assert statement == expected_statement  # it has no noise in it
    assert float(accuracy.split()[-1]) == pytest.approx(float(expected_accuracy.split()[-1]), abs=0.01)


@pytest.mark.usefixtures("own_folders")
@pytest.mark.filterwarnings("default::dperm.LargeDeltaWarning")  # one of the mistakes
def test_the_quick_start_prints_what_the_page_shows_and_its_mistakes_are_explained(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for typed, shown in commands("quick_start.md"):
        code = run_with(typed.split())
        printed = capsys.readouterr()
        if shown.startswith("dperm: "):
            said = re.sub(r"\S+/ledger\.db", "…/ledger.db", printed.err)
            assert (said, code) == (shown, 0 if "warning" in shown else 2)
        else:
            assert (DATE_OR_FINGERPRINT.sub("#", printed.out), code) == (DATE_OR_FINGERPRINT.sub("#", shown), 0)
    assert (tmp_path / "adult.html").exists()
    assert not list(tmp_path.glob("other.*"))


def test_the_plan_on_the_page_about_the_command_line_is_the_plan_today(capsys):
    typed, shown = commands("command_line.md")[-1]
    assert run_with(typed.split()) == 0
    assert capsys.readouterr().out == shown


def test_every_command_is_on_the_page_about_the_command_line(capsys):
    assert run_with(["--help"]) == 0
    listed = re.findall(r"^  ([a-z][a-z-]+)  ", capsys.readouterr().out.split("Commands:")[1], flags=re.M)
    named = re.findall(r"`dperm ([a-z-]+)`", (DOCS / "command_line.md").read_text())
    assert len(listed) > 10
    assert set(listed) <= set(named)


def test_the_lower_level_example_runs():
    assert re.fullmatch(r"\[.*\] \d+\n", printed_by(blocks("lower_level.md", "python")[0]))


def test_the_example_of_a_search_and_a_score_runs():
    printed = printed_by(blocks("how_to.md", "python")[0])
    assert "'penalty'" in printed
    assert "AUC" in printed


def test_every_solver_is_on_the_page_about_solvers(capsys):
    from dperm.solvers import SOLVERS

    named = set(re.findall(r'^\| `"([^"]+)"` \|', (DOCS / "solvers.md").read_text(), flags=re.M))
    assert named == set(SOLVERS)
