"""Tables in files: the same fit as in memory, within a given memory, and one sentence for whatever is wrong."""

import errno
import math
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet
from scipy import sparse

from contracts.sources import two_workers
from dperm import (
    Budget,
    CacheFullWarning,
    Category,
    Classes,
    Guarantee,
    InvalidParameterError,
    InvalidTableError,
    Number,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
    Problem,
    Schema,
    load_model,
)
from dperm.cli.main import run_with
from dperm.kernel.adding import add_up
from dperm.kernel.block import Block
from dperm.kernel.objectives import objective_of
from dperm.kernel.parts import GradientPart
from dperm.mechanisms.setting import PublicTable, Setting, summation_slack
from dperm.plan.auto import choose_solver, expected_passes, predictions
from dperm.privacy.guarantee import Adjacency
from dperm.problem import Logistic
from dperm.rows.arrays import TableSource
from dperm.rows.csv_file import CsvPiece
from dperm.rows.encoder import Encoder
from dperm.rows.memory import MemoryBudget, bytes_of
from dperm.rows.pieces import ParquetPiece
from dperm.rows.streamed import FileSource
from dperm.solvers import DPGD

pytestmark = pytest.mark.usefixtures("own_folders")

N = 6000
SCHEMA = Schema(
    {"age": Number((18, 90), encode="linear"), "job": Category(["smith", "clerk"], unseen="column")},
    Classes("rich", ["no", "yes"]),
)
PROBLEM = Problem(Logistic(), row_norm=SCHEMA.bound, intercept=True)


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n)
    jobs = rng.choice(["smith", "clerk", "baker"], n)
    return pd.DataFrame({"id": np.arange(n), "age": age, "job": jobs, "rich": np.where(age > 50, "yes", "no")})


def in_files(folder, table, n_files=4, write=pd.DataFrame.to_parquet, ending=".parquet", **more):
    folder.mkdir(exist_ok=True)
    for place, rows in enumerate(np.array_split(np.arange(len(table)), n_files)):
        write(table.iloc[rows], folder / f"part-{place}{ending}", index=False, **more)
    return folder


def model(**more):
    return PrivateLogisticRegression(
        2.0, 1e-6, schema=SCHEMA, random_state=0, solver=DPGD(n_steps=20), row_warnings=False, **more
    )


@pytest.fixture(scope="module")
def expected():
    return model().fit(people()).coef_


def source_of_kind(kind, folder):
    if kind == "one file":
        people().to_parquet(folder / "people.parquet")
        return folder / "people.parquet"
    if kind == "one row group":
        people().to_parquet(folder / "people.parquet", row_group_size=10**9)
        return str(folder / "people.parquet")
    if kind == "CSV files":
        return in_files(folder / "csv", people(), write=pd.DataFrame.to_csv, ending=".csv")
    if kind == "packed CSV files":
        return in_files(folder / "csv", people(), write=pd.DataFrame.to_csv, ending=".csv.gz")
    if kind == "folders that are a column":
        for job, rows in people().groupby("job"):
            (folder / f"job={job}").mkdir()
            rows.drop(columns="job").to_parquet(folder / f"job={job}" / "part.parquet")
        return folder
    files = in_files(folder / "people", people())
    if kind == "a list":
        return sorted(files.iterdir())
    if kind == "a filtered dataset":
        in_files(files, pd.concat([people(), people(50).assign(age=-1)]))
        return dataset.dataset(files).filter(dataset.field("age") >= 0)
    return {
        "folder": files, "pattern": str(files / "part-*.parquet"), "dataset": dataset.dataset(files),
        "source": FileSource(files, memory=MemoryBudget(10**6)),
    }[kind]  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    ["one file", "one row group", "folder", "pattern", "a list", "dataset", "a filtered dataset", "source", "CSV files",
     "packed CSV files", "folders that are a column"],
)  # fmt: skip
def test_a_fit_is_that_of_the_table_in_memory(kind, tmp_path, expected):
    fitted = model().fit(source_of_kind(kind, tmp_path))
    np.testing.assert_allclose(fitted.coef_, expected, rtol=1e-9, atol=1e-10)


