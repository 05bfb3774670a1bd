"""From a table on disk to a verified release on the command line, with friendly tables and hostile ones."""

import bz2
import gzip
import io
import json
import lzma
import re
import tracemalloc
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from dperm import InvalidTableError, load_model, load_schema
from dperm.cli.main import run_with
from dperm.rows import Table
from dperm.rows.pieces import ParquetPiece
from dperm.schema.plain import schema_to_toml
from dperm.unsafe import draft_schema

pytestmark = pytest.mark.usefixtures("own_folders")

HEADER = "age,job,pay,rich"
SCHEMA = """
[table]
n = {n}
missing = ["?"]

[target]
column = "rich"
classes = ["no", "yes"]

[columns.age]
range = [18, 90]

[columns.job]
values = ["smith", "clerk"]
unseen = "column"
"""


def lines_of(n=1000):
    rng = np.random.default_rng(0)
    ages, jobs = rng.integers(18, 90, n), rng.choice(["smith", "clerk", "?"], n)
    return [f"{age},{job},{age * 10},{'yes' if age > 50 else 'no'}" for age, job in zip(ages, jobs, strict=True)]


def write(folder, lines, header=HEADER, schema=SCHEMA, **facts):
    table, public = folder / "table.csv", folder / "schema.toml"
    table.write_bytes("\n".join([header, *lines, ""]).encode("utf-8", errors="surrogateescape"))
    public.write_text(schema.format(n=len(lines), **facts))
    return table, public


def fit(table, public, output, *more, epsilon="1"):
    arguments = [
        "fit",
        str(table),
        "--schema",
        str(public),
        "--epsilon",
        epsilon,
        "--delta",
        "1e-6",
        "-o",
        str(output),
        "--force",
    ]
    return run_with([*arguments, *more])


def test_a_table_becomes_a_verified_release_that_predicts(tmp_path, capsys, monkeypatch):
    table, public = write(tmp_path, lines_of())
    model = tmp_path / "model.json"
    assert run_with(["budget", "create", "people", "--epsilon", "3", "--delta", "1e-5"]) == 0
    capsys.readouterr()
    assert fit(table, public, model, "--dataset", "people") == 0
    out = capsys.readouterr().out
    assert "public:     n = 1000, 8 columns, the classes no, yes" in out  # age has five knots
    assert re.search(
        r"budget:     people: ε = 0\.\d+ of 3 spent, at least 2(\.\d+)? left \(δ = 1e-05, replace_one\)", out
    )
    assert run_with(["verify", str(model)]) == 0
    out = capsys.readouterr().out
    assert out.endswith("verified: the recorded events imply the stated guarantee\n")
    assert "--  a file cannot prove that the noise was added; that rests on who ran the fit" in out
    assert "for release: certified noise, unseeded, no caveats" in out
    monkeypatch.setenv("DPERM_REQUIRE_BUDGET", "1")
    assert fit(table, public, tmp_path / "other.json") == 2
    assert "DPERM_REQUIRE_BUDGET is set: pass --dataset." in capsys.readouterr().err
    monkeypatch.delenv("DPERM_REQUIRE_BUDGET")
    ledger = tmp_path / "data" / "dperm" / "ledger.db"
    assert run_with(["verify", str(model), "--ledger", str(ledger)]) == 0
    assert "entry 1 of 'people' in the ledger was charged for this release" in capsys.readouterr().out
    assert run_with(["predict", str(model), str(table)]) == 0
    predicted = capsys.readouterr().out.split()[1:]
    truth = [line.split(",")[3] for line in table.read_text().split()[1:]]
    assert np.mean(np.array(predicted) == truth) > 0.8
    assert run_with(["report", str(model), "--ledger", str(ledger)]) == 0
    assert "VERIFIED: the recorded events imply the stated guarantee" in (tmp_path / "model.html").read_text()
    assert load_model(model).privacy_.for_release


