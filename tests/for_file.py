"""Run the tests of a source file: `python tests/for_file.py src/dperm/plan/auto.py`, or `make test-for FILE=…`.

They are those named as the file, those that import something of it, by themselves or through a module beside the
tests, and the contracts of its kind. Where there are none, they are the tests of the files that import it, or else of
those beside it.
"""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE, TESTS = ROOT / "src", ROOT / "tests"


def main():
    if len(sys.argv) < 2 or not sys.argv[1].endswith(".py") or not Path(sys.argv[1]).is_file():
        sys.exit("name a file of the source, such as FILE=src/dperm/plan/auto.py")
    path = Path(sys.argv[1]).resolve()
    if not path.is_relative_to(SOURCE):
        sys.exit(f"{sys.argv[1]} is not in src; `python -m pytest {sys.argv[1]}` runs a test file.")
    through, found = tests_for(path)
    if not found:
        sys.exit(
            f"no test is named as {sys.argv[1]} or imports it, what uses it or what is beside it: `make test` has all."
        )
    if through:
        print(f"no test is named as {sys.argv[1]} or imports it; these are of", ", ".join(_shown(sorted(through))))
    print(*_shown(found), sep="\n", flush=True)
    on_all_cores = ["-n", "auto", "--dist", "worksteal"] if len(found) > 3 else []
    sys.exit(subprocess.run([sys.executable, "-m", "pytest", *on_all_cores, *map(str, found)], cwd=ROOT).returncode)


def tests_for(path):
    """The files that had to be taken in its place, none if there are tests of its own; and the tests."""
    used = {test: _used_by(test) for test in sorted(TESTS.rglob("test_*.py"))}

    def of(files):
        return [test for test in used if used[test] & files or any(_is_by_name(test, file) for file in files)]

    if own := of({path}):
        return set(), own
    users = {file for file in SOURCE.rglob("*.py") if path in _imported(file)}
    beside = set(path.parent.glob("*.py")) - {path}  # it may be found by its name, as commands and answers are
    return next(((files, of(files)) for files in (users, beside) if of(files)), (set(), []))


def _is_by_name(test, path):
    """Whether it is named as the file, or is a contract of everything of this kind, such as every loss."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    if test.parent.name == "contracts":
        return any(part.startswith(kind) for kind in re.findall(r"every_([a-z]+)", test.stem) for part in parts)
    return test.stem.startswith((f"test_{path.stem}", f"test_{path.parent.name}_{path.stem}"))


@cache
def _used_by(test):
    """Files of the source that a test imports, by itself or through modules beside the tests."""
    files, todo, seen = set(), [test], set()
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            imported = _imported(file)
            files |= {each for each in imported if each.is_relative_to(SOURCE)}
            todo += [each for each in imported if each.is_relative_to(TESTS)]
    return files


@cache
def _imported(file):
    """Files in which the names that a file imports are defined."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {_module(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, file)
            found |= {_module(module), *(_defining(module, alias.name) for alias in node.names)}
    return found - {None}


def _absolute(node, file):
    if not node.level:
        return node.module
    base = file.relative_to(SOURCE if file.is_relative_to(SOURCE) else TESTS).parts[: -node.level]
    return ".".join([*base, *([node.module] if node.module else [])])


def _defining(module, name):
    """The file that defines a name of a module, through what packages pass on."""
    file = _module(f"{module}.{name}") or _module(module)
    if file is not None and file.stem == "__init__" and _module(f"{module}.{name}") is None:
        stub = file.with_suffix(".pyi")  # from which the root package loads its names
        passing = stub if stub.exists() else file
        for node in ast.walk(ast.parse(passing.read_text())):
            if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
                origin = _absolute(node, passing)
                return file if origin == module else _defining(origin, name)
    return file


@cache
def _module(name):
    """The file of a module of the source or of the tests, or None."""
    for root in (SOURCE, TESTS):
        for file in (
            root.joinpath(*name.split(".")).with_suffix(".py"),
            root.joinpath(*name.split("."), "__init__.py"),
        ):
            if file.is_file():
                return file
    return None


def _shown(files):
    return [str(file.relative_to(ROOT)) for file in files]


if __name__ == "__main__":
    main()
