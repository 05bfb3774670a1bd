"""`dperm schema check`, the same before a fit and in a draft: what a new user gets wrong is said before it costs."""

import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from dperm import Amount, Bins, Budget, Category, Classes, Guarantee, Number, PrivacyUnit, Schema
from dperm.cli.main import run_with
from dperm.datasets.adult import load_adult
from dperm.datasets.hospital import load_hospital
from dperm.errors import InvalidTableError
from dperm.privacy.unit import named_like_an_id
from dperm.rows import column_facts
from dperm.schema.plain import schema_to_toml
from dperm.unsafe import check_schema

N = 2000
RNG = np.random.default_rng(0)
HEADER = "For the data holder, not for release: exact facts about the rows, without noise."
COLUMNS = {"age": Number((18, 90)), "weight": Number((30, 150)), "city": Category(["Köln", "Paris", "Rome"])}
TARGET = Classes("ill", ["no", "yes"])


def people(**more):
    frame = pd.DataFrame({
        "age": RNG.integers(18, 90, N), "weight": np.clip(RNG.normal(70, 10, N), 31, 149).round(2),
        "city": RNG.choice(["Köln", "Paris", "Rome"], N), "ill": RNG.choice(["no", "yes"], N),
    })  # fmt: skip
    return frame.assign(**more)


def schema(target=TARGET, separator=",", unit=None, **more):
    return Schema(COLUMNS | more, target, separator=separator, unit=unit)


def kinds(table, declared):
    return {(one.column, one.kind) for one in check_schema(table, declared)}


def shown(capsys, *arguments):
    """Exit code, and all that was printed."""
    code = run_with(list(map(str, arguments)))
    printed = capsys.readouterr()
    return code, printed.out + printed.err


# --- six tables as new users have them ---

DIALECTS = {
    "semicolons": (lambda path: people().to_csv(path, sep=";", index=False), "t.csv", ",",
                   "has no column 'age', read as UTF-8 text with fields between ','",
                   "the first line contains no , and a ;: add --separator ';'"),
    "decimal commas": (lambda path: people().to_csv(path, sep=";", decimal=",", index=False), "t.csv", ";",
                       "weight: 100 % are numbers with a comma, which are read as text: write decimal points",
                       "weight: 100 % are numbers with a comma, which are read as text: write decimal points"),
    "tabs": (lambda path: people().to_csv(path, sep="\t", index=False), "t.tsv", "\t", "nothing found",
             'separator = "\\t"'),
    "cp1252": (lambda path: people().to_csv(path, index=False, encoding="cp1252"), "t.csv", ",",
               "hold bytes that are not UTF-8: convert the file first, such as with iconv -f cp1252 -t utf-8",
               "hold bytes that are not UTF-8: convert the file first, such as with iconv -f cp1252 -t utf-8"),
    "utf-16": (lambda path: people().to_csv(path, index=False, encoding="utf-16"), "t.csv", ",",
               "is not UTF-8 text: write it as UTF-8 first", "is not UTF-8 text: write it as UTF-8 first"),
    "all missing": (lambda path: people(weight="").to_csv(path, index=False), "t.csv", ",",
                    "weight: missing in 100 % of the rows: leave it out, or fix the table",
                    "weight: missing in 100 % of the rows: leave it out, or fix the table"),
    "unseen": (lambda path: people(city="Berlin").to_csv(path, index=False), "t.csv", ",",
               "city: 100 % are none of the declared values: declare them, or fix the spelling of the values",
               "city: always the same: leave it out, it only costs noise"),
}  # fmt: skip


def test_numbers_with_a_comma_are_no_ids(tmp_path, capsys):
    people(weight=[f"{60 + place // 100},{place % 100:02}" for place in range(N)]).to_csv(
        tmp_path / "t.csv", sep=";", index=False
    )
    for command in (["check"], ["draft", "--target", "ill"]):
        _, said = shown(capsys, "schema", *command, tmp_path / "t.csv", "--separator", ";")
        assert "weight: 100 % are numbers with a comma" in said
        assert "looks like an id" not in said


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_check_and_the_draft_name_what_is_wrong_and_what_to_do(dialect, tmp_path, capsys):
    write, name, separator, checked, drafted = DIALECTS[dialect]
    write(tmp_path / name)
    (tmp_path / "s.toml").write_text(schema_to_toml(schema(separator=separator)))
    _, said = shown(capsys, "schema", "check", tmp_path / name, "--schema", tmp_path / "s.toml")
    assert checked in said
    more = ["--separator", ";"] if separator == ";" else []
    _, said = shown(capsys, "schema", "draft", tmp_path / name, "--target", "ill", *more)
    assert drafted in said


