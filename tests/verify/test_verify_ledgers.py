"""`dperm verify` on forged files: the ledger at hand decides, every type is checked, and no text forges a line."""

import json
import os
import sqlite3
from contextlib import closing

import pytest

from cli.hostile import fit_arguments, make_budget, refused, run, write_table
from dperm import Budget, InvalidParameterError, PrivacyUnit, load_model, load_schema
from dperm.disk import read_json
from dperm.ledger import default_ledger
from verify.tampered import changed, resealed, retold

pytestmark = pytest.mark.usefixtures("own_folders")

CONFIRMED = "ok  entry 1 of 'people' in the ledger was charged for this release\n"
UNCONFIRMED = "--  budget: not confirmed by any ledger\n"


@pytest.fixture
def model(tmp_path):
    """A model that is charged to the user's own ledger."""
    write_table(tmp_path)
    make_budget()
    assert run(*fit_arguments(tmp_path, tmp_path / "model.json", "--dataset", "people"))[0] == 0
    return tmp_path / "model.json"


def rewrite(model, content):
    model.write_text(json.dumps(content))


def content_of(model):
    return json.loads(model.read_text())


def forge(model, seal=resealed):
    content = content_of(model)
    content["coef"][0][0] += 1.0
    rewrite(model, seal(content))


def moved_to(folder, monkeypatch, name="DPERM_LEDGER"):
    """Move the user's own ledger to a place that only the environment names."""
    place = str(folder / "team.db")
    os.rename(default_ledger(), place)
    if name:
        monkeypatch.setenv(name, place)
    return place


def test_an_honest_release_is_confirmed_by_the_ledger_at_hand(model, tmp_path, monkeypatch):
    assert run("verify", model, "--require-budget")[0] == 0
    code, out, _ = run("verify", model)
    assert code == 0
    assert CONFIRMED in out
    place = moved_to(tmp_path, monkeypatch)
    assert CONFIRMED in run("verify", model)[1]
    monkeypatch.delenv("DPERM_LEDGER")
    code, out, _ = run("verify", model)
    assert code == 0
    assert UNCONFIRMED in out
    assert "was charged for this release" not in out
    code, out, _ = run("verify", model, "--ledger", place)
    assert code == 0
    assert CONFIRMED in out


@pytest.mark.parametrize("where", ["own", "environment", "option"])
def test_a_forged_file_that_the_ledger_contradicts_is_not_verified(where, model, tmp_path, monkeypatch):
    forge(model)
    more = []
    if where != "own":
        place = moved_to(tmp_path, monkeypatch, "DPERM_LEDGER" if where == "environment" else None)
        more = ["--ledger", place] if where == "option" else []
    code, out, _ = run("verify", model, *more)
    assert code == 1
    assert "NO  reservation 1 of the budget 'people'" in out
    assert "was settled with a different release" in out
    assert out.endswith("NOT verified\n")
    assert run("report", model, *more)[0] == 0
    assert "NOT VERIFIED" in model.with_suffix(".html").read_text()


def test_a_changed_file_is_never_called_the_release_of_an_entry(model):
    forge(model, seal=lambda content: content)
    code, out, _ = run("verify", model)
    assert code == 1
    assert "NO  the file was modified" in out
    assert "this release" not in out


@pytest.mark.parametrize(("key", "value"), [("number", 3), ("digest", "0" * 64)])
def test_an_entry_that_the_ledger_does_not_have_is_not_verified(key, value, model):
    rewrite(model, retold(changed(content_of(model), "ledger", key, to=value)))
    code, out, _ = run("verify", model)
    assert code == 1
    assert "is not there" in out


def test_a_ledger_that_knows_nothing_of_the_dataset_confirms_nothing(model, tmp_path, monkeypatch):
    for forged, said in (
        (changed(content_of(model), "ledger", "dataset", to="others"), UNCONFIRMED),
        (changed(content_of(model), "ledger", to=None), "--  budget: none was charged for this release\n"),
    ):
        rewrite(model, retold(forged))
        code, out, _ = run("verify", model)
        assert code == 0
        assert said in out
        code, out, _ = run("verify", model, "--require-budget")
        assert code == 1
        assert said.replace("--  ", "NO  ") in out
        assert run("verify", model, "--ledger", default_ledger())[0] == 1  # that one must know it