def test_class_weights_and_regression_work_from_files_too(tmp_path):
    files = in_files(tmp_path / "people", people())
    weights = {"no": 0.5, "yes": 2.0}
    one, other = (model(class_weight=weights).fit(data).coef_ for data in (people(), files))
    np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-10)
    schema = Schema(SCHEMA.columns | {"rich": Category(["no", "yes"])}, number := Number_target())
    assert number.column == "id"
    regression = PrivateLinearRegression(
        2.0, 1e-6, schema=schema, random_state=0, solver=DPGD(n_steps=20, accounting="composition"), row_warnings=False
    )
    one, other = (regression.fit(data).coef_ for data in (people(), files))
    np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9)


def Number_target():
    from dperm import Amount

    return Amount("id", (0, N))


# --- What is kept of the rows ---


def kept_by(source):
    with ThreadPoolExecutor(2) as pool:
        source._total(
            PROBLEM,
            GradientPart(np.zeros(PROBLEM.dimension(SCHEMA.n_features)), None, None),
            objective_of(PROBLEM),
            pool,
        )
    return source._kept[1]


def test_encoded_rows_beyond_the_memory_are_in_a_file_that_nobody_else_can_open(tmp_path):
    files, cache = in_files(tmp_path / "people", people(60_000)), tmp_path / "cache"
    cache.mkdir()
    source = FileSource(files, SCHEMA, memory=MemoryBudget(10**6), cache=cache)
    kept = kept_by(source)
    on_disk = [block for block in kept._blocks.values() if not isinstance(block, Block)]
    assert len(on_disk) > 3
    found = os.fstat(kept._file.fileno())
    assert (found.st_mode & 0o777, found.st_nlink) == (0o600, 0)
    assert found.st_size >= sum(block.size for block in on_disk)
    assert not list(cache.iterdir())  # so that it is gone however the process ends
    source.close()
    assert kept._file is None
    assert not kept._blocks


def sums(source, n_passes=2):
    part = GradientPart(np.linspace(-1, 1, PROBLEM.dimension(SCHEMA.n_features)), 0.7, None)
    with ThreadPoolExecutor(2) as pool:
        return [source._total(PROBLEM, part, objective_of(PROBLEM), pool) for _ in range(n_passes)]


def test_passes_over_memory_disk_and_files_again_are_the_same(tmp_path, monkeypatch):
    files = in_files(tmp_path / "people", people(20_000))
    (whole,) = sums(TableSource(people(20_000), None, SCHEMA), 1)
    for source in (
        FileSource(files, SCHEMA), FileSource(files, SCHEMA, memory=MemoryBudget(10**6)),
        FileSource(files, SCHEMA, memory=MemoryBudget(10**6), cache=False),
    ):  # fmt: skip
        for found in sums(source, 3):
            np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-9)


def test_a_full_disk_costs_time_and_nothing_else(tmp_path, monkeypatch):
    files = in_files(tmp_path / "people", people(20_000))
    written = []

    def write_a_few(kept, array, offset):
        written.append(offset)
        if len(written) > 6:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        kept._file.seek(offset)
        kept._file.write(array.tobytes())

    monkeypatch.setattr("dperm.rows.kept.KeptBlocks._write", write_a_few)
    with pytest.warns(CacheFullWarning, match="has no room for all encoded rows"):
        found = sums(FileSource(files, SCHEMA, memory=MemoryBudget(10**6)), 3)
    (whole,) = sums(TableSource(people(20_000), None, SCHEMA), 1)
    for one in found:
        np.testing.assert_allclose(one, whole, rtol=1e-12, atol=1e-9)


