"""Thousands of broken model files and odd command lines: each ends in one clear sentence, never in an internal error.

Every case is drawn from its number alone, and what fails says which: `python -m cli.test_fuzz file 17` in
tests/ shows one again, and so does `... command 17`.
"""

import contextlib
import io
import json
import os
import random
import signal
import sys
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest

from cli.hostile import write_table
from dperm import (
    Amount,
    Bins,
    Budget,
    Category,
    Classes,
    Guarantee,
    Number,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
    Schema,
    save_model,
)
from dperm.cli import main
from dperm.problem import L1
from dperm.solvers import DPSGD, SOLVERS
from verify.tampered import resealed, retold

pytestmark = pytest.mark.usefixtures("own_folders")

FILES, COMMANDS = 5000, 1000
SECONDS_EACH = 120
FEW_FILES, FEW_COMMANDS = 30, 25

ODD_VALUES = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e308, -1e308, 5e-324, 1e-300, 10**30, 10**400, -(10**400), 2**31,
    2**63, "", " ", "inf", "nan", "-inf", "1", "1e999", "true", "private", "\n", "a\nok  b", "\x00", "\x1b[2J",
    "\u202e", "😀", "x" * 5000, [], {}, [[]], [[[]]], [None], [0.0], ["a"], [1, "a"], [[1.0, 2.0], [3.0]], {"": 0},
    {"value": []}, {"value": "smith"}, "replace_one", "add_remove", "certified", "paper", "none", "gaussian", "pure",
    "missing", "row", "column", "middle", "clip", ["no", "yes"], [18, 90], [90, 18], "\ud800", "logistic", "linear",
    "svc", "poisson",
]  # fmt: skip