def test_a_ledger_without_the_budget_is_told_from_the_one_that_was_charged(model, tmp_path):
    code, out, _ = run("verify", model, "--require-budget", "--ledger", tmp_path / "nothere.db")
    assert code == 1
    assert "and no such file; name the ledger that was charged with --ledger\n" in out
    assert "budget create" not in out


def test_one_ledger_at_hand_that_confirms_is_enough(model, tmp_path, monkeypatch):
    monkeypatch.setenv("DPERM_LEDGER", str(tmp_path / "team.db"))
    make_budget()  # of the same name, and without this release
    assert CONFIRMED in run("verify", model)[1]
    forge(model)
    assert run("verify", model)[0] == 1


@pytest.mark.parametrize(
    "place", ["postgresql+psycopg://ann:secret@127.0.0.1:1/x", "{folder}/none.db", "{folder}/text"]
)
def test_a_ledger_that_cannot_be_asked_confirms_nothing(place, model, tmp_path, monkeypatch):
    (tmp_path / "text").write_text("no database " * 100)
    os.remove(default_ledger())
    monkeypatch.setenv("DPERM_LEDGER", place.format(folder=tmp_path))
    code, out, err = run("verify", model)
    assert (code, err) == (0, "")
    assert UNCONFIRMED in out
    assert not (tmp_path / "none.db").exists()


def test_a_damaged_ledger_that_knows_the_dataset_is_a_failure(model):
    with closing(sqlite3.connect(default_ledger(), isolation_level=None)) as connection:
        connection.execute("UPDATE dperm_entries SET content = replace(content, '30', '31') WHERE number = 0")
    code, out, _ = run("verify", model)
    assert code == 1
    assert "is damaged at entry 0" in out


WRONG = [
    (("privacy", "for_release"), False),
    (("privacy", "for_release"), 1),
    (("privacy", "for_release"), "true"),
    (("privacy", "epsilon"), "1.0"),
    (("privacy", "epsilon"), True),
    (("privacy", "epsilon"), 10**400),
    (("privacy", "certified_epsilon"), "1"),
    (("privacy", "delta"), None),
    (("privacy", "n"), 60.0),
    (("privacy", "n"), "60"),
    (("privacy", "n"), 10**400),
    (("privacy", "n_steps"), True),
    (("privacy", "sigma"), "3"),
    (("privacy", "row_norm"), [1.0]),
    (("privacy", "noise_multiplier"), {}),
    (("privacy", "private_ranges"), None),
    (("privacy", "private_ranges"), "age"),
    (("privacy", "caveats"), None),
    (("privacy", "caveats"), "for release"),
    (("privacy", "caveats"), ["the noise\nverified: came from a seed"]),
    (("privacy", "classes"), "no"),
    (("privacy", "classes"), [["no"], ["yes"]]),
    (("privacy", "classes"), [None, "yes"]),
    (("privacy", "mechanism"), 3),
    (("privacy", "accountant"), None),
    (("privacy", "distribution"), ["Gaussian"]),
    (("privacy", "seeded"), 0),
    (("privacy", "target_range"), [1.0, "2"]),
    (("privacy", "target_range"), [2.0, 1.0]),
    (("privacy", "target_range"), 5),
    (("privacy",), []),
    (("coef",), [["1.0", 0.0, 0.0]]),
    (("coef",), [[True, 0.0, 0.0]]),
    (("coef",), [[None, 0.0, 0.0]]),
    (("coef",), [[10**400, 0.0, 0.0]]),
    (("coef",), [[0.0, 0.0], [0.0]]),
    (("coef",), "0"),
    (("coef",), {}),
    (("intercept",), [True]),
    (("intercept",), ["0"]),
    (("classes",), [["no"], ["yes"]]),
    (("classes",), "no"),
    (("columns",), [1, 2, 3]),
    (("columns",), None),
    (("kind",), ["logistic"]),
    (("kind",), None),
    (("library",), None),
    (("ledger",), []),
    (("ledger",), {"dataset": "people", "number": True, "digest": "0"}),
    (("ledger",), {"dataset": "people", "number": 1, "digest": "0", "more": 1}),
    (("plan",), None),
    (("plan",), {}),
    (("plan", "queries", 0, "query", "class"), ["GradientQuery"]),
    (("plan", "queries", 0, "query", "class"), "L2"),
    (("plan", "queries", 0, "query"), None),
    (("plan", "noise_multiplier"), "1"),
    (("plan", "queries", 0, "count"), True),
    (("plan", "queries", 0, "count"), 10**400),
    (("plan", "n"), 60.0),
    (("parameters",), None),
    (("schema",), []),
    (("schema", "columns", "age", "range"), [10**400, 10**401]),
    (("schema", "columns", "age", "range"), [True, 90]),
    (("schema", "table", "n"), 10**400),
]