def test_a_fit_over_the_budget_is_refused_before_the_table_is_opened(tmp_path, capsys):
    _, public = write(tmp_path, lines_of())
    assert run_with(["budget", "create", "people", "--epsilon", "1", "--delta", "1e-6"]) == 0
    capsys.readouterr()
    nowhere = tmp_path / "there is no such table.csv"
    assert fit(nowhere, public, tmp_path / "m.json", "--dataset", "people", epsilon="2") == 2
    error = capsys.readouterr().err
    assert "people" in error
    assert "no file" not in error
    assert "ε = 1" in error  # what is left
    assert len(error.splitlines()) == 1


def test_a_changed_model_is_not_verified(tmp_path, capsys):
    table, public = write(tmp_path, lines_of())
    model = tmp_path / "model.json"
    assert fit(table, public, model) == 0
    content = json.loads(model.read_text())
    content["coef"][0][0] += 1.0
    model.write_text(json.dumps(content))
    capsys.readouterr()
    assert run_with(["verify", str(model)]) == 1
    assert "NO  the file was modified" in capsys.readouterr().out
    assert run_with(["predict", str(model), str(table)]) == 2


def test_a_draft_is_refused_until_its_mark_is_removed(tmp_path, capsys):
    table, _ = write(tmp_path, lines_of())
    draft = tmp_path / "draft.toml"
    assert run_with(["schema", "draft", str(table), "--target", "rich", "-o", str(draft)]) == 0
    schema = load_schema(draft)
    assert schema.derived_from_data
    assert schema.n == 1000
    assert list(schema.columns) == ["age", "job", "pay"]
    assert schema.columns["age"].bounds == (18, 89)
    assert schema.columns["job"].positions == {"clerk": 0, "smith": 1}
    assert schema.missing == ("?",)
    assert schema.target.labels == ("no", "yes")
    capsys.readouterr()
    assert fit(table, draft, tmp_path / "m.json") == 2
    assert "derived from the data" in capsys.readouterr().err
    assert not (tmp_path / "m.json").exists()
    draft.write_text(draft.read_text().replace("derived_from_data = true", ""))
    assert fit(table, draft, tmp_path / "m.json") == 0
    capsys.readouterr()
    assert run_with(["schema", "draft", str(table), "--target", "pay"]) == 0
    assert '[target]\ncolumn = "pay"\nrange = ' in capsys.readouterr().out


@pytest.mark.parametrize(("pack", "suffix"), [(gzip.compress, ".gz"), (bz2.compress, ".bz2"), (lzma.compress, ".xz")])
def test_packed_and_nameless_tables_are_read(pack, suffix, tmp_path):
    table, _ = write(tmp_path, lines_of(20))
    packed = tmp_path / f"table.csv{suffix}"
    packed.write_bytes(pack(table.read_bytes()))
    assert Table(packed).opened().table.equals(Table(table).opened().table)
    nameless = tmp_path / f"table.data{suffix}"
    nameless.write_bytes(pack(table.read_bytes().split(b"\n", 1)[1]))
    assert Table(nameless).opened(HEADER.split(",")).table.equals(Table(table).opened().table)
    packed.write_bytes(b"not packed")
    with pytest.raises(InvalidTableError, match="cannot be unpacked"):
        Table(packed).opened()


