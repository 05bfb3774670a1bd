"""What is spent on a dataset is kept, composed and verified; here in a SQLite file."""

import os
import re
import shutil
import sqlite3
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from dperm import (
    Budget,
    DpermError,
    Guarantee,
    InvalidParameterError,
    LedgerDamagedError,
    NoWitnessWarning,
    PrivateLogisticRegression,
)
from dperm.cli.main import run_with
from dperm.ledger import Reservation, budgets, default_ledger, places, witness
from dperm.ledger.tables import Ledger, _reason
from ledger.behaviour import GAUSSIAN, GUARANTEE, REPLACE_ONE, LedgerBehaviour, filled

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def ledger(tmp_path):
    return str(tmp_path / "ledger.db")


class TestInSqlite(LedgerBehaviour):
    pass


def test_by_default_the_ledger_is_in_the_folder_for_data(tmp_path, monkeypatch):
    assert default_ledger() == str(tmp_path / "data" / "dperm" / "ledger.db")
    filled(None)
    assert len(Budget("adult").account().releases) == 3
    assert Budget("adult", default_ledger()).account() == Budget("adult").account()
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_DATA_HOME", unusable)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert default_ledger() == str(tmp_path / ".local/share/dperm/ledger.db")


def test_a_path_object_and_a_url_name_the_same_file(tmp_path):
    budget = filled(tmp_path / "ledger.db")
    assert budget.ledger == str(tmp_path / "ledger.db")
    assert Budget("adult", f"sqlite:///{tmp_path}/ledger.db").account() == budget.account()


def test_an_older_copy_of_the_file_is_noticed(ledger):
    budget = filled(ledger)
    shutil.copy(ledger, ledger + ".old")
    budget.reserve(GAUSSIAN, REPLACE_ONE)
    shutil.copy(ledger + ".old", ledger)
    with pytest.raises(LedgerDamagedError, match=r"entry 6: .* older copy was restored"):
        budget.account()


def test_bytes_in_place_of_text_are_noticed(ledger):
    budget = filled(ledger)
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("UPDATE dperm_entries SET content = CAST(content AS BLOB) WHERE number = 2")
    with pytest.raises(LedgerDamagedError, match="entry 2"):
        budget.account()


@pytest.mark.parametrize("solver", ["dp-gd", "dp-sgd", "dp-svrg", "chaudhuri-output", "kifer-objective"])
def test_a_fit_that_is_calibrated_for_the_whole_budget_fits(ledger, solver):
    budget = Budget.create("adult", Guarantee(1.0, 1e-6), ledger=ledger)
    event = PrivateLogisticRegression(1.0, 1e-6, solver=solver).plan(1000, 5).event
    budget.check(event, REPLACE_ONE)
    budget.reserve(event, REPLACE_ONE)
    assert 0.9 < budget.account().spent <= 1.0


def test_one_witness_a_budget_is_kept(tmp_path, ledger):
    filled(ledger)
    names = [path.name for path in (tmp_path / "state" / "dperm").iterdir()]
    assert len(names) == 1
    assert re.fullmatch(r"ledger-[0-9a-f]{32}-5-[0-9a-f]{64}", names[0])


def test_a_witness_that_came_late_sets_nobody_back(tmp_path):
    for number in (0, 2, 1):
        witness.remember("a" * 32, number, str(number) * 64, "adult")
    assert witness.seen() == {"a" * 32: (2, "2" * 64)}


