"""A fit that was accounted for is not lost when its end fails, and whatever ends it says what counts as spent."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from cli.hostile import fit_arguments, make_budget, refused, run, write_table
from dperm import Budget, Guarantee, Problem, load_model, minimize
from dperm.errors import DpermError, LedgerDamagedError, NotSettledError
from dperm.ledger import budget as ledger_of_budgets
from dperm.ledger import default_ledger
from dperm.ledger.tables import Ledger
from dperm.plan.fit_plan import FitPlan
from dperm.problem import Logistic
from dperm.problem.regularizers import L2

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_table(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(ledger_of_budgets, "_SECONDS_BEFORE_SETTLING_AGAIN", (0.0, 0.01))
    make_budget()
    return tmp_path


def fit(folder, output=None):
    return fit_arguments(folder, output or folder / "model.json", "--dataset", "people")


def releases():
    return Budget("people").account().releases


def after_the_reservation(monkeypatch, happens):
    """Let something happen when the rows are read: the cost is on disk by then."""
    release = FitPlan.answer

    def wrapped(*arguments):
        found = release(*arguments)
        happens()
        return found

    monkeypatch.setattr(FitPlan, "answer", wrapped)


def full_disk(only_below=None):
    """fsync as on a full disk, for files below this folder."""
    fsync = os.fsync

    def fail(handle):
        if only_below is None or os.readlink(f"/proc/self/fd/{handle}").startswith(str(only_below)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    return fail


def test_a_disk_that_is_full_beforehand_spends_nothing(folder, monkeypatch):
    monkeypatch.setattr(os, "fsync", full_disk())
    assert "No space left on device" in refused(*fit(folder))
    assert releases() == ()
    assert not list(folder.glob("*.part"))


def test_a_model_that_finds_its_disk_full_is_somewhere_else_and_in_the_ledger(folder, monkeypatch):
    full = full_disk(only_below=folder / "models")
    (folder / "models").mkdir()
    after_the_reservation(monkeypatch, lambda: monkeypatch.setattr(os, "fsync", full))
    words = refused(*fit(folder, folder / "models" / "m.json"))
    spent = "reservation 1 of the budget 'people' counts as spent"
    assert f"m.json cannot be written: No space left on device; {spent}; " in words
    place = Path(re.search(r"; (\S+\.json) was written\.$", words)[1])
    assert place.parent == folder / "temporary"
    (release,) = releases()
    assert release.is_settled
    assert run("verify", place)[0] == 0
    assert list((folder / "models").iterdir()) == []


@pytest.mark.filterwarnings("ignore::dperm.errors.NoWitnessWarning")
def test_a_model_that_can_be_written_nowhere_is_printed(folder, monkeypatch):
    after_the_reservation(monkeypatch, lambda: monkeypatch.setattr(os, "fsync", full_disk()))
    code, out, err = run(*fit(folder))
    assert code == 2
    assert err.endswith("the model was printed to standard output.\n")
    (folder / "printed.json").write_text(out)
    assert run("verify", folder / "printed.json")[0] == 0


def test_a_folder_that_is_gone_at_the_end_does_not_take_the_model_with_it(folder, monkeypatch):
    (folder / "models").mkdir()
    after_the_reservation(monkeypatch, lambda: shutil.rmtree(folder / "models"))
    words = refused(*fit(folder, folder / "models" / "m.json"))
    assert re.search(r"temporary/dperm-model-\S+\.json was written\.$", words)
    assert len(releases()) == 1


def test_a_file_that_another_fit_has_written_meanwhile_is_not_replaced(folder, monkeypatch):
    after_the_reservation(monkeypatch, lambda: (folder / "model.json").write_text("theirs"))
    words = refused(*fit(folder))
    assert "model.json cannot be written: File exists; " in words
    assert f"{folder / 'model.json'} was written" not in words
    assert re.search(r"temporary/dperm-model-\S+\.json was written\.$", words)
    assert (folder / "model.json").read_text() == "theirs"


def test_a_ledger_that_is_gone_at_settlement_leaves_a_model_that_is_settled_later(folder, monkeypatch):
    ledger = Path(default_ledger())
    away = ledger.with_suffix(".away")
    after_the_reservation(monkeypatch, lambda: (ledger.rename(away), ledger.write_text("no database " * 100)))
    words, model = refused(*fit(folder)), folder / "model.json"
    assert "is not a SQLite database" in words
    assert f"reservation 1 of the budget 'people' counts as spent; {model} was written; " in words
    assert f"dperm budget settle {model}" in words
    away.rename(ledger)
    (release,) = releases()
    assert not release.is_settled
    code, out, _ = run("verify", model)
    assert code == 1
    assert "was never settled" in out
    assert run("budget", "settle", model)[:2] == (0, "entry 1 of 'people' in the ledger is settled with this release\n")
    assert run("budget", "settle", model)[0] == 0  # the same again changes nothing
    assert run("verify", model)[0] == 0
    assert len(releases()) == 1


def test_settlement_is_tried_again_until_the_ledger_is_back(folder, monkeypatch):
    opened, failures = Ledger.open, iter([True, True])

    def fail_twice(self, dataset):
        if releases() and next(failures, False):
            raise DpermError("the ledger cannot be reached.")
        return opened(self, dataset)

    monkeypatch.setattr(Ledger, "open", fail_twice)
    assert run(*fit(folder))[0] == 0
    assert next(failures, None) is None
    assert releases()[0].is_settled


def test_an_answer_of_the_ledger_that_is_lost_on_its_way_is_no_second_settlement(folder, monkeypatch):
    settle, lost = ledger_of_budgets.Reservation._settle, iter([True])

    def lose_the_first_answer(self, fingerprint):
        settle(self, fingerprint)
        if next(lost, False):
            raise DpermError("the connection was lost.")

    monkeypatch.setattr(ledger_of_budgets.Reservation, "_settle", lose_the_first_answer)
    assert run(*fit(folder))[0] == 0
    assert len(Ledger(default_ledger()).read("people")) == 3


def test_only_the_model_that_was_paid_for_is_settled(folder, monkeypatch):
    assert run(*fit(folder))[0] == 0
    assert run(*fit_arguments(folder, folder / "free.json"))[0] == 0
    assert "was not charged to a budget" in refused("budget", "settle", folder / "free.json")
    text = (folder / "model.json").read_text()
    (folder / "changed.json").write_text(text.replace('"n": 60', '"n": 61'))
    assert "was modified" in refused("budget", "settle", folder / "changed.json")


def test_a_postgresql_server_that_dies_before_settlement_loses_nothing(folder, monkeypatch, postgresql_server):
    import sqlalchemy as sql

    engine = sql.create_engine(f"{postgresql_server}/postgres", isolation_level="AUTOCOMMIT", poolclass=sql.NullPool)
    with engine.connect() as connection:
        connection.execute(sql.text("CREATE DATABASE dying"))
    ledger = f"{postgresql_server}/dying"
    assert run("budget", "create", "people", "--epsilon", "30", "--delta", "1e-2", "--ledger", ledger)[0] == 0

    def allow(answer):
        with engine.connect() as connection:
            connection.execute(sql.text(f"ALTER DATABASE dying WITH ALLOW_CONNECTIONS {answer}"))

    after_the_reservation(monkeypatch, lambda: allow("false"))
    words = refused(*fit(folder), "--ledger", ledger)
    assert "reservation 1 of the budget 'people' counts as spent; " in words
    assert f"dperm budget settle {folder / 'model.json'}" in words
    assert "secret" not in words
    allow("true")
    assert not Budget("people", ledger).account().releases[0].is_settled
    assert run("budget", "settle", folder / "model.json", "--ledger", ledger)[0] == 0
    assert run("verify", folder / "model.json", "--ledger", ledger)[0] == 0


def test_an_interrupt_after_the_reservation_says_what_counts_as_spent(folder, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    for number in (1, 2):
        with monkeypatch.context() as patched:
            after_the_reservation(patched, interrupt)
            words = refused(*fit(folder))
        spent = f"reservation {number} of the budget 'people' counts as spent"
        assert words == f"dperm: interrupted; {spent}; no file was written.\n"
        assert not (folder / "model.json").exists()
        assert not list(folder.glob("*.part"))


def test_an_interrupt_before_the_reservation_says_that_nothing_was_written(folder, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(FitPlan, "transaction", interrupt)
    assert refused(*fit(folder)) == "dperm: interrupted; nothing was written.\n"
    assert releases() == ()


def test_an_interrupt_while_the_ledger_commits_says_where_to_look(folder, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "_remember", lambda self, entries: len(entries) > 1 and interrupt())
    words = refused(*fit(folder))
    perhaps = "reservation 1 counts as spent if it is there: dperm budget show people"
    assert words == f"dperm: interrupted; {perhaps}; no file was written.\n"
    monkeypatch.undo()


def test_whatever_ends_a_fit_in_python_says_what_counts_as_spent(folder, monkeypatch):
    X, y = np.ones((20, 2)) / 2, np.ones(20)
    budget = Budget("people")

    def fail():
        raise MemoryError

    problem, guarantee = Problem(Logistic(), L2(0.1)), Guarantee(1.0, 1e-3)
    with monkeypatch.context() as patched:
        after_the_reservation(patched, fail)
        with pytest.raises(MemoryError) as error:
            minimize(problem, X, y, guarantee=guarantee, budget=budget)
    assert error.value.__notes__ == ["reservation 1 of the budget 'people' counts as spent"]
    opened = Ledger.open
    after_the_reservation(monkeypatch, lambda: monkeypatch.setattr(Ledger, "open", _unusable))
    with pytest.raises(NotSettledError) as error:
        minimize(problem, X, y, guarantee=guarantee, budget=budget)
    assert error.value.release.w.shape == (2,)
    assert error.value.__notes__ == ["reservation 2 of the budget 'people' counts as spent"]
    monkeypatch.setattr(Ledger, "open", opened)
    assert len(releases()) == 2


def _unusable(*_):
    raise DpermError("the ledger cannot be reached.")


def test_a_ledger_that_was_set_back_is_not_tried_again(folder, monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    damaged = LedgerDamagedError("the ledger was changed.")
    monkeypatch.setattr(ledger_of_budgets.Reservation, "_settle", lambda *_: (_ for _ in ()).throw(damaged))
    assert "the ledger was changed; reservation 1" in refused(*fit(folder))
    assert slept == []


# `dperm`, with a line on standard output as soon as it imports what takes time.
ANNOUNCED = """
import sys
from dperm.cli.entry import run

class Announcer:
    def find_spec(self, name, path=None, target=None):
        if name == "dperm.cli.main":
            print("begun", flush=True)

sys.meta_path.insert(0, Announcer())
run()
"""


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 0.6])
def test_an_interrupt_while_modules_are_imported_is_one_line(delay, folder):
    """The process says that the first import has begun; what the interpreter does before `run` is not ours."""
    arguments = [sys.executable, "-c", ANNOUNCED, *fit(folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) <= 1
    if process.returncode == 0:  # a fast machine was done already
        assert (folder / "model.json").exists()
        return
    assert process.returncode == 2
    assert err.strip().startswith("dperm: interrupted; ")
    reserved = len(releases())
    assert ("counts as spent" in err) == bool(reserved)
    assert (f"{folder / 'model.json'} was written" in err) == (folder / "model.json").exists()
    assert load_model(folder / "model.json") if (folder / "model.json").exists() else True
