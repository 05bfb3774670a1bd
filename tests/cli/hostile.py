"""A small table, its schema and a budget, for tests in which something goes wrong."""

import io
from contextlib import redirect_stderr, redirect_stdout

from dperm.cli.main import run_with

SCHEMA = """
[table]
n = 60

[target]
column = "rich"
classes = ["no", "yes"]

[columns.age]
range = [18, 90]

[columns.job]
values = ["smith", "clerk"]
"""
LINES = [f"{20 + place},{('smith', 'clerk')[place % 2]},{('no', 'yes')[place % 3 == 0]}" for place in range(60)]


def write_table(folder):
    table, schema = folder / "table.csv", folder / "schema.toml"
    table.write_text("\n".join(["age,job,rich", *LINES, ""]))
    schema.write_text(SCHEMA)
    return table, schema


def fit_arguments(folder, output, *more):
    """A fit that takes a moment: the minimiser of sixty rows."""
    fit = ["fit", str(folder / "table.csv"), "--schema", str(folder / "schema.toml"), "--epsilon", "1", "--delta"]
    return [*fit, "1e-3", "--solver", "kifer-objective", "-o", str(output), *more]


def make_budget(name="people"):
    assert run("budget", "create", name, "--epsilon", "30", "--delta", "1e-2")[0] == 0


def run(*arguments):
    """Exit code, what was printed, and what was said of errors."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run_with([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def refused(*arguments):
    """The one line of a command that ends with code 2."""
    code, _, err = run(*arguments)
    assert code == 2, (arguments, code)
    err = err.removeprefix("\n")  # the line that a terminal shows ^C on
    assert err.count("\n") == 1, err
    assert err.startswith("dperm: ")
    assert "internal error" not in err
    return err