def test_a_source_is_used_for_several_fits_and_keeps_nothing_of_them(tmp_path):
    source = FileSource(in_files(tmp_path / "people", people()), memory=MemoryBudget(10**6))
    one, other = (model().fit(source).coef_ for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert source._kept is None


def test_progress_tells_the_pass_and_its_rows(tmp_path):
    told = []

    class Bar:
        def __call__(self, done, total):
            pass

        def reading(self, number, n_rows):
            told.append((number, n_rows))

    plan = model().options().plan(N, None)
    plan.run(FileSource(in_files(tmp_path / "people", people(), 2)), random_state=0, progress=Bar(), row_warnings=False)
    assert told[:4] == [(1, N // 2), (1, N), (2, N // 2), (2, N)]
    assert told[-1] == (20, N)


# --- What is wrong with files ---


def bad_files(kind, folder):
    if kind == "an empty folder":
        (folder / "notes.txt").write_text("nothing")
        (folder / "_SUCCESS.csv").write_text("a\n1")
        return folder
    if kind == "a pattern without a match":
        return str(folder / "*.parquet")
    files = in_files(folder / "people", people())
    if kind == "other columns":
        people(10).drop(columns="job").to_parquet(files / "part-9.parquet")
    if kind == "other types":
        people(10).assign(age="SECRET").to_parquet(files / "part-9.parquet")
    if kind == "two kinds of files":
        (files / "more.csv").write_text("age,job,rich\n")
    if kind == "no Parquet":
        (files / "part-9.parquet").write_bytes(b"SECRET" * 100)
    if kind == "dates":
        people(10).assign(age=pd.Timestamp("2020-01-01")).to_parquet(files / "part-0.parquet")
        for place in (1, 2, 3):
            (files / f"part-{place}.parquet").unlink()
    if kind == "no rows":
        shutil.rmtree(files)
        in_files(files, people(0), 2)
    if kind == "another n":
        return files
    return files


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("an empty folder", "holds no Parquet or CSV file"),
        ("a pattern without a match", "no file matches"),
        ("other columns", "part-9.parquet has no column 'job'"),
        ("other types", r"column 'age' holds int64 in .*part-0.parquet and .*string in .*part-9.parquet"),
        ("two kinds of files", "has Parquet and CSV files"),
        ("no Parquet", "part-9.parquet cannot be read as Parquet"),
        ("dates", "column 'age' should contain numbers and contains timestamp"),
        ("no rows", "has no rows"),
    ],
)
def test_files_that_do_not_belong_together_are_refused_in_one_sentence(kind, said, tmp_path):
    with pytest.raises(InvalidTableError, match=said) as error:
        model().fit(bad_files(kind, tmp_path))
    assert "SECRET" not in str(error.value)
    assert error.value.__cause__ is error.value.__context__ is None
    assert "\n" not in str(error.value)


def test_a_file_without_rows_among_others_changes_nothing(tmp_path, expected):
    files = in_files(tmp_path / "people", people())
    people(0).assign(age=pd.Series(dtype="int64")).to_parquet(files / "part-0a.parquet")
    np.testing.assert_allclose(model().fit(files).coef_, expected, rtol=1e-9, atol=1e-10)


def test_a_declared_n_that_disagrees_is_refused_before_anything_is_spent(tmp_path):
    budget = Budget.create("people", Guarantee(3.0, 1e-5))
    with pytest.raises(InvalidParameterError, match="6000 rows, n = 5999"):
        PrivateLogisticRegression(1.0, 1e-6, schema=SCHEMA, n=5999, budget=budget).fit(
            in_files(tmp_path / "people", people())
        )
    assert not budget.account().releases


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: path.unlink(), "part-2.parquet cannot be read: it is gone"),
        (lambda path: path.write_bytes(path.read_bytes()[:-200]), "part-2.parquet has changed since it was opened"),
        (lambda path: people(10).to_parquet(path), "part-2.parquet has changed since it was opened"),
    ],
    ids=["gone", "truncated", "another"],
)
def test_a_file_that_changes_between_passes_ends_the_fit_and_counts_as_spent(change, said, tmp_path):
    n = 40_000  # more than fits into memory
    files = in_files(tmp_path / "people", people(n))
    budget = Budget.create("people", Guarantee(3.0, 1e-5))
    source = FileSource(files, memory=MemoryBudget(10**6), cache=False)
    source._raw._left = 0  # nothing of it stays in memory
    fit = PrivateLogisticRegression(1.0, 1e-6, schema=SCHEMA, budget=budget, solver=DPGD(n_steps=5), row_warnings=False)
    plan, n_passes = fit.plan(n), []

    def reading(number, n_rows):
        n_passes.append(number)
        if (number, n_rows) == (2, n):
            change(files / "part-2.parquet")

    class Bar:
        def __call__(self, done, total):
            pass

    Bar.reading = staticmethod(reading)
    with pytest.raises(InvalidTableError, match=said) as error:
        plan.run(source.with_schema(SCHEMA), budget=budget, progress=Bar(), row_warnings=False)
    assert max(n_passes) == 3  # the pass in which it was noticed, and none behind it
    assert "counts as spent" in " ".join(error.value.__notes__)
    assert [release.is_settled for release in budget.account().releases] == [False]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: FileSource(path, memory="much"), "memory must be a number of bytes"),
        (lambda path: FileSource(path, memory="99 MB"), "at least 100 MB, got '99 MB'; pass memory='100 MB'"),
        (lambda path: FileSource(path, cache="/nowhere/at/all"), "cannot hold cached rows"),
        (lambda path: FileSource(path, cache=7), "cache must be a folder"),
        (lambda path: FileSource(path)._n_rows, "require a schema"),
        (lambda path: PrivateLogisticRegression(classes=[0, 1]).fit(path), "require a schema"),
        (lambda path: model().fit(path, np.ones(N)), "y, weights and groups cannot be combined"),
    ],
)
def test_what_files_cannot_be_asked_for_is_said_in_one_sentence(make, said, tmp_path):
    files = in_files(tmp_path / "people", people())
    with pytest.raises(InvalidParameterError, match=said):
        make(files)