def test_an_id_among_the_features_is_found_and_the_unit_proposed(tmp_path, capsys):
    people(patient_id=RNG.integers(1000, 1700, N)).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "s.toml").write_text(schema_to_toml(schema(patient_id=Number((1000, 2000)))))
    words = 'declare it as the privacy unit (unit = "patient_id")'
    for command in (["check", tmp_path / "t.csv", "--schema", tmp_path / "s.toml"], ["check", tmp_path / "t.csv"],
                    ["draft", tmp_path / "t.csv", "--target", "ill"]):  # fmt: skip
        code, said = shown(capsys, "schema", *command)
        assert code == 0
        assert "patient_id: looks like an id, each value is in about 3." in said
        assert words in said
    code, said = shown(capsys, "schema", "draft", tmp_path / "t.csv", "--target", "ill", "--unit", "patient_id")
    assert "looks like an id" not in said


@pytest.mark.parametrize(
    ("target", "is_count"), [("visits", True), ("claims", True), ("ill", False), ("weight", False)]
)
def test_a_draft_of_counts_names_the_model_for_them(target, is_count, tmp_path, capsys):
    people(visits=RNG.poisson(2.0, N), claims=RNG.poisson(30.0 * RNG.gamma(1.0, 1.0, N))).to_csv(tmp_path / "t.csv")
    code, said = shown(capsys, "schema", "draft", tmp_path / "t.csv", "--target", target)
    assert code == 0
    assert (f"# {target}: looks like counts: use a range (not classes) and --model poisson." in said) == is_count


# --- what is found, and what is not ---


def test_nothing_is_found_in_ordinary_tables():
    assert check_schema(people(), schema()) == ()
    for data in (load_adult(), load_hospital()):
        assert not [one for one in check_schema(data.train, data.schema) if one.serious]