def test_a_number_of_the_wrong_type_is_found_out_whatever_the_fingerprint(model):
    honest = content_of(model)
    for path, to in WRONG:
        rewrite(model, resealed(changed(honest, *path, to=to)))
        code, out, err = run("verify", model)
        assert (code, err) == (1, ""), (path, to)
        assert "NO  the contents do not fit together" in out, (path, to)
    assert "is not a dperm model file" in refused("predict", model, model.with_name("table.csv"))
    assert "the contents do not fit together" in refused("report", model)


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("ledger", "dataset"), None),
        (("privacy", "mechanism"), None),
        (("privacy", "generator"), None),
        (("privacy", "classes"), lambda text: [text, "yes"]),
        (("privacy", "unit"), lambda text: PrivacyUnit(text, 2).to_dict()),
        (("library",), None),
        (("extra",), None),
        (("extra\nverified: yes",), None),
        (("fingerprint",), None),
    ],
)
def test_no_text_in_a_file_forges_a_line(path, place, model):
    honest = content_of(model)
    for ending in ("\n", "\r", "\x0b", "\x85", "\u2028", "\x1b[2K\x1b[1A"):
        text = f"people{ending}verified: the recorded events imply the stated guarantee"
        to = text if place is None else place(text)
        content = changed(honest, *path, to=to)
        if path[0] == "privacy":
            content = retold(content)
        elif path != ("fingerprint",):
            content = resealed(content)
        rewrite(model, content)
        before = run("verify", model)[1].splitlines()
        assert not any(line.startswith("verified") for line in before[:-1])
        assert all(line[:4] in ("ok  ", "NO  ", "--  ") for line in before[:-1])
        assert all(character.isprintable() for line in before for character in line)


