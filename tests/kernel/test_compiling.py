"""Compiled kernels are found again by another process, and only those of this package."""

import inspect
import os
import pickle
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from numba.core.caching import InTreeCacheLocator, UserWideCacheLocator
from numba.core.registry import CPUDispatcher

import dperm
import dperm.kernel.objectives
from dperm.code_cache import _COMPILED_SOURCES
from dperm.errors import InvalidParameterError
from dperm.kernel.compiling import compile_exact
from dperm.rows.kept import cache_folder

FIT = """
import sys
import numpy as np
from numba.core import event
from dperm import Guarantee, Problem, minimize
from dperm.problem import Logistic
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


# --- Whose folder it is ---


class Payload:
    """What a planted file does when it is loaded."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def doubled(x):
    return 2.0 * x


def runs_what_is_planted(folder, mark):
    """Whether a kernel runs the code that is in place of a folder's index."""
    for name in index_names():
        (folder / name).write_bytes(pickle.dumps(Payload(mark)))
    assert compile_exact(doubled)(1.0) == 2.0
    return mark.exists()


def index_names():
    """As numba writes them for a locator of its own and for the folder that DPERM_CACHE names."""
    base, version = f"test_compiling.{doubled.__qualname__}", f"py{sys.version_info.major}{sys.version_info.minor}"
    line = doubled.__code__.co_firstlineno
    return [f"{base}-{between}.{version}{sys.abiflags}.nbi" for between in (line, f"{doubled.__module__}-{line}")]


@pytest.fixture
def named(tmp_path, monkeypatch):
    """A folder that DPERM_CACHE names, with one for kernels in it."""
    (tmp_path / "cache" / "kernels").mkdir(parents=True, mode=0o700)
    (tmp_path / "cache").chmod(0o755)
    monkeypatch.setenv("DPERM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.filterwarnings("ignore::dperm.errors.NotKeptWarning")
@pytest.mark.parametrize(
    ("change", "is_run"),
    [
        (lambda named: None, True),  # the attack works where the user has made it
        (lambda named: (named / "kernels").chmod(0o555), True),  # as an image brings it along
        (lambda named: named.chmod(0o1777), True),  # as in /tmp
        (lambda named: (named / "kernels").chmod(0o777), False),
        (lambda named: (named / "kernels").chmod(0o1777), False),
        (lambda named: named.chmod(0o777), False),
    ],
)
def test_kernels_come_only_from_a_named_folder_that_nobody_else_can_write(named, tmp_path, change, is_run):
    folder = named / "kernels"
    for name in index_names():
        (folder / name).touch()  # written to when the folder itself no longer can be
    change(named)
    assert runs_what_is_planted(folder, tmp_path / "mark") == is_run


@pytest.mark.filterwarnings("ignore::dperm.errors.NotKeptWarning")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
@pytest.mark.parametrize("who", ["owner", "owner above", "group", "link"])
def test_kernels_do_not_come_from_a_folder_of_another_user_or_group(named, tmp_path, who):
    folder = named / "kernels"
    match who:
        case "owner":
            os.chown(folder, 11111, 11111)
        case "owner above":
            os.chown(named, 11111, 11111)
        case "group":
            os.chown(folder, 0, 11111)
            folder.chmod(0o775)
        case "link":
            theirs = tmp_path / "theirs"
            theirs.mkdir()
            os.chown(theirs, 11111, 11111)
            folder.rmdir()
            folder.symlink_to(theirs)
    assert not runs_what_is_planted(folder, tmp_path / "mark")


@pytest.mark.filterwarnings("ignore::dperm.errors.NotKeptWarning")
@pytest.mark.parametrize("is_planted", [True, False])
def test_without_a_home_nothing_is_loaded_from_or_made_in_the_current_folder(tmp_path, monkeypatch, is_planted):
    def expanduser(path):  # of a user whom the system does not know
        return path

    for name in ("DPERM_CACHE", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", expanduser)
    monkeypatch.setattr(InTreeCacheLocator, "from_function", classmethod(lambda *_: None))  # beside read-only packages
    monkeypatch.chdir(tmp_path)
    if is_planted:
        folder = Path(UserWideCacheLocator(doubled, __file__).get_cache_path())
        assert folder.parts[0] == "~"
        folder.mkdir(parents=True)
        assert not runs_what_is_planted(folder, tmp_path / "mark")
    else:
        assert compile_exact(doubled)(1.0) == 2.0
        assert list(tmp_path.iterdir()) == []


def test_a_relative_named_folder_is_refused_in_one_sentence(tmp_path, monkeypatch):
    sentence = "DPERM_CACHE is cache, a relative path: use an absolute one."
    monkeypatch.setenv("DPERM_CACHE", "cache")
    monkeypatch.chdir(tmp_path)
    for use in (lambda: compile_exact(doubled), lambda: cache_folder(True)):
        with pytest.raises(InvalidParameterError) as raised:
            use()
        assert str(raised.value) == sentence
    fit = "fit table.csv --schema table.toml --epsilon 1 --delta 1e-5 -o model.json"
    ended = subprocess.run([sys.executable, "-m", "dperm", *fit.split()], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (2, f"dperm: {sentence}\n")
    corrected = "except dperm.InvalidParameterError: del os.environ['DPERM_CACHE']"
    code = f"import os, dperm\ntry: dperm.minimize\n{corrected}\nelse: raise AssertionError\ndperm.minimize"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert list(tmp_path.iterdir()) == []