def test_empty_lines_at_the_ends_of_csv_files_are_rows_where_the_declared_n_says_so(tmp_path):
    for name, text in (("a", "age,job\n1,x\n\n\n"), ("b", "age,job\n2,y\n\n3,z\n\n"), ("c", "age,job\n4,u")):
        (tmp_path / f"{name}.csv").write_text(text)
    pieces = [CsvPiece.open(str(tmp_path / f"{name}.csv")) for name in "abc"]
    assert [(piece.n_lines, piece.n_blank) for piece in pieces] == [(1, 3), (3, 2), (1, 0)]
    filled = pieces[0].filled(2)
    table = pa.concat_tables(filled.tables(["job"]))
    assert table.column(0).to_pylist() == [b"x", None, None]
    assert pa.concat_tables(pieces[1].tables(["age"])).column(0).to_pylist() == [b"2", None, b"3"]


def test_a_csv_file_is_cut_into_blocks_anywhere_and_read_the_same(tmp_path, monkeypatch):
    path = tmp_path / "odd.csv"
    path.write_bytes(b'a,b\r\n1,2\r\n\r\n"x, y",3\r\nshort\r\n4,\xff\r\n' + b"5,6\n" * 40 + b"7" * 90 + b"\n\n8,9")
    whole = pa.concat_tables(CsvPiece.open(str(path)).tables(["a", "b"])).to_pylist()
    assert len(whole) == 48
    assert whole[:6] == [
        {"a": b"1", "b": b"2"}, {"a": None, "b": None}, {"a": b"x, y", "b": b"3"}, {"a": None, "b": None},
        {"a": b"4", "b": "\ufffd".encode()}, {"a": b"5", "b": b"6"},
    ]  # fmt: skip
    for size in (1, 2, 3, 5, 7, 16, 33):
        monkeypatch.setattr("dperm.rows.csv_file._BLOCK", size)
        assert pa.concat_tables(CsvPiece.open(str(path)).tables(["a", "b"])).to_pylist() == whole
    monkeypatch.setattr("dperm.rows.csv_file._LONGEST_LINE", 10)  # 7…7 is then no line of its own
    cut = pa.concat_tables(CsvPiece.open(str(path)).tables(["a", "b"])).to_pylist()
    assert len(cut) == 48
    assert cut[-1] == whole[-1]