def fits(folder):
    """Valid model files of every kind: the seeds of the broken ones."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(18, 90, 60), "job": rng.choice(["smith", "clerk"], 60)})
    table["rich"], table["pay"] = rng.choice(["no", "yes"], 60), rng.uniform(0, 100, 60)
    table["kind"] = rng.choice(["a", "b", "c"], 60)
    columns = {"age": Number((18, 90)), "job": Category(["smith", "clerk"], missing="column", unseen="column")}
    rich, pay, bare = Classes("rich", ["no", "yes"]), Amount("pay", (0, 100)), table[["age", "pay"]] / 100.0
    budget = Budget.create("people", Guarantee(1000.0, 1e-2), ledger=str(folder / "ledger.db"))
    binned = {"age": Bins((30, 50), missing="column")}
    return [
        PrivateLogisticRegression(1.0, 1e-3, schema=Schema(columns, rich, n=60, missing=("?",)), budget=budget).fit(
            table
        ),
        PrivateLogisticRegression(1.0, 1e-3, classes=["no", "yes"], entry_bound=0.5).fit(bare, table["rich"]),
        PrivateLogisticRegression(1.0, 1e-3, schema=Schema(binned, Classes("kind", ["a", "b", ["c", "C"]]))).fit(table),
        PrivateLinearRegression(90.0, 1e-3, schema=Schema({"age": Number("private")}, pay)).fit(table),
        PrivatePoissonRegression(1.0, 1e-3, schema=Schema(columns, pay)).fit(table),
        PrivateLinearSVC(1.0, 1e-3, schema=Schema(columns, rich), solver=DPSGD(n_steps=3), penalty=L1(0.01)).fit(table),
        PrivateLogisticRegression(1.0, 0.0, schema=Schema(columns, rich)).fit(table),
        PrivateLogisticRegression(noise=None, schema=Schema(columns, rich)).fit(table),
        PrivateLogisticRegression(1.0, 1e-3, schema=Schema(columns, rich), noise="paper", solver="dp-gd").fit(table),
    ]


class Ground:
    """A folder with files to break and to name."""

    def __init__(self, folder):
        self.folder = folder
        self.table, self.schema = write_table(folder)
        table = pd.DataFrame({"age": [20.0, 50.0, None], "job": ["smith", "clerk", "?"], "pay": [1.0, 2.0, 3.0]})
        self.rows = folder / "rows.csv"
        table.to_csv(self.rows, index=False)
        self.contents = []
        for number, model in enumerate(fits(folder)):
            save_model(model, folder / f"model-{number}.json")
            self.contents.append(json.loads((folder / f"model-{number}.json").read_text()))
        assert main.run_with(["budget", "create", "people", "--epsilon", "1000", "--delta", "1e-2"]) == 0
        (folder / "text.json").write_text("no JSON")
        (folder / "empty").touch()
        (folder / "deep.toml").write_text("a = " + "[" * 5000)
        (folder / "draft.toml").write_text("derived_from_data = true\n" + self.schema.read_text())
        (folder / "folder").mkdir()
        os.mkfifo(folder / "fifo")
        os.symlink("nowhere", folder / "link")
        (folder / "odd\nname.csv").write_text(self.table.read_text())


# Broken model files


def places_in(value, path=()):
    """The path of everything inside plain data."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from places_in(entry, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def mutate(rng, content):
    """One change of plain data, in place; one in three keeps a number a number."""
    paths = [path for path in places_in(content) if path]
    kind = rng.randrange(12)
    if kind >= 8:
        paths = [path for path in paths if type(at(content, path)) in (int, float)] or paths
    path = rng.choice(paths)
    parent, key = at(content, path[:-1]), path[-1]
    if kind >= 8 and type(parent[key]) in (int, float):
        whole = isinstance(parent[key], int)
        changed = parent[key] * rng.choice([-1, 0, 0.5, 0.999, 1.0000001, 1.01, 2, 10, 1e10, 1e-10, 10**20, 1e200])
        parent[key] = int(changed) if whole else changed
    elif kind <= 2:
        parent[key] = rng.choice(ODD_VALUES)
    elif kind == 3:
        del parent[key]
    elif kind == 4 and isinstance(parent, dict):
        parent[rng.choice(["", "more", "for_release", "\n", "kind", "n", "range", "count"])] = rng.choice(ODD_VALUES)
    elif kind == 5:
        nested = parent[key]
        for _ in range(rng.choice([1, 2, 40, 70, 400, 2000])):
            nested = [nested]
        parent[key] = nested
    elif kind == 6:
        other = rng.choice([path for path in places_in(content) if path])
        parent[key] = json.loads(json.dumps(at(content, other)))
    elif isinstance(parent[key], list):
        parent[key] = rng.choice([parent[key] * 2, parent[key][:-1], parent[key][::-1], []])
    elif isinstance(parent[key], str):
        parent[key] = parent[key] + rng.choice(
            ["\n", "x", "\u200b", "\udc80", "' OR 1=1", "<script>", "{{7*7}}", "%s%n"]
        )


def broken_file(number, ground):
    """The bytes of one model file, from its number alone."""
    rng = random.Random(f"file {number}")
    content = json.loads(json.dumps(rng.choice(ground.contents)))
    try:
        for _ in range(rng.choice([1, 1, 1, 2, 3, 10])):
            mutate(rng, content)
        seal = rng.randrange(4)
        if seal == 1:
            content = retold(content)
        elif seal > 1:
            content = resealed(content)
    except Exception:  # nothing that words could be told of, or a number that cannot be changed so
        pass
    with contextlib.suppress(ValueError, RecursionError):
        text = json.dumps(content, ensure_ascii=rng.random() < 0.5).encode("utf-8", errors="surrogatepass")
        return damaged(rng, text)
    return damaged(rng, json.dumps(ground.contents[0]).encode())


def damaged(rng, text):
    """The bytes as they are, or cut off, or with some of them changed."""
    kind = rng.randrange(10)
    if kind == 0:
        return text[: rng.randrange(len(text) + 1)]
    if kind == 1:
        found = bytearray(text)
        for _ in range(rng.randrange(1, 6)):
            found[rng.randrange(len(found))] = rng.randrange(256)
        return bytes(found)
    if kind == 2:
        place = rng.randrange(len(text))
        return (
            text[:place]
            + rng.choice([b"NaN", b"1e999", b'"\\ud800"', b"[" * 2000, b"9" * 5000, b"\xff"])
            + text[place:]
        )
    return text