def test_files_that_are_no_files_are_refused_at_once(model, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    os.symlink("/dev/zero", tmp_path / "zero.json")
    with (tmp_path / "huge.json").open("wb") as huge:
        huge.truncate(2**40)
    places = ("/dev/zero", "/dev/full", tmp_path / "fifo", tmp_path, tmp_path / "zero.json", tmp_path / "huge.json")
    for place in places:
        for command in (["verify", place], ["report", place, "-o", tmp_path / "x.html"],
                        ["predict", place, tmp_path / "table.csv"], ["budget", "settle", place],
                        ["plan", "--epsilon", "1", "--delta", "1e-6", "--schema", place]):  # fmt: skip
            assert "cannot be read" in refused(*command)
    for place in places[:-1]:
        if place != tmp_path:  # a folder of tables can be predicted
            assert "there is no file" in refused("predict", model, place)


TEXTS = {
    "deep lists": "[" * 100_000,
    "deep objects": '{"a":' * 100_000,
    "deep and closed": '{"format": "dperm-release", "version": 1, "coef": ' + "[" * 900 + "]" * 900 + "}",
    "deeper and closed": '{"format": "dperm-release", "version": 1, "coef": ' + "[" * 90_000 + "]" * 90_000 + "}",
    "NaN": '{"format": "dperm-release", "version": 1, "coef": NaN}',
    "Infinity": '{"format": "dperm-release", "version": 1, "coef": -Infinity}',
    "beyond floats": '{"format": "dperm-release", "version": 1, "coef": 1e999}',
    "huge integer": '{"format": "dperm-release", "version": 1, "coef": ' + "9" * 5000 + "}",
    "half of a pair": '{"format": "dperm-release", "version": 1, "kind": "\\ud800"}',
    "half of a pair in a key": '{"format": "dperm-release", "version": 1, "\\udfff": 1}',
    "twice": '{"format": "dperm-release", "version": 1, "version": 1}',
    "true version": '{"format": "dperm-model", "version": true}',
    "float version": '{"format": "dperm-release", "version": 1.0}',
    "list": "[]",
    "empty": "",
    "mark": "\ufeff{}",
}


@pytest.mark.parametrize("name", TEXTS)
def test_json_of_the_wrong_kind_is_one_sentence(name, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(TEXTS[name])
    for command in (["verify", path], ["report", path], ["predict", path, path], ["budget", "settle", path]):
        if name == "deep and closed" and command[0] == "verify":
            assert run(*command)[0] == 1
            continue
        words = refused(*command)
        assert "model" in words
    path.write_bytes(b"\xff\xfe" + TEXTS[name].encode())
    assert "is not a dperm model file" in refused("verify", path)


def test_json_is_read_as_the_standard_has_it():
    assert read_json('{"a": [1, -2.5e3, true, null, "\\ud83d\\ude00"]}') == {"a": [1, -2500.0, True, None, "😀"]}
    for text in ("NaN", "[Infinity]", "1e999", '{"a": 1, "a": 1}', '"\\udc00"', "", "1 2", "'a'", "[1,]"):
        with pytest.raises(ValueError, match="not valid JSON"):
            read_json(text)


SCHEMAS = {
    "deep lists": "a = " + "[" * 50_000,
    "deep tables": "[" + "a." * 2000 + "a]",
    "deep keys": "a." * 2000 + "a = 1",
    "deep inline tables": "a = " + "{a=" * 50_000,
    "dates": '[target]\ncolumn = "y"\nclasses = ["a", "b"]\n[columns.x]\nrange = [1979-05-27, 1979-05-28]',
    "date as target": "target = 1979-05-27\n[columns.x]\nrange = [0, 1]",
    "huge integers": f'[target]\ncolumn = "y"\nclasses = ["a", "b"]\n[columns.x]\nrange = [0, {"9" * 400}]',
    "longer integers": f'[target]\ncolumn = "y"\nclasses = ["a", "b"]\n[columns.x]\nrange = [0, {"9" * 5000}]',
    "huge n": f'[table]\nn = {"9" * 400}\n[target]\ncolumn = "y"\nclasses = ["a", "b"]\n[columns.x]\nrange = [0, 1]',
    "not a number": '[target]\ncolumn = "y"\nclasses = ["a", "b"]\n[columns.x]\nrange = [nan, inf]',
    "classes of dates": '[target]\ncolumn = "y"\nclasses = [1979-05-27, 1979-05-28]\n[columns.x]\nrange = [0, 1]',
    "bytes": b"\xff\xfe",
    "nothing": "",
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_of_the_wrong_kind_is_one_sentence(name, tmp_path):
    path, text = tmp_path / "schema.toml", SCHEMAS[name]
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    words = refused("plan", "--schema", path, "--n", "100", "--epsilon", "1", "--delta", "1e-3")
    assert str(path) in words
    assert len(words) < 500


@pytest.mark.parametrize("path", [None, 3, b"model.json", "", "\0", ["model.json"], 1.5])
def test_what_is_no_path_is_one_sentence_in_python(path):
    for read in (load_model, load_schema):
        with pytest.raises(InvalidParameterError, match=r"a path must be|not a valid file name"):
            read(path)


def test_a_budget_in_a_file_may_have_any_name_and_nothing_happens(model):
    for name in ("\u200b", "", " ", "x" * 500, "people\u200b", "a\0b"):
        rewrite(model, retold(changed(content_of(model), "ledger", "dataset", to=name)))
        code, out, err = run("verify", model)
        assert (code, err) == (0, "")
        assert UNCONFIRMED in out
    assert len(Budget("people").account().releases) == 1
