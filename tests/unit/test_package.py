"""The package's surface: exported names, documented examples, the version, and what an import loads."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import dperm

MODULES = [module.name for module in pkgutil.walk_packages(dperm.__path__, "dperm.")]


def test_exported_names_exist_and_are_sorted():
    assert sorted(dperm.__all__) == sorted(set(dperm.__all__))
    for name in dperm.__all__:
        assert getattr(dperm, name).__doc__, name


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    failures, _ = doctest.testmod(
        module, optionflags=doctest.ELLIPSIS, extraglobs={"np": importlib.import_module("numpy")}
    )
    assert failures == 0


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
    import subprocess
    import sys

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