def test_a_parquet_piece_is_cut_at_row_groups(tmp_path):
    people().to_parquet(tmp_path / "p.parquet", row_group_size=1000)
    piece = ParquetPiece.open(str(tmp_path / "p.parquet"))
    parts = piece.split(2500)
    assert [part.n_rows for part in parts] == [2000, 2000, 2000]
    ids = [value for part in parts for table in part.tables(["id"]) for value in table.column(0).to_pylist()]
    assert ids == list(range(N))


# --- Sums over very many rows ---


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_a_block_is_cut_without_a_copy_and_adds_up(storage):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 5)), np.sign(rng.normal(size=1000))
    problem = Problem(Logistic())
    block, objective = Block.from_table(storage(X), y, problem), objective_of(problem)
    parts = list(block.cut(300))
    assert [len(part) for part in parts] == [300, 300, 300, 100]
    values = [part.table.data if sparse.issparse(part.table) else part.table for part in parts]
    assert all(
        np.shares_memory(one, block.table.data if sparse.issparse(block.table) else block.table) for one in values
    )
    w = rng.normal(size=5)
    with ThreadPoolExecutor(1) as pool:
        total = add_up(objective.gradient_sum(part, w, None, pool) for part in parts)
        np.testing.assert_allclose(total, objective.gradient_sum(block, w, None, pool), rtol=1e-12)


def test_the_padding_for_rounding_stays_small_however_many_rows_there_are():
    for n, most in ((10**6, 1e-6), (10**8, 2e-4), (10**9, 2e-3), (10**10, 2e-2)):
        rows = 1.05 * n + 1
        assert (
            2.0 * rows * 2.0**-53 * 2048 < summation_slack(PublicTable(n, Adjacency.REPLACE_ONE)) < most or n == 10**6
        )
    assert summation_slack(PublicTable(10**6, Adjacency.REPLACE_ONE)) < 1e-6


# --- auto ---


@pytest.mark.parametrize("n", [2_000, 100_000, 10**8])
def test_where_passes_are_slow_auto_takes_the_fewest_of_all_that_are_as_good(n):
    setting = Setting(PROBLEM.constants(5), n, Adjacency.REPLACE_ONE)
    guarantee = Guarantee(1.0, 1e-6)
    best = predictions(PROBLEM, setting, guarantee)[0]
    chosen = choose_solver("auto", PROBLEM, setting, guarantee, slow_passes=True)
    risks = {solver.name: risk for solver, risk in predictions(PROBLEM, setting, guarantee)}
    assert choose_solver("auto", PROBLEM, setting, guarantee).name == best.solver.name
    enough = max(1.1 * best.risk, 1e-4 * setting.constants.initial_gap)
    assert risks[chosen.name] <= enough
    passes = expected_passes(chosen, setting, guarantee)
    assert math.isfinite(passes)
    for solver, risk in predictions(PROBLEM, setting, guarantee):
        if risk <= enough:
            assert passes <= expected_passes(solver, setting, guarantee)


