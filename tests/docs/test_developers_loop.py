"""What a developer runs between two changes: a fast sample of every package, the tests of one file, and the counts."""

import ast
import re
from pathlib import Path

import pytest

import for_file
import weight

ROOT = Path(__file__).parents[2]
FAST = re.search(r"FAST := \$\(foreach name,(.*?),\$\(wildcard", (ROOT / "Makefile").read_text(), re.S)[1]
FAST_FILES = {file for name in FAST.replace("\\", " ").split() for file in (ROOT / "tests").glob(f"*/test_{name}.py")}
# A whole study, and what loads matplotlib.
NOT_FAST = {"demo", "pictures"}
PACKAGES = sorted(path.parent.name for path in (ROOT / "src" / "dperm").glob("*/__init__.py"))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_fast_tests_import_something_of_every_package(package):
    folder = ROOT / "src" / "dperm" / package
    used = any(file.is_relative_to(folder) for test in FAST_FILES for file in for_file._used_by(test))
    assert used is not (package in NOT_FAST)


def test_every_name_in_the_list_of_fast_tests_is_a_file():
    assert {file.stem.removeprefix("test_") for file in FAST_FILES} == set(FAST.replace("\\", " ").split())


@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("plan/auto.py", "test_auto.py"),
        ("problem/losses/huber.py", "test_every_loss.py"),  # a contract of everything of its kind
        ("cli/audit.py", "test_cli_audit.py"),  # by its name
        ("kernel/noise.py", "test_noise.py"),
    ],
)
def test_the_tests_of_a_file_are_found(source, test):
    through, found = for_file.tests_for(ROOT / "src" / "dperm" / source)
    assert not through
    assert test in {path.name for path in found}


def test_lines_of_code_are_counted_without_docstrings_comments_and_blanks():
    text = '"""Words."""\n\n# A comment.\nx = 1\n\n\ndef f():\n    """Of\n\n    nothing."""\n    return """a\nb"""\n'
    assert weight.code_lines(text, ast.parse(text)) == 4
