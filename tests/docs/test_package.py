"""The package's surface: exported names, documented examples, the version, and what an import loads."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import dperm

MODULES = [module.name for module in pkgutil.walk_packages(dperm.__path__, "dperm.")]


def test_exported_names_exist_and_are_sorted():
    assert sorted(dperm.__all__) == sorted(set(dperm.__all__))
    for name in dperm.__all__:
        assert getattr(dperm, name).__doc__, name


def test_the_root_has_at_most_sixty_names():
    """Solvers, losses, regularizers, domains and sources are in dperm.solvers, dperm.problem and dperm.rows."""
    assert len(dperm.__all__) <= 60


def test_solvers_and_the_parts_of_a_problem_are_imported_from_their_packages():
    from dperm.paper import PrintedSVRG
    from dperm.problem import L2, L2Ball, Logistic
    from dperm.rows import Table
    from dperm.solvers import AUTOMATIC, DPGD, SOLVERS

    assert SOLVERS["dp-gd"] is DPGD
    assert {cls.__name__ for cls in AUTOMATIC} <= set(dir(dperm.solvers))
    for name in (PrintedSVRG, L2, L2Ball, Logistic, Table, DPGD):
        assert not hasattr(dperm, name.__name__)
    with pytest.raises(ImportError, match="DPNothing"):
        from dperm.solvers import DPNothing  # noqa: F401


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    failures, _ = doctest.testmod(
        module, optionflags=doctest.ELLIPSIS, extraglobs={"np": importlib.import_module("numpy")}
    )
    assert failures == 0


def test_the_paper_rests_on_public_names_and_sees_rows_in_its_references_alone():
    folder = Path(dperm.__file__).parent / "paper"
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("dperm"):
                names = {alias.name for alias in node.names} - {"__version__"}
                assert not any(name.startswith("_") for name in names), path
                if node.module.startswith(("dperm.kernel", "dperm.rows")):
                    found.add((path.relative_to(folder).as_posix(), node.module))
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                assert isinstance(node.value, ast.Name), (path, node.attr)
                assert node.value.id in ("self", "cls"), (path, node.attr)
    assert found == {("studies/reference.py", "dperm.kernel.block")}


@pytest.mark.parametrize(
    "asked",
    ['SOLVERS["rrpsgd"]', 'FitOptions(problem, guarantee=g, noise="paper")', "tuple(SOLVERS)",
     'FitOptions(problem, guarantee=g, accountant="advanced-composition")'],
)  # fmt: skip
def test_the_paper_is_loaded_when_one_of_its_names_is_asked_for_and_not_before(asked):
    program = f"""
import sys
from dperm import FitOptions, Guarantee, Problem
from dperm.problem import Logistic
from dperm.solvers import SOLVERS
problem, g = Problem(Logistic()), Guarantee(1.0, 1e-6)
FitOptions(problem, guarantee=g, solver="dp-gd").plan(1000, 5)
print("dperm.paper" in sys.modules)
{asked}
print("dperm.paper" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"False", b"True"]


def test_the_version_is_the_one_of_the_distribution():
    from importlib.metadata import version

    assert version("dperm") == dperm.__version__


def test_covertype_is_scaled_by_documented_ranges():
    from dperm.datasets.covertype import load_covertype

    data = load_covertype(n_train=500)
    assert data.X.shape == (500, 54)
    assert data.X_test.shape == (580_512, 54)
    assert set(data.y) == {-1.0, 1.0}
    assert abs((data.X**2).sum(axis=1) - 1).max() < 1e-12
    assert abs(data.y_test.mean() - (2 * 283_301 / 581_012 - 1)) < 1e-2


def test_importing_the_package_does_not_import_what_only_some_bounds_need():
    """dp-accounting takes about a second; closed forms, most plans and every prediction do without it."""
    program = "import sys, dperm; print('dp_accounting' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout.split() == [b"False"]


def documented_names(docstring):
    """What stands before the colon, or alone on its line, in the entries of numpydoc sections."""
    lines = [line for line in inspect.cleandoc(docstring).splitlines() if line and not line.startswith(" ")]
    return {name.strip() for line in lines for name in line.partition(" : ")[0].split(",")}


CLASSES = [
    name
    for name in dperm.__all__
    if inspect.isclass(getattr(dperm, name)) and not issubclass(getattr(dperm, name), BaseException)
]


@pytest.mark.parametrize("name", CLASSES)
def test_every_parameter_of_a_public_class_is_in_its_own_docstring(name):
    public = getattr(dperm, name)
    assert set(inspect.signature(public).parameters) - documented_names(public.__doc__) == set()