def file_commands(ground):
    model, page = ground.folder / "broken.json", ground.folder / "broken.html"
    return (
        ["verify", str(model), "--ledger", str(ground.folder / "ledger.db")],
        ["verify", str(model)],
        ["predict", str(model), str(ground.rows)],
        ["report", str(model), "-o", str(page), "--force"],
    )


def check_file(number, ground):
    (ground.folder / "broken.json").write_bytes(broken_file(number, ground))
    # The first command reads a ledger: of one file in ten, as that takes longer than all others.
    for arguments in file_commands(ground)[0 if number % 10 == 0 else 1 :]:
        check(arguments, f"file {number}")


# Odd command lines

NUMBERS = [
    "0", "1", "-1", "2", "0.5", "1e-5", "1e-6", "1e-300", "1e308", "nan", "inf", "-inf", "x", "", "1e6", "100", "١",
    "1_0", "2147483648", "9223372036854775808", "9" * 400, "0x10", " 1", "60", "200000", "1e100", "1e-100",
]  # fmt: skip
TEXTS = [
    "", " ", "people", "rich", "age", "age,job", ",", "a\nb", "\udcff", "\u202e", "no,yes", "no", "😀", "-", "--",
    "x" * 300, "adult\u200b",
]  # fmt: skip
PENALTIES = [
    "none", "l2:0.1", "l1:0.1", "l1:1e-300", "l2:1e308", "l2:-1", "l2", "l2:", "elastic-net:0.1:0.5",
    "elastic-net:1:2", "l2:nan", "l2:1:2:3", ":", "l2:1e100", "l2:1e-320", "group:1", "l2:inf", "l2:1e-100",
]  # fmt: skip
DOMAINS = [
    "none", "l2-ball:1", "l1-ball:5", "box:-1:1", "box:1:-1", "simplex:1", "l2-ball:1e308", "l2-ball:0", "box",
    "l1-ball:1e-300", "simplex:nan", "l2-ball:1e-100", "box:-1e200:1e200",
]  # fmt: skip
FIT = {
    "--epsilon": NUMBERS,
    "--delta": NUMBERS,
    "--model": ["logistic", "linear", "svc", "poisson", "huber", "x", ""],
    "--row-norm": NUMBERS,
    "--entry-bound": NUMBERS,
    "--penalty": PENALTIES,
    "--domain": DOMAINS,
    "--solver": ["auto", *SOLVERS, "x"],
    "--adjacency": ["replace_one", "add_remove", "x"],
    "--noise": ["certified", "paper", "none", "x"],
    "--accountant": ["pld", "advanced-composition", "x"],
    "--classes": TEXTS,
    "--target-bound": NUMBERS,
    "--n": NUMBERS,
}


# What most options should be, so that the rest of a command is reached.
GOOD = {
    "--model": ["logistic", "svc"],
    "--row-norm": ["1", "2"],
    "--entry-bound": ["1"],
    "--penalty": ["l2:0.1", "l1:0.1", "none", "elastic-net:0.1:0.5"],
    "--domain": ["none", "l2-ball:1", "l1-ball:5", "box:-1:1", "simplex:1"],
    "--solver": ["auto", *SOLVERS],
    "--adjacency": ["replace_one", "add_remove"],
    "--noise": ["certified", "certified", "paper", "none"],
    "--accountant": ["pld"],
    "--classes": ["no,yes"],
    "--target-bound": ["1"],
    "--n": ["60"],
}
KINDS = [
    "fit", "fit", "fit", "plan", "plan", "plan", "predict", "verify", "report", "draft", "create", "show", "list",
    "settle", "demo", "reproduce", "solvers", "other",
]  # fmt: skip