def test_a_table_without_the_target_is_predicted_and_odd_lines_keep_their_place(tmp_path, capsys):
    table, public = write(tmp_path, lines_of())
    public.write_text(public.read_text().replace("[target]", 'header = ["age", "job", "pay", "rich"]\n\n[target]', 1))
    table.write_text("\n".join(lines_of()))
    model = tmp_path / "model.json"
    assert fit(table, public, model, epsilon="5") == 0
    capsys.readouterr()
    new = tmp_path / "new.csv"
    new.write_text('20,smith,1\n85,clerk,1\na line of its own\n"85,clerk,1\n85,clerk,1\n')
    assert run_with(["predict", str(model), str(new)]) == 0
    predicted = capsys.readouterr().out.split()[1:]
    assert len(predicted) == 5
    assert [predicted[place] for place in (0, 1, 4)] == ["no", "yes", "yes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "rich"], "cannot be combined with --schema"),
        (["--features", "age"], "cannot be combined with --schema"),
        (["--classes", "no,yes"], "classes cannot be combined with a schema"),
        (["--row-norm", "2"], "row_norm and entry_bound cannot be combined with a schema"),
        (["--model", "linear"], "whose target has a range"),
        (["--dataset", "people", "--seed", "1"], "a seeded fit is not private"),
        (["--dataset", "nobody"], "there is no budget 'nobody'"),
        (["--ledger", "x.db"], "--ledger requires --dataset."),
        (["--n", "7"], "under replace_one the public n is the number of rows"),
        (["--schema", "none.toml"], "cannot be read"),
    ],
)
def test_a_mistake_beside_a_schema_is_one_line_and_writes_nothing(arguments, message, tmp_path, capsys):
    table, public = write(tmp_path, lines_of(50))
    assert fit(table, public, tmp_path / "m.json", *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "m.json").exists()


HOSTILE_LINES = [
    '20,smith,x"y,"z',
    "20\\r" + "0,0,0,0\\r" * 400 + "0,0,0,no",
    '"20\\n30",smith,1,yes',
    'x"y,"z,3,"4',
    '20,"smith"x,1,yes',
    "20,smith,1," + "y" * 3_000_000,
    '20,smith,1,"no""',
    "\\x00\\r\\x00",
]


@pytest.mark.parametrize("line", HOSTILE_LINES)
def test_one_line_of_a_file_does_not_change_the_rows_of_the_others(line, tmp_path):
    lines = lines_of(500)
    table, _ = write(tmp_path, lines)
    expected = Table(table).opened().table
    write(tmp_path, [*lines[:7], line.encode().decode("unicode_escape"), *lines[8:]])
    found = Table(table).opened().table
    added = found.num_rows - 500  # a break in a line makes lines of it
    assert added == line.count("\\n")
    assert found.slice(0, 7).equals(expected.slice(0, 7))
    assert found.slice(8 + added).equals(expected.slice(8))


@pytest.mark.parametrize("last", ["\t", " ", "\x0b", "\x1d\t", "20\tsmith", "\r\t", '"'])
def test_the_last_line_does_not_change_how_many_rows_there_are(last, tmp_path):
    table = tmp_path / "table.csv"
    for ending in ("", "\n", "\n\n"):
        table.write_text("a\tb\n1\t2\n3\t4\n" + last + ending, newline="")
        assert Table(table).opened(separator="\t").table.num_rows == 3


SECRET = "S3cretV4lue"
hostile_fields = st.sampled_from(
    [SECRET, "", '"', '""', "1e999", "9" * 400, "-1e308", "nan", "=cmd|' /C calc'!A0", "@SUM(A1)", "\ufffd", "\x00",
     "٣", "smith", "clerk", "50", "yes", "no", "?", "\udcff\udcfe" + SECRET, "a\tb", " ", "18;90", "\u202e" + SECRET]
)  # fmt: skip


