"""Compiled kernels are found again by another process, and only those of this package."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from numba.core.registry import CPUDispatcher

import dperm
import dperm.trusted.objectives
from dperm.trusted.compiling import _COMPILED_SOURCES

FIT = """
import sys
import numpy as np
from numba.core import event
from dperm import Guarantee, Logistic, Problem, minimize
from dperm.unsafe import empirical_gradient
{loss}
compiled = []
class Listener(event.Listener):
    def on_start(self, e): compiled.append(e.data["dispatcher"].py_func.__qualname__)
    def on_end(self, e): pass
X = np.random.default_rng(0).normal(size=(300, 3)) / 3
with event.install_listener("numba:compile", Listener()):
    {run}
print(len(compiled), file=sys.stderr)
"""

PRIVATELY = 'minimize(Problem({name}()), X, np.sign(X[:, 0]), guarantee=Guarantee(1.0, 1e-5), solver="dp-gd")'
# The kernels of noise take most of the time.
WITHOUT_NOISE = "empirical_gradient(Problem({name}()), X, np.sign(X[:, 0]), np.zeros(3))"

OWN_LOSS = """
from dataclasses import dataclass
@dataclass(frozen=True)
class Mine(Logistic):
    name = "mine"
    @staticmethod
    def derivative(margin, target):
        return -target / (1.0 + np.exp(target * margin))
"""


@pytest.fixture(scope="module")
def first_process(tmp_path_factory):
    """A copy of the package with nothing compiled, and what one process compiles there and keeps."""
    folder = tmp_path_factory.mktemp("package")
    without = shutil.ignore_patterns("__pycache__", "*.npz")
    shutil.copytree(Path(dperm.__file__).parent, folder / "dperm", ignore=without)
    return folder, *compiled_in_a_new_process(folder, run=WITHOUT_NOISE)


@pytest.fixture
def copied_package(first_process):
    """The copy, used once or more often."""
    return first_process[0]


def compiled_in_a_new_process(folder, name="Logistic", loss="", run=PRIVATELY):
    """How many functions a new process had to compile, and the files that are kept afterwards."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIT.format(loss=loss, run=run.format(name=name))],
        env=os.environ | {"PYTHONPATH": str(folder)}, cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stderr.splitlines()[-1]), sorted(path.name for path in folder.rglob("*.nbc"))


def test_a_second_process_compiles_no_kernel_again(first_process):
    folder, first, kept = first_process
    assert first > 1
    second, kept_then = compiled_in_a_new_process(folder, run=WITHOUT_NOISE)
    assert second <= 1  # the derivative itself, where it is not inlined
    assert kept == kept_then


@pytest.mark.slow  # the same with the kernels of noise
def test_a_second_process_compiles_no_kernel_of_a_private_fit_again(copied_package):
    first, kept = compiled_in_a_new_process(copied_package)
    assert first > 1
    second, kept_then = compiled_in_a_new_process(copied_package)
    assert second <= 1
    assert kept == kept_then


@pytest.mark.slow  # two processes that compile
def test_what_is_compiled_for_a_loss_of_ones_own_is_not_kept(copied_package):
    _, kept = compiled_in_a_new_process(copied_package)
    compiled, kept_then = compiled_in_a_new_process(copied_package, "Mine", OWN_LOSS)
    assert compiled > 1
    assert kept == kept_then


def test_changed_code_is_compiled_again(copied_package):
    # Of a file that others call into: numba alone looks at the file of the caller.
    called = copied_package / "dperm" / "problem" / "losses" / "logistic.py"
    called.write_text(called.read_text() + "\n# changed\n")
    assert compiled_in_a_new_process(copied_package, run=WITHOUT_NOISE)[0] > 1


@pytest.mark.slow  # three processes that compile
def test_files_that_cannot_be_read_cost_time_and_nothing_else(copied_package):
    compiled_in_a_new_process(copied_package)
    for path in copied_package.rglob("*.nbi"):
        path.write_bytes(b"not a pickle")
    assert compiled_in_a_new_process(copied_package)[0] > 1
    assert compiled_in_a_new_process(copied_package)[0] <= 1


def test_everything_that_is_compiled_comes_from_the_sources_that_its_names_follow():
    package = Path(dperm.__file__).parent
    followed = [package / source for source in _COMPILED_SOURCES]
    for path in package.rglob("*.py"):
        if re.search(r"\bcompile_(kernel|exact|with_fallback)\b|\bcompiled\(|\bnjit\b", path.read_text()):
            assert any(path.is_relative_to(source) for source in followed), path

    def check(function):
        path = Path(function.__code__.co_filename)
        assert any(path.is_relative_to(source) for source in followed), path
        for name in function.__code__.co_names:
            called = function.__globals__.get(name)
            called = getattr(called, "py_func", called)
            if inspect.isfunction(called) and called.__module__.startswith("dperm."):
                check(called)

    modules = [sys.modules[name] for name in sorted(sys.modules) if name.startswith("dperm.")]
    kernels = {value for module in modules for value in vars(module).values() if isinstance(value, CPUDispatcher)}
    assert len(kernels) > 10
    for kernel in kernels:
        check(kernel.py_func)


def on_a_terminal(folder):
    """What a new process shows on a terminal while it takes a gradient, with compiled code in a folder."""
    leader, terminal = os.openpty()
    code = FIT.format(loss="", run=WITHOUT_NOISE.format(name="Logistic"))
    environment = os.environ | {"DPERM_CACHE": str(folder), "TERM": "xterm", "COLUMNS": "100"}
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"):
        environment.pop(name, None)
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # the end of what a terminal shows
        while part := os.read(leader, 4096):
            shown += part
    os.close(leader)
    assert process.wait() == 0
    return shown.decode()


def test_compiling_is_announced_on_a_terminal_when_it_happens_and_leaves_no_line(tmp_path):
    first, second = on_a_terminal(tmp_path / "cache"), on_a_terminal(tmp_path / "cache")
    assert "compiling once, about 10 s" in first
    assert "\x1b[2K" in first.rsplit("compiling", 1)[1]  # the line is cleared again
    assert "compiling" not in second
    assert list((tmp_path / "cache" / "kernels").glob("*.nbc"))


def test_a_folder_that_cannot_be_used_costs_one_warning_and_nothing_else(tmp_path):
    (tmp_path / "file").write_text("no folder")
    code = FIT.format(loss="", run=WITHOUT_NOISE.format(name="Logistic"))
    ended = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"DPERM_CACHE": str(tmp_path / "file")}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert ended.stderr.count("NotKeptWarning") == 1
    assert "compiling, about" not in ended.stderr  # no bar where there is no terminal