DAYS = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 300, N), "D"))
FOUND = {
    "missing": (lambda: people(weight=np.where(RNG.random(N) < 0.2, np.nan, 70.5)), schema(), "weight"),
    "no number": (lambda: people(weight=np.where(RNG.random(N) < 0.2, "heavy", "70.5")), schema(), "weight"),
    "decimal comma": (lambda: people(weight=np.where(RNG.random(N) < 0.2, "71,5", "70.5")), schema(), "weight"),
    "outside": (lambda: people(age=RNG.integers(18, 120, N)), schema(), "age"),
    "unseen": (lambda: people(city=RNG.choice(["Rome", "Bern"], N)), schema(), "city"),
    "case": (lambda: people(city=RNG.choice(["Rome", "ROME"], N)), schema(), "city"),
    "absent value": (lambda: people(city=RNG.choice(["Rome", "Paris"], N)), schema(), "city"),
    "constant": (lambda: people(weight=71.25), schema(), "weight"),
    "duplicate": (lambda: people().assign(mass=lambda t: t.weight), schema(mass=Number((30, 150))), "mass"),
    "id": (lambda: people(case=RNG.permutation(N)), schema(case=Number((0, N))), "case"),
    "count": (lambda: people(ill=RNG.poisson(2.0, N)), schema(Amount("ill", (0, 30))), "ill"),
    "date": (lambda: people(day=DAYS), None, "day"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOUND)
def test_every_kind_of_finding_is_found(kind):
    table, declared, column = FOUND[kind]
    found = kinds(table(), declared)
    assert (column, kind) in found
    assert (column, kind) not in kinds(people(mass=RNG.random(N) + 40, case=RNG.random(N), day=1), declared)


def test_dates_are_found_as_texts_and_digits():
    written = people(a=DAYS.dt.strftime("%d.%m.%Y"), b=DAYS.dt.strftime("%Y%m%d").astype(int), c=DAYS.astype(str))
    assert {("a", "date"), ("b", "date"), ("c", "date")} <= kinds(written, None)


def test_ids_that_stand_in_one_place_are_found_whatever_their_name():
    whose = np.repeat(np.arange(N), RNG.integers(1, 5, N))[:N] * 7919 % 100003
    assert ("mrn", "id") in kinds(people(mrn=whose), None)
    assert ("mrn", "id") not in kinds(people(mrn=RNG.permutation(whose)), None)
    assert ("who_id", "id") in kinds(people(who_id=RNG.permutation(whose)), None)


@pytest.mark.parametrize("name", ["patient_id", "PatientID", "customerNumber", "id_case", "userid", "pid", "case.nr"])
def test_names_of_ids_are_known(name):
    assert named_like_an_id(name)


@pytest.mark.parametrize("name", ["age", "paid", "solid", "idle", "number_of_visits", "keyboard", ""])
def test_other_names_are_none_of_ids(name):
    assert not named_like_an_id(name)


def test_a_unit_that_is_no_more_than_a_row_is_said():
    unit = PrivacyUnit("who", 2)
    assert kinds(people(who=np.arange(N)), schema(unit=unit)) == {("who", "id")}
    assert kinds(people(who=np.arange(N) // 2), schema(unit=unit)) == set()


def test_what_the_schema_declares_is_no_finding():
    table = people(weight=np.where(RNG.random(N) < 0.2, -9, 70.0), city=RNG.choice(["Rome", "ROME", "?"], N))
    declared = Schema(
        {"weight": Number((30, 150), missing="column"), "city": Category([["Rome", "ROME"]], missing="column")},
        TARGET, missing=("-9.0", "?"),
    )  # fmt: skip
    assert {kind for _, kind in kinds(table, declared)} <= {"constant"}
    assert ("weight", "missing") in kinds(table, Schema({"weight": Bins((40, 80))}, TARGET, missing=("-9",)))
    assert not kinds(people(weight="private"), Schema({"age": Number("private")}, TARGET))


ODD_CELLS = [
    None, 2.5, True, "true", "1e999", "nan", "  ", "1,5", "2024-01-31", b"\xff\xfe", "\ud800", float("inf"), 1 + 2j, {},
    [], object(), 10**400, "١٢٣", "1_000", "20240131", "a\nb", "\0", "\0case", "\0unseen", pd.NA,
    pd.Timestamp("2024-01-01"),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(ODD_CELLS)))
def test_no_cell_ends_a_check(place):
    cells = [ODD_CELLS[place]] * 150
    table = pd.DataFrame({name: pd.Series([*cells, 1, "x"], dtype=object) for name in ("a", "b", "c", "y")})
    declared = {"a": Number((0, 1)), "b": Category(["x", "true"]), "c": Bins((1, 2))}
    for known in (
        Schema(declared, Amount("y", (0, 9))),
        Schema(declared, Classes("y", ["x", 1]), missing=("?",)),
        None,
    ):
        assert all(str(one) for one in check_schema(table, known))


def test_a_feature_that_is_the_target_is_found():
    table = people().assign(sick=lambda t: t.ill)
    (found,) = check_schema(table, schema(sick=Category(["no", "yes"])))
    assert str(found) == "ill: the same as sick in every row: a feature that is the target predicts itself"


def test_no_value_of_a_row_is_said():
    table = people(age=718273, weight="SENTINEL", city="SENTINEL", ill="SENTINEL")
    said = "\n".join(map(str, check_schema(table, schema())))
    assert said.count("\n") == 3
    assert "SENTINEL" not in said
    assert "718273" not in said


# --- every table that a fit takes, in one pass and bounded memory ---


def test_files_folders_and_frames_are_checked_alike_piece_by_piece(tmp_path, monkeypatch):
    table = people(who_id=np.arange(N) // 3, weight=np.where(np.arange(N) < 100, 500.0, 70.5))
    declared = schema(who_id=Number((0, N)))
    whole = check_schema(table, declared)
    assert {one.kind for one in whole} == {"outside", "id"}
    monkeypatch.setattr("dperm.unsafe.ROWS_AT_ONCE", 300)
    monkeypatch.setattr("dperm.rows.memory.ROWS_AT_ONCE", 300)
    table.to_csv(tmp_path / "t.csv", index=False)
    for part in range(2):
        (tmp_path / "folder").mkdir(exist_ok=True)
        half = table[part * N // 2 : (part + 1) * N // 2]
        parquet.write_table(pa.Table.from_pandas(half, preserve_index=False), tmp_path / "folder" / f"{part}.parquet")
    for same in (table, pa.Table.from_pandas(table), tmp_path / "t.csv", tmp_path / "folder"):
        assert check_schema(same, declared) == whole
    assert [one.kind for one in check_schema(table, declared, rows=100)] == ["outside", "id"]
    with pytest.raises(InvalidTableError, match="no column 'mass'"):
        check_schema(tmp_path / "t.csv", schema(mass=Number((0, 1))))


def test_different_values_are_counted_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(column_facts, "_MOST_COUNTED", 100)
    monkeypatch.setattr(column_facts, "_MOST_COMPARED", 100)
    monkeypatch.setattr("dperm.unsafe.ROWS_AT_ONCE", 100)
    facts = []
    made = column_facts._ColumnFacts.__init__
    monkeypatch.setattr(
        column_facts._ColumnFacts, "__init__", lambda self, *of: (made(self, *of), facts.append(self))[0]
    )
    table = people(case=RNG.permutation(N), city=[f"c{place}" for place in range(N)])
    assert {("case", "id"), ("city", "unseen")} <= kinds(table, schema(case=Number((0, N))))
    assert max(len(one.counts) for one in facts) < 200
    assert max(len(one._places) for one in facts) < 200


# --- before a fit ---


@pytest.fixture
def fit_of(tmp_path, capsys):
    Budget.create("people", Guarantee(5.0, 1e-3), ledger=str(tmp_path / "ledger.db"))

    def fit(table, *flags, target=TARGET):
        table.to_csv(tmp_path / "t.csv", index=False)
        (tmp_path / "s.toml").write_text(schema_to_toml(schema(target)))
        code, said = shown(
            capsys, "fit", tmp_path / "t.csv", "--schema", tmp_path / "s.toml", "--epsilon", 1, "--delta", 1e-5, "-o",
            tmp_path / "m.json", "--force", "--dataset", "people", "--ledger", tmp_path / "ledger.db", *flags,
        )  # fmt: skip
        return code, said, len(Budget("people", str(tmp_path / "ledger.db")).account().releases)

    return fit


@pytest.mark.filterwarnings("ignore")
def test_a_fit_with_a_check_stops_before_anything_is_spent(fit_of, tmp_path):
    code, said, spent = fit_of(people(weight=""), "--check")
    assert (code, spent) == (2, 0)
    assert f"{HEADER}\nweight: missing in 100 % of the rows" in said
    assert "unusable columns: weight; nothing was fitted or spent" in said
    assert not (tmp_path / "m.json").exists()
    code, said, spent = fit_of(people(age=RNG.integers(18, 120, N)), "--check")
    assert (code, spent) == (0, 1)
    assert "outside 18 … 90: widen the range" in said
    code, said, spent = fit_of(people(), "--check")
    assert f"{HEADER}\nnothing found" in said


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("flags", "terminal", "told"),
    [([], False, False), ([], True, True), (["--row-warnings"], False, True), (["--no-row-warnings"], True, False)],
)
def test_what_is_serious_is_said_on_a_terminal_and_stops_nothing(flags, terminal, told, fit_of, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    code, said, spent = fit_of(people(city="Bern", age=RNG.integers(18, 120, N)), *flags)
    assert (code, spent) == (0, 1)
    assert (HEADER in said) == ("city: 100 % are none of the declared values" in said) == told
    assert "widen the range" not in said  # not serious


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model", "told"), [("linear", True), ("poisson", False)])
def test_a_fit_of_counts_names_the_model_for_them_unless_it_is_that_one(model, told, fit_of):
    table = people(ill=RNG.poisson(2.0, N))
    code, said, _ = fit_of(table, "--row-warnings", "--model", model, target=Amount("ill", (0, 30)))
    assert code == 0
    assert ("ill: looks like counts" in said and "--model poisson" in said) == told


@pytest.mark.parametrize("odd", [0, 1, 10])
@pytest.mark.parametrize("case", ["missing", "unseen", "outside", "ordinary"])
def test_a_few_rows_do_not_decide_whether_a_column_is_of_use(case, odd):
    few = np.arange(N) < odd
    table = {
        "missing": lambda: people(weight=np.where(few, 70.5, np.nan)),
        "unseen": lambda: people(city=np.where(few, "Rome", "Bern")),
        "outside": lambda: people(age=np.where(few, 40, 500)),
        "ordinary": lambda: people(weight=np.where(few, np.nan, RNG.random(N) + 70), city=np.where(few, "B", "Rome")),
    }[case]()
    assert any(one.unusable for one in check_schema(table, schema())) == (case != "ordinary")


def test_the_check_refuses_what_it_cannot_do(tmp_path, capsys):
    people().to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "s.toml").write_text(schema_to_toml(schema()))
    code, said = shown(
        capsys, "schema", "check", tmp_path / "t.csv", "--schema", tmp_path / "s.toml", "--target", "ill"
    )
    assert code == 2
    assert "--target, --header and --separator cannot be combined with --schema" in said
    code, said = shown(capsys, "schema", "check", tmp_path / "t.csv", "--target", "nobody")
    assert code == 2
    assert "has no column 'nobody'" in said
