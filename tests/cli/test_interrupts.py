"""Ctrl-C at any moment: what a command says is what the ledger and the disk hold."""

import multiprocessing
import subprocess
import sys

import pytest

from cli.hostile import fit_arguments, run, write_table
from cli.interrupted import interrupt_at_every_line

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def commands(tmp_path):
    """Commands that are charged to a budget, without their -o."""
    table, _ = write_table(tmp_path)
    assert run("budget", "create", "people", "--epsilon", "1000", "--delta", "1e-2")[0] == 0
    assert run(*fit_arguments(tmp_path, tmp_path / "model.json"))[0] == 0
    fit = fit_arguments(tmp_path, "")[:-2]
    tuned = ["tune", *fit[1:], "--try", "penalty=0.1,0.2", "--noisy-trials"]
    evaluated = ["evaluate", str(tmp_path / "model.json"), str(table), "--epsilon", "0.1"]
    return {"fit": fit, "tune": tuned, "evaluate": evaluated}


def interrupted_at(arguments, folder, share):
    process = multiprocessing.get_context("spawn").Process(
        target=interrupt_at_every_line, args=([*arguments, "--dataset", "people"], folder, share)
    )
    process.start()
    process.join(1800)
    assert process.exitcode == 0


@pytest.mark.parametrize("name", ["fit", "evaluate"])
def test_an_interrupt_at_every_twentieth_line_of_a_command_says_what_is_spent_and_written(name, commands, tmp_path):
    interrupted_at(commands[name], tmp_path, 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fit", "evaluate", "tune"])
def test_an_interrupt_at_every_line_of_a_command_says_what_is_spent_and_written(name, commands, tmp_path):
    interrupted_at(commands[name], tmp_path, 1)


# `dperm`, with a signal to itself once the rows were read.
TERMINATED = """
import os, signal
from dperm.cli.entry import run
from dperm.plan.fit_plan import FitPlan

release = FitPlan.answer

def then_end(*arguments):
    found = release(*arguments)
    os.kill(os.getpid(), signal.SIGTERM)
    return found

FitPlan.answer = then_end
run()
"""

# `dperm`, with an interrupt while the interpreter ends.
LATE = """
import atexit, os, signal
from dperm.cli.entry import run

atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
run()
"""


def in_a_process(program, arguments, output):
    command = [sys.executable, "-c", program, *arguments, "--dataset", "people", "-o", str(output)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_request_to_terminate_says_what_is_spent(commands, tmp_path):
    done = in_a_process(TERMINATED, commands["fit"], tmp_path / "m.json")
    assert done.returncode == 2
    spent = "reservation 1 of the budget 'people' counts as spent"
    assert done.stderr.strip() == f"dperm: interrupted; {spent}; no file was written."


def test_an_interrupt_after_the_last_word_changes_nothing(commands, tmp_path):
    done = in_a_process(LATE, commands["fit"], tmp_path / "m.json")
    assert done.returncode == 0
    assert f"wrote {tmp_path / 'm.json'}" in done.stdout
    assert done.stderr == ""


def test_an_interrupted_creation_of_a_budget_says_where_to_look(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dperm.ledger.tables.Ledger._remember", interrupt)
    code, _, err = run("budget", "create", "people", "--epsilon", "1", "--delta", "1e-6")
    assert code == 2
    look = "the budget 'people' may have been created: dperm budget show people"
    assert err.strip() == f"dperm: interrupted; {look}."
