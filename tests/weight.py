"""How heavy the code is: lines, classes, plans, and what one fit and one verification touch.

    python tests/weight.py                  # this working tree
    python tests/weight.py --rev b0fd0bb    # beside a revision

Everything is counted: from the source, or while a small fit, search and verification run in a fresh process.
"""

import argparse
import ast
import contextlib
import inspect
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The import contract whose packages must be read to believe ε, where no test has a list.
TRUSTED = "What is trusted depends on nothing that is not"

# The table of the fit that is followed: 2000 rows of these columns.
SCHEMA = """
[target]
column = "bought"
classes = ["no", "yes"]
[columns.age]
range = [20, 70]
[columns.colour]
values = ["red", "blue"]
"""


def main():
    parser = argparse.ArgumentParser(description="Count what the code weighs.")
    parser.add_argument("--rev", help="a git revision to count beside the working tree")
    parser.add_argument("--counted-only", action="store_true", help="only what is counted from the source, in a second")
    parser.add_argument("--follow", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.follow:
        _follow(chosen.follow)
    columns = {"now": weight(ROOT, chosen.counted_only)}
    if chosen.rev:
        with _worktree(chosen.rev) as there:
            columns = {chosen.rev: weight(there, chosen.counted_only), **columns}
    width = max(len(name) for name in columns["now"])
    print(" " * width, *(f"{name:>12}" for name in columns))
    for name in columns["now"]:
        print(f"{name:<{width}}", *(f"{column[name]:>12}" for column in columns.values()))


def weight(root, counted_only=False):
    """Every number by its name."""
    files = {path: path.read_text() for path in sorted((root / "src" / "dperm").rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in files.items()}
    classes = [node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    trusted = _trusted(root)
    found = {
        "code lines in src": sum(code_lines(files[path], trees[path]) for path in files),
        "files": len(files),
        "classes": len(classes),
        "plan classes": sum("Plan" in name and "Exceeded" not in name for name in classes),
        "functions or classes that reserve or settle": len(_owners_of_charges(trees, root)),
        "trusted lines": sum(len(files[path].splitlines()) for path in trusted),
        "trusted files": len(trusted),
        "trusted code lines": sum(code_lines(files[path], trees[path]) for path in trusted),
        "root names": _root_names(root),
    }
    return found if counted_only else {**found, **_measured(root)}


def code_lines(text, tree):
    """Lines that are not blank, a comment or part of a docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and line.lstrip()[0] != "#" and number not in docstrings for number, line in lines)


def _trusted(root):
    """What must be read to believe ε: the list that a test keeps or, before there was one, an import contract's."""
    for test in (root / "tests").rglob("test_trusted_size.py"):
        printed = subprocess.run(
            [sys.executable, "-c", "from test_trusted_size import *; print(*believed().values(), sep='\\n')"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (root / "src", root / "tests", test.parent)))},
            check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return [Path(line) for line in printed.stdout.split()]
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    packages = next(contract["source_modules"] for contract in contracts if contract["name"] == TRUSTED)
    return [path for package in packages for path in (root / "src").joinpath(*package.split(".")).rglob("*.py")]


def _owners_of_charges(trees, root):
    """The outermost definitions outside the ledger that call `.reserve(` or `.settle(`."""
    return {
        (path, owner.name)
        for path, tree in trees.items()
        if "ledger" not in path.relative_to(root).parts
        for owner in tree.body
        if isinstance(owner, ast.ClassDef | ast.FunctionDef)
        for node in ast.walk(owner)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("reserve", "settle")
    }


def _root_names(root):
    """What `from dperm import …` offers: the imports of the stub that loads them lazily."""
    stub = ast.parse((root / "src" / "dperm" / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return len({alias.asname or alias.name for node in imports for alias in node.names})


def _measured(root):
    """What runs: every command in a fresh process that imports this tree."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(root / "src"), "XDG_DATA_HOME": folder, "XDG_STATE_HOME": folder}
        (Path(folder) / "people.toml").write_text(SCHEMA)
        rows = [f"{age},{colour},{'yes' if age > 40 else 'no'}" for age in range(20, 70) for colour in ("red", "blue")]
        (Path(folder) / "people.csv").write_text("\n".join(["age,colour,bought", *rows * 20, ""]))

        def calls(*arguments):
            command = [sys.executable, str(ROOT / "tests" / "weight.py"), "--follow", *arguments]
            done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE)
            if done.returncode:
                sys.exit(f"dperm {' '.join(arguments)} did not work in {root}")
            return json.loads(done.stdout)

        calls("budget", "create", "people", "--epsilon", "10", "--delta", "1e-5")
        table = ["people.csv", "--schema", "people.toml", "--epsilon", "1", "--delta", "1e-6"]
        fit = calls("fit", *table, "--dataset", "people", "-o", "model.json")
        verify = calls("verify", "model.json")
        search = Counter()
        for _, name, *_, times in calls("tune", *table, "--try", "penalty=auto,0.1", "-o", "chosen.json"):
            search[name] += times
    found = {}
    for name, followed in {"fit": fit, "verify": verify}.items():
        found[f"functions that one {name} touches"] = sum(is_function for *_, is_function, _ in followed)
        found[f"files that one {name} touches"] = len({file for file, *_ in followed})
    found["plans of a search over two candidates"] = search["choose_solver"]
    found["calibrations of the same"] = search["calibrate"]
    found["CPU seconds of `dperm fit --help`"] = _help(environment)
    return found


def _follow(arguments):
    """How often a command runs every function of dperm and, when it imports them, every module."""
    calls = Counter()

    def note(frame, event, _argument):
        code = frame.f_code
        if event == "call" and f"{os.sep}dperm{os.sep}" in code.co_filename:
            is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)  # and not the body of a module or a class
            calls[code.co_filename, code.co_qualname, code.co_firstlineno, is_function] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    from dperm.cli.main import run_with

    with contextlib.redirect_stdout(io.StringIO()):
        code = run_with(arguments)
    sys.setprofile(None)
    print(json.dumps([[*function, times] for function, times in calls.items()]))
    sys.exit(code)


def _help(environment):
    """The least of three runs: the first may compile bytecode."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = "import sys; sys.argv = ['dperm', 'fit', '--help']; from dperm.cli.entry import run; run()"
        subprocess.run([sys.executable, "-c", command], env=environment, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return f"{min(seconds):.2f}"


@contextlib.contextmanager
def _worktree(revision):
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(there), revision], check=True)
        try:
            yield there
        finally:
            subprocess.run([*git, "remove", "--force", str(there)], check=True)


if __name__ == "__main__":
    main()