@given(
    rows=st.lists(st.lists(hostile_fields, min_size=1, max_size=6), max_size=12),
    bom=st.booleans(),
    ending=st.sampled_from(["\n", "\r\n", ""]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_hostile_table_is_fitted_or_refused_in_one_line_without_a_value_of_it(rows, bom, ending, tmp_path):
    table, public = write(tmp_path, [","] * len(rows))
    public.write_text(SCHEMA.format(n=max(len(rows), 1)))
    text = ("\ufeff" if bom else "") + "\n".join([HEADER, *(",".join(row) for row in rows)]) + ending
    table.write_bytes(text.encode("utf-8", errors="surrogateescape"))
    model = tmp_path / "m.json"
    model.unlink(missing_ok=True)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run_with(
            ["fit", str(table), "--schema", str(public), "--epsilon", "1", "--delta", "1e-6", "-o", str(model)]
        )
        if code == 0:
            assert run_with(["predict", str(model), str(table), "-o", str(tmp_path / "p.csv"), "--force"]) == 0
    printed = out.getvalue() + err.getvalue() + (model.read_text() if code == 0 else "")
    assert SECRET not in printed
    assert "Traceback" not in printed
    assert "internal error" not in printed
    if code == 0:
        assert load_model(model).privacy_.row_norm == pytest.approx(2**0.5)
        assert len((tmp_path / "p.csv").read_text().split("\n")) - 2 == len(rows)
    else:
        assert code == 2
        assert len(err.getvalue().strip().splitlines()) == 1
        assert not model.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n", "is empty|no column|no rows"),
        (b"age,job,pay,rich\n", "has no rows"),
        (b"age,age,job,rich\n1,2,smith,yes\n", "two columns of the same name"),
        (b"age,job,pay\n1,smith,2\n", "no column 'rich'"),
        (b"\xff\xfe\x00\x00", "is not UTF-8 text: write it as UTF-8 first"),
        (b"20,smith,1,yes\n30,clerk,2,no\n", "no column 'age'"),
    ],
)
def test_files_that_are_no_tables_are_refused_in_one_line(content, message, tmp_path, capsys):
    table, public = write(tmp_path, lines_of(2))
    table.write_bytes(content)
    assert fit(table, public, tmp_path / "m.json") == 2
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert len(error.splitlines()) == 1
    assert "smith" not in error


def test_one_row_is_fitted_and_says_that_delta_is_too_large_for_it(tmp_path, capsys):
    table, public = write(tmp_path, ["20,smith,3,yes"])
    assert fit(table, public, tmp_path / "m.json") == 0
    assert load_model(tmp_path / "m.json").privacy_.n == 1
    capsys.readouterr()


@pytest.mark.slow  # that many columns are encoded in tests/rows/test_encoding.py
def test_a_table_of_ten_thousand_columns_in_parquet_is_fitted(tmp_path, capsys):
    names = [f"c{place}" for place in range(10_000)]
    columns = {name: pa.array([0.1, 0.9, 1e300, None]) for name in names}
    parquet.write_table(pa.table(columns | {"rich": ["no", "yes", "yes", "maybe"]}), tmp_path / "wide.parquet")
    public = tmp_path / "wide.toml"
    blocks = "\n".join(f"[columns.{name}]\nrange = [0, 1]" for name in names)
    public.write_text(f'[target]\ncolumn = "rich"\nclasses = ["no", "yes"]\n{blocks}\n')
    # A solver whose cost is not predicted: a verdict plans forty times to say how many rows would do.
    assert fit(tmp_path / "wide.parquet", public, tmp_path / "m.json", "--solver", "rrpsgd") == 0
    assert load_model(tmp_path / "m.json").privacy_.row_norm == 100.0
    capsys.readouterr()


def test_a_draft_leaves_out_what_it_cannot_describe_and_says_why(tmp_path, capsys):
    rng = np.random.default_rng(0)
    columns = {
        "": np.arange(200),
        "id": np.arange(200),
        "when": np.array(["2020-01-01"] * 200, dtype="datetime64[s]"),
        "name": [f"n{place}" for place in range(200)],
        "nothing": [None] * 200,
        "flag": rng.random(200) < 0.5,
        "size": rng.normal(size=200),
        "grade": rng.integers(1, 4, 200),
    }
    table = tmp_path / "people.parquet"
    parquet.write_table(pa.table(columns), table)
    draft = tmp_path / "draft.toml"
    assert run_with(["schema", "draft", str(table), "--target", "grade", "-o", str(draft)]) == 0
    schema = load_schema(draft)
    assert list(schema.columns) == ["flag", "size"]
    assert schema.columns["flag"].positions == {"false": 0, "true": 1}
    assert schema.target.labels == (1, 2, 3)
    text = draft.read_text()
    for reason in ("no name", "an identifier", "contains timestamp", "too many different texts", "has no values"):
        assert reason in text
    capsys.readouterr()