def places(ground):
    """Names of files, there and not, of every kind."""
    folder = ground.folder
    names = [
        "table.csv", "schema.toml", "rows.csv", "model-0.json", "model-1.json", "model-3.json", "text.json", "empty",
        "deep.toml", "draft.toml", "folder", "fifo", "link", "odd\nname.csv", "none", "ledger.db", "no/such",
        "\udcff", "z" * 300,
    ]  # fmt: skip
    # No device: a mistake that writes to one would be felt by the whole machine.
    return [*(str(folder / name) for name in names), "", ".", "/", "-"]


def odd_command(number, ground):
    """One command line, from its number alone."""
    rng = random.Random(f"command {number}")
    files, folder = places(ground), ground.folder

    def mostly(good, odd):
        """A good value three times out of four."""
        return good if rng.random() < 0.75 else rng.choice(odd)

    out = ["-o", mostly(str(folder / f"out-{number}"), files)]
    kind = rng.choice(KINDS)
    servers = ["sqlite://", "nonsense://x", "postgresql+psycopg://127.0.0.1:1/x"]
    ledger = rng.choice([[], [], ["--ledger", rng.choice([*files, *servers])]])

    def options(known, most=5):
        chosen = {"--epsilon": mostly("1", NUMBERS), "--delta": mostly("1e-3", NUMBERS)}
        others = [name for name in known if name not in chosen]
        for name in rng.sample(others, min(len(others), rng.randrange(most))):
            chosen[name] = mostly(rng.choice(GOOD.get(name, known[name])), known[name])
        for name in [name for name in chosen if rng.random() < 0.02]:
            del chosen[name]
        return [part for pair in chosen.items() for part in pair]

    if kind == "fit":
        described = ["--schema", mostly(str(ground.schema), files)]
        bare = ["--target", mostly("rich", ["age", *TEXTS]), "--features", mostly("age", TEXTS)]
        charged = rng.choice([[], ["--dataset", mostly("people", TEXTS), *ledger], ["--seed", mostly("1", NUMBERS)]])
        shape = (
            FIT
            if rng.random() < 0.5
            else {key: FIT[key] for key in ("--solver", "--penalty", "--noise", "--adjacency")}
        )
        found = [
            "fit",
            mostly(str(ground.table), files),
            *rng.choice([described, bare]),
            *out,
            *options(shape),
            *charged,
        ]
    elif kind == "plan":
        public = ["--n", mostly("1000", NUMBERS), "--p", mostly("5", NUMBERS)]
        shape = rng.choice([public, public, ["--schema", mostly(str(ground.schema), files)]])
        own = {key: FIT[key] for key in FIT if key not in ("--n", "--classes", "--target-bound")}
        found = ["plan", *shape, *options(own), *rng.choice([[], [], ["--explain"]])]
    elif kind in ("predict", "verify", "report", "settle"):
        first = ["budget", "settle"] if kind == "settle" else [kind]
        second = [mostly(str(ground.rows), files)] if kind == "predict" else []
        model = str(folder / f"model-{rng.randrange(len(ground.contents))}.json")
        written = out if kind in ("predict", "report") else []
        found = [*first, mostly(model, files), *second, *written, *([] if kind == "predict" else ledger)]
    elif kind == "draft":
        more = rng.choice([[], ["--header", rng.choice(TEXTS)], ["--separator", rng.choice([",", "tab", "x", ""])]])
        found = ["schema", "draft", rng.choice(files), "--target", rng.choice(["rich", "age", *TEXTS]), *more, *out]
    elif kind == "create":
        found = [
            "budget",
            "create",
            rng.choice(TEXTS),
            *options({"--epsilon": NUMBERS, "--delta": NUMBERS}, 3),
            *ledger,
        ]
    elif kind in ("show", "list"):
        found = ["budget", kind, *([rng.choice(TEXTS)] if kind == "show" else []), *ledger]
    elif kind == "demo":
        found = [
            "demo",
            "--rows",
            rng.choice(["-1", "0", "x", "", "9" * 30, "581012", "1", "99"]),
            "--output",
            rng.choice(files),
        ]
    elif kind == "reproduce":
        found = ["reproduce", rng.choice(TEXTS), "--quick", "--output", rng.choice(files)]
    else:
        found = [
            rng.choice(["solvers", "", "-h", "--version", "budget", "schema", "verify"]),
            rng.choice(["--help", *TEXTS]),
        ]
    if rng.random() < 0.1:
        found.insert(
            rng.randrange(len(found) + 1), rng.choice([*TEXTS, *NUMBERS, "--force", "--help", "-o", "--x", "--epsilon"])
        )
    if rng.random() < 0.1:
        del found[rng.randrange(len(found))]
    return [part for part in found if "\0" not in part]


