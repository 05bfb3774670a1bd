"""Where commands write: never over what they read, a ledger, or anything special; and nothing is spent before that."""

import os
import socket

import pytest

from cli.hostile import fit_arguments, make_budget, refused, run, write_table
from dperm import Budget
from dperm.ledger import default_ledger

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def folder(tmp_path):
    write_table(tmp_path)
    return tmp_path


@pytest.fixture
def model(folder):
    assert run(*fit_arguments(folder, folder / "model.json"))[0] == 0
    return folder / "model.json"


def commands(folder, output):
    """Every command that writes a file, and all that it reads."""
    table, schema, model = folder / "table.csv", folder / "schema.toml", folder / "model.json"
    return {
        "fit": (fit_arguments(folder, output, "--dataset", "people"), [table, schema]),
        "predict": (["predict", model, table, "-o", output], [model, table]),
        "report": (["report", model, "-o", output], [model]),
        "draft": (["schema", "draft", table, "--target", "rich", "-o", output], [table]),
    }


NAMES = ("fit", "predict", "report", "draft")


@pytest.mark.parametrize("name", NAMES)
def test_no_command_writes_over_what_it_reads(name, folder, model):
    make_budget()
    for number in range(len(commands(folder, "x")[name][1])):
        read = commands(folder, "x")[name][1][number]
        linked = folder / "linked"
        linked.hardlink_to(read)
        for output in (read, linked, folder / "." / read.name):
            before = read.read_bytes()
            words = refused(*commands(folder, output)[name][0], "--force")
            assert "it is an input of this command" in words
            assert read.read_bytes() == before
        linked.unlink()
    assert Budget("people").account().releases == ()


@pytest.mark.parametrize("name", NAMES)
def test_no_command_writes_over_a_ledger_or_its_witnesses(name, folder, model, monkeypatch):
    make_budget()
    assert (
        run("budget", "create", "others", "--epsilon", "1", "--delta", "1e-5", "--ledger", folder / "team.db")[0] == 0
    )
    monkeypatch.setenv("DPERM_LEDGER", f"sqlite:///{folder}/named.db")
    witnesses = list((folder / "state" / "dperm").iterdir())
    assert witnesses
    kept = (default_ledger(), folder / "team.db", folder / "named.db", folder / "named.db-journal", *witnesses)
    for output in (*kept, folder / "state" / "dperm" / "new"):
        before = os.path.exists(output)
        assert "it is a ledger" in refused(*commands(folder, output)[name][0], "--force")
        assert os.path.exists(output) == before
    monkeypatch.delenv("DPERM_LEDGER")
    assert Budget("people").account().releases == ()


@pytest.mark.parametrize("name", NAMES)
def test_no_command_writes_to_what_is_no_regular_file(name, folder, model, monkeypatch):
    make_budget()
    monkeypatch.chdir(folder)
    os.mkfifo("fifo")
    os.symlink("elsewhere", "link")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for output in ("fifo", "socket", "link", ".", "no/such/folder", "table.csv/x"):
            assert "cannot be written" in refused(*commands(folder, output)[name][0], "--force")
    assert "File name too long" in refused(*commands(folder, "x" * 300)[name][0])
    assert "null character" in refused(*commands(folder, "a\0b")[name][0])
    assert not os.path.exists("elsewhere")
    assert Budget("people").account().releases == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_there_is_replaced_only_when_forced(name, folder, model):
    make_budget()
    output = folder / "there"
    output.write_text("mine")
    command = commands(folder, output)[name][0]
    assert "already exists; use --force to overwrite" in refused(*command)
    assert output.read_text() == "mine"
    assert Budget("people").account().releases == ()
    assert run(*command, "--force")[0] == 0
    assert output.read_text() != "mine"
    assert not list(folder.glob("*.part"))


def test_a_page_beside_the_model_is_not_replaced_either(folder, model):
    assert run("report", model)[0] == 0
    assert "--force" in refused("report", model)
    assert run("report", model, "--force")[0] == 0


def test_names_that_are_odd_are_shown_on_one_line(folder, model):
    for name in ("new\nline.csv", "\udcff.csv", "\u202egnp.csv", "a b'\".csv"):
        code, out, err = run("predict", model, folder / "table.csv", "-o", folder / name)
        assert (code, err) == (0, "")
        assert len(out.splitlines()) == 1
        assert (folder / name).exists()
        assert out.encode().decode().isprintable() or out.strip().isprintable()
    assert run("predict", model, folder / "table.csv", "-o", folder / ("y" * 251 + ".csv"))[0] == 0