def test_whether_passes_are_slow_is_decided_by_the_declared_n_and_the_memory():
    source = FileSource("nothing.parquet", memory="500 MB")
    per_row = Encoder(SCHEMA).bytes_per_row
    assert not source.is_slow(10**8 // per_row, SCHEMA)
    assert source.is_slow(10**8 // per_row + 1, SCHEMA)
    assert bytes_of("2 GiB") == 2**31


# --- Predicting ---


@pytest.fixture
def released(tmp_path):
    path = tmp_path / "model.json"
    (tmp_path / "schema.toml").write_text(
        f'[table]\nn = {N}\n[target]\ncolumn = "rich"\nclasses = ["no", "yes"]\n[columns.age]\nrange = [18, 90]\n'
        '[columns.job]\nvalues = ["smith", "clerk"]\nunseen = "column"\n'
    )
    files = in_files(tmp_path / "people", people())
    arguments = ["fit", str(files), "--schema", str(tmp_path / "schema.toml"), "--epsilon", "3", "--delta", "1e-6"]
    assert run_with([*arguments, "-o", str(path)]) == 0
    return path, files, arguments


def test_a_folder_is_fitted_and_predicted_on_the_command_line(released, tmp_path, capsys):
    path, files, _ = released
    output = tmp_path / "p.parquet"
    assert run_with(["predict", str(path), str(files / "*.parquet"), "--keep", "id, job", "-o", str(output)]) == 0
    found = parquet.read_table(output).to_pandas()
    assert list(found.columns) == ["id", "job", "prediction"]
    assert found["id"].tolist() == list(range(N))
    loaded = load_model(path)
    assert found["prediction"].tolist() == loaded.predict(people()).tolist()
    capsys.readouterr()
    assert run_with(["predict", str(path), str(files)]) == 0
    assert capsys.readouterr().out.split() == ["prediction", *loaded.predict(people())]
    assert run_with(["predict", str(path), str(files), "--keep", "prediction"]) == 2
    assert run_with(["predict", str(path), str(files), "--keep", "nobody"]) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--cache", ".", "--no-cache"], "cannot be combined"),
        (["--memory", "none"], "memory must be a number of bytes"),
        (["--cluster", "here"], "a cluster is an address"),
        (["--cluster", "local[none]"], "written local[4]"),
    ],
)
def test_options_for_large_tables_that_are_wrong_are_said_in_one_line(options, said, released, capsys, tmp_path):
    _, _, arguments = released
    capsys.readouterr()
    assert run_with([*arguments, *options, "-o", str(tmp_path / "other.json")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "other.json").exists()


@pytest.mark.parametrize(
    "options",
    [["--no-cache"], ["--cluster", "local[1]"], pytest.param(["--cluster", "local[2]"], marks=pytest.mark.slow)],
    ids=str,
)
def test_the_command_line_fits_a_folder_without_a_cache_and_on_a_cluster(options, released, tmp_path):
    _, _, arguments = released
    seeded = [*arguments, "--seed", "1", "--solver", "dp-newton"]
    assert run_with([*seeded, "-o", str(tmp_path / "one.json")]) == 0
    assert run_with([*seeded, *options, "-o", str(tmp_path / "other.json")]) == 0
    one, other = (load_model(tmp_path / f"{name}.json") for name in ("one", "other"))
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-9, atol=1e-10)


def test_a_dask_frame_is_fitted_and_predicted_where_it_is(tmp_path, expected):
    from dask import dataframe

    client = two_workers()
    frame = dataframe.read_parquet(in_files(tmp_path / "people", people()))
    fitted = model().fit(frame)
    np.testing.assert_allclose(fitted.coef_, expected, rtol=1e-9, atol=1e-10)
    predicted = fitted.predict(frame)
    assert predicted.npartitions == frame.npartitions
    assert predicted.compute().tolist() == fitted.predict(people()).tolist()
    counts = PrivatePoissonRegression(2.0, 1e-6, schema=Schema({"age": Number((18, 90))}, Number_target()))
    counts.fit(people())
    np.testing.assert_allclose(counts.predict(frame).compute(), counts.predict(people()))
    assert client.status == "running"