def check(arguments, case):
    """Run a command in this process; whatever is wrong with it is one clear sentence."""
    out, err, unexpected = io.StringIO(), io.StringIO(), []
    fail = main._fail
    main._fail = lambda message: (unexpected.append(sys.exc_info()[1]), fail(message))[1]

    def too_long(*_):
        raise TimeoutError(f"{case} takes more than {SECONDS_EACH} seconds")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS_EACH)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("always")
            code = main.run_with(arguments)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        main._fail = fail
    printed, said = out.getvalue(), err.getvalue()
    why = "".join(traceback.format_exception(unexpected[-1])[-6:]) if unexpected else ""
    shown = f"{case}: {arguments}\nended with {code}\n{printed[-500:]}{said[-500:]}{why}"
    assert "internal error" not in said, shown
    assert "Traceback" not in printed + said, shown
    assert code in (0, 1, 2), shown
    sentences = [line for line in said.splitlines() if not line.startswith("dperm: warning: ")]
    assert len(sentences) == (1 if code == 2 else 0), shown
    assert all(line.startswith("dperm: ") and len(line) > 12 for line in sentences), shown
    assert code != 1 or arguments[0] == "verify", shown
    if arguments[:1] == ["verify"] and code < 2 and "--help" not in arguments and "-h" not in arguments:
        lines = printed.splitlines()
        assert all(line[:4] in ("ok  ", "NO  ", "--  ") for line in lines[:-1]), shown
        assert lines[-1].startswith("verified: " if code == 0 else "NOT verified"), shown


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        patch.chdir(folder)
        yield Ground(folder)


def test_the_files_to_break_are_valid(ground):
    for number in range(len(ground.contents)):
        model = str(ground.folder / f"model-{number}.json")
        assert main.run_with(["verify", model]) == (1 if number >= 7 else 0)
        (ground.folder / "broken.json").write_text(json.dumps(ground.contents[number]))
        for arguments in file_commands(ground)[1:]:
            check(arguments, f"model {number}")


def test_some_broken_model_files_end_in_one_sentence(ground):
    for number in range(FEW_FILES):
        check_file(number, ground)


def test_some_odd_command_lines_end_in_one_sentence(ground):
    for number in range(FEW_COMMANDS):
        check(odd_command(number, ground), f"command {number}")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_every_broken_model_file_ends_in_one_sentence(part, ground):
    for number in range(part, FILES, 10):
        check_file(number, ground)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_every_odd_command_line_ends_in_one_sentence(part, ground):
    for number in range(part, COMMANDS, 10):
        check(odd_command(number, ground), f"command {number}")


def show(kind, number, folder):
    """One case again, for a person."""
    import pathlib

    warnings.simplefilter("ignore")
    os.environ |= {"XDG_DATA_HOME": f"{folder}/data", "XDG_STATE_HOME": f"{folder}/state"}
    ground = Ground(pathlib.Path(folder))
    os.chdir(folder)
    if kind == "file":
        sys.stdout.write(broken_file(number, ground).decode("utf-8", errors="replace")[-3000:] + "\n")
        check_file(number, ground)
    else:
        sys.stdout.write(f"{odd_command(number, ground)}\n")
        check(odd_command(number, ground), f"command {number}")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        show(sys.argv[1], int(sys.argv[2]), temporary)