def test_the_remedy_for_another_separator_is_one_that_the_command_takes(tmp_path, capsys):
    table, model = tmp_path / "t.csv", str(tmp_path / "m.json")
    table.write_text("a;b\n" + "1,5;2,5\n" * 300)
    fit = ["fit", str(table), "--target", "b", "--epsilon", "1", "--delta", "1e-6", "-o", model]
    assert run_with([*fit, "--classes", "0,1"]) == 2
    assert "declare it as the separator in the schema." in capsys.readouterr().err
    for command in (["schema", "check"], ["schema", "draft", "--target", "b"],
                    ["rows-per-unit", "--unit", "a", "--epsilon", "1"]):  # fmt: skip
        assert run_with([*command, str(table)]) == 2
        assert "if the separator differs, name it with --separator." in capsys.readouterr().err


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators_are_declared_in_the_schema(separator, tmp_path, capsys):
    table, draft = tmp_path / "table.csv", tmp_path / "draft.toml"
    table.write_text("\n".join([HEADER, *lines_of(300)]).replace(",", separator))
    arguments = ["--target", "rich", "--separator", "tab" if separator == "\t" else separator, "-o", str(draft)]
    assert run_with(["schema", "draft", str(table), *arguments]) == 0
    draft.write_text(draft.read_text().replace("derived_from_data = true", ""))
    assert fit(table, draft, tmp_path / "m.json") == 0
    assert run_with(["predict", str(tmp_path / "m.json"), str(table)]) == 0
    assert len(capsys.readouterr().out.split("prediction\n")[1].split()) == 300
    draft.write_text(re.sub("separator = .*", "", draft.read_text()))
    assert fit(table, draft, tmp_path / "m.json") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_user_s_own_ledger_is_asked_and_another_is_not_held_against_a_file(tmp_path, capsys, monkeypatch):
    table, public = write(tmp_path, lines_of())
    charged, free = tmp_path / "charged.json", tmp_path / "free.json"
    assert run_with(["budget", "create", "people", "--epsilon", "3", "--delta", "1e-5"]) == 0
    assert fit(table, public, charged, "--dataset", "people") == 0
    assert fit(table, public, free) == 0
    monkeypatch.setenv("DPERM_LEDGER", str(tmp_path / "another.db"))
    capsys.readouterr()
    for model, known in ((charged, True), (free, False)):
        assert run_with(["verify", str(model)]) == 0
        assert ("in the ledger was charged for this release" in capsys.readouterr().out) == known
    assert run_with(["report", str(charged)]) == 0
    assert "this release" in (tmp_path / "charged.html").read_text()
    assert run_with(["verify", str(free), "--ledger", str(tmp_path / "data" / "dperm" / "ledger.db")]) == 1


def test_a_draft_reads_one_column_of_a_parquet_file_at_a_time(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    table = pa.table({"age": rng.uniform(18, 90, 300), "region": ["north", "south", None] * 100, "rich": [0, 1] * 150})
    parquet.write_table(table, tmp_path / "people.parquet", row_group_size=100)
    asked, tables = [], ParquetPiece.tables
    monkeypatch.setattr(
        ParquetPiece, "tables", lambda piece, columns, *how: asked.append(list(columns)) or tables(piece, columns)
    )
    monkeypatch.setattr("dperm.unsafe.check_schema", lambda *_, **__: ())  # it reads a few rows at a time instead
    assert run_with(["schema", "draft", str(tmp_path / "people.parquet"), "--target", "rich"]) == 0
    assert {len(columns) for columns in asked} == {1}
    drafted, left_out = draft_schema(table, "rich")
    assert capsys.readouterr().out == schema_to_toml(drafted)
    assert left_out == {}


def test_a_draft_takes_little_more_memory_than_a_column(tmp_path):
    rows = 200_000
    table = pa.table({"pay": np.random.default_rng(0).normal(size=rows), "rich": np.arange(rows) % 2})
    tracemalloc.start()
    draft_schema(table, "rich")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * 8 * rows  # as texts the numbers take three times that