def test_without_a_place_for_witnesses_one_warning_is_given(tmp_path, ledger, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    witness._warn_once.cache_clear()
    with pytest.warns(NoWitnessWarning, match="older copy") as caught:
        filled(ledger)
    assert len(caught) == 1
    assert len(Budget("adult", ledger).account().releases) == 3


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\0b", "\ud800", "x" * 201, None, 7, b"adult"])
def test_a_name_is_short_plain_text(name, ledger):
    for use in (Budget, lambda name: Budget.create(name, GUARANTEE, ledger=ledger)):
        with pytest.raises(InvalidParameterError, match="dataset must"):
            use(name)


def test_the_longest_name_is_taken(ledger):
    budget = Budget.create("ü" * 200, GUARANTEE, ledger=ledger)
    budget.reserve(GAUSSIAN, REPLACE_ONE)
    assert budget.account().dataset == "ü" * 200


PLACES = {
    "sqlite://": "not on disk",
    ":memory:": "not on disk",
    "sqlite:///:memory:": "not on disk",
    "sqlite:///file:x?mode=memory&uri=true": "not on disk",
    "nonsense://ann:secret@host/name": "not a database URL",
    "postgresql+nonsense://ann:secret@host/name": "not a database URL",
    "postgresql://ann:secret@host:port/name": "not a database URL",
    "://ann:secret@host": "not a database URL",
    "mysql+pymysql://ann:secret@host/name": "needs the database driver pymysql",
    "postgresql+psycopg://ann:secret@127.0.0.1:1/name": "cannot be reached",
    "postgresql+psycopg://ann:sec@ret:secret@127.0.0.1:1/name": "ledger",
    "postgresql+psycopg://127.0.0.1:1/name?user=ann&password=secret": "cannot be reached",
    "postgresql:/ann:secret@host/name": "cannot be opened",
    "/proc/ledger.db": "cannot be opened",
    "/": "cannot be opened",
    "{folder}/missing/ledger.db": "cannot be opened",
    "{folder}/text": "not a SQLite database",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_cannot_be_used_is_one_sentence_without_password(place, tmp_path):
    (tmp_path / "text").write_text("not a database " * 100)
    ledger = place.format(folder=tmp_path)
    with pytest.raises(DpermError, match=PLACES[place]) as error:
        Budget.create("adult", GUARANTEE, ledger=ledger)
    for use in (Budget("adult", ledger).account, lambda: Budget("adult", ledger).reserve(GAUSSIAN, REPLACE_ONE)):
        with pytest.raises(DpermError) as other:
            use()
        shown(other.value)
    shown(error.value)
    shown(Budget("adult", ledger))
    shown(Reservation(Budget("adult", ledger), 1, "0"))
    assert (tmp_path / "text").read_text().startswith("not a database")


def shown(thing):
    for text in (str(thing), repr(thing)):
        assert "secret" not in text
        assert "sec@ret" not in text
        assert "SELECT" not in text
        assert "\n" not in text


@pytest.mark.parametrize("ledger", ["", 7, b"x", "a\0b"])
def test_a_ledger_is_text(ledger):
    with pytest.raises(InvalidParameterError, match="ledger must be"):
        Budget("adult", ledger)


def test_a_wrong_guarantee_adjacency_or_fingerprint_is_refused(ledger):
    with pytest.raises(InvalidParameterError, match="guarantee must be"):
        Budget.create("adult", 3.0, ledger=ledger)
    with pytest.raises(InvalidParameterError, match="adjacency must be"):
        Budget.create("adult", GUARANTEE, "neighbours", ledger)
    reservation = filled(ledger).reserve(GAUSSIAN, REPLACE_ONE)
    for fingerprint in ("", None, "x" * 201):
        with pytest.raises(InvalidParameterError, match="fingerprint must be"):
            reservation.settle(fingerprint)


def test_a_look_at_a_missing_file_does_not_make_one(tmp_path):
    with pytest.raises(InvalidParameterError, match="there is no budget"):
        Budget("adult", str(tmp_path / "none.db")).account()
    assert not (tmp_path / "none.db").exists()


def test_an_empty_file_and_another_database_hold_no_budget(tmp_path):
    (tmp_path / "empty").touch()
    with closing(sqlite3.connect(tmp_path / "other", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    for name in ("empty", "other"):
        with pytest.raises(InvalidParameterError, match="there is no budget"):
            Budget("adult", str(tmp_path / name)).account()
    with closing(sqlite3.connect(tmp_path / "other", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE dperm_budgets (dataset TEXT)")
    with pytest.raises(DpermError, match="cannot be used"):
        Budget("adult", str(tmp_path / "other")).account()


def test_a_lock_that_is_not_given_back_is_one_sentence(ledger, monkeypatch):
    budget = filled(ledger)
    monkeypatch.setattr("dperm.ledger.tables._SECONDS_TO_WAIT_FOR_A_LOCK", 0.2)
    with Ledger(ledger).open("adult"), pytest.raises(DpermError, match="is locked by another process"):
        budget.reserve(GAUSSIAN, REPLACE_ONE)
    assert len(budget.account().releases) == 3


def test_a_file_that_may_not_be_written_can_be_looked_at_and_is_one_sentence(ledger, tmp_path):
    budget = filled(ledger)
    # Root may write whatever the file's mode is, so the error is had in another way.
    read_only = closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True))
    with read_only as connection, pytest.raises(sqlite3.OperationalError) as error:
        connection.execute("CREATE TABLE x (y)")
    assert _reason(OperationalError("", {}, error.value)) == "cannot be written: the file or its folder is read-only"
    if os.geteuid() != 0:
        Path(ledger).chmod(0o444)
        assert len(budget.account().releases) == 3
        with pytest.raises(DpermError, match="the file or its folder is read-only"):
            budget.reserve(GAUSSIAN, REPLACE_ONE)


def test_entries_are_only_ever_added():
    code = (Path(places.__file__).parent / "tables.py").read_text()
    assert "delete(" not in code
    assert re.findall(r"update\((\w+)\)", code) == ["_BUDGETS"]
    for name in ("budget.py", "accounts.py", "witness.py"):  # and nothing else speaks to a database
        assert "import sqlalchemy" not in (Path(places.__file__).parent / name).read_text()


LOOK_ALIKES = {
    "a space before": " adult",
    "a space after": "adult ",
    "two spaces": "the  adult",
    "a space that does not break": "the\u00a0adult",
    "a thin space": "the\u2009adult",
    "zero width space": "ad\u200bult",
    "zero width joiner": "ad\u200dult",
    "byte order mark": "\ufeffadult",
    "soft hyphen": "ad\u00adult",
    "right to left": "\u202etluda",
    "isolate": "\u2066adult\u2069",
    "variation selector": "adult\ufe0f",
    "filler": "adult\u3164",
    "invisible letter": "adult\u1160",
    "blank braille": "adult\u2800",
    "private use": "adult\ue000",
    "full width": "\uff41dult",
    "ligature": "\ufb01le",
    "superscript": "adult\u00b2",
    "Cyrillic a": "\u0430dult",
    "Greek o": "p\u03bfor",
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_name_that_looks_like_another_is_refused(name, ledger):
    with pytest.raises(InvalidParameterError, match="dataset") as error:
        Budget.create(LOOK_ALIKES[name], GUARANTEE, ledger=ledger)
    assert str(error.value).isascii()
    assert not os.path.exists(ledger)


@pytest.mark.parametrize("name", ["Adult", "ADULT", "ad ult"])
def test_a_name_that_differs_by_case_or_spaces_only_is_refused_beside_the_other(name, ledger):
    Budget.create("adult", GUARANTEE, ledger=ledger)
    with pytest.raises(InvalidParameterError, match="there is a budget 'adult' already, which looks like"):
        Budget.create(name, GUARANTEE, ledger=ledger)
    assert [budget.dataset for budget in budgets(ledger)] == ["adult"]


@pytest.mark.parametrize(
    "name", ["café", "Ελλάδα 2024", "исследование", "調査", "ε-study", "naïve_v2.1 (final)", "عينة", "हिन्दी"]
)
def test_names_of_every_language_are_taken_in_either_form(name, ledger):
    for form in ("NFC", "NFD"):
        spelled = unicodedata.normalize(form, name)
        if form == "NFC":
            budget = Budget.create(spelled, GUARANTEE, ledger=ledger)
        else:
            with pytest.raises(InvalidParameterError, match="already"):
                Budget.create(spelled, GUARANTEE, ledger=ledger)
        reservation = Budget(spelled, ledger).reserve(GAUSSIAN, REPLACE_ONE)
        assert reservation.budget == budget
        reservation.settle(form)
        Budget(spelled, ledger).confirm(reservation.number, reservation.digest, form)
    assert len(budget.account().releases) == 2
    assert unicodedata.is_normalized("NFC", budget.dataset)


def test_a_list_of_a_mistyped_path_says_that_there_is_no_such_file(tmp_path, monkeypatch, capsys):
    wrong = str(tmp_path / "no such ledger.db")
    for arguments, variable in ((["--ledger", wrong], None), ([], wrong), (["--ledger", f"sqlite:///{wrong}"], None)):
        if variable:
            monkeypatch.setenv("DPERM_LEDGER", variable)
        assert run_with(["budget", "list", *arguments]) == 2
        assert "there is no file" in capsys.readouterr().err
        assert run_with(["budget", "show", "adult", *arguments]) == 2
        assert "and no such file" in capsys.readouterr().err
        assert not os.path.exists(wrong)
    with pytest.raises(InvalidParameterError, match="there is no file"):
        budgets(wrong)
