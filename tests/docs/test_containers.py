"""dperm runs where nothing of it can be written: as nobody, from a read-only tree, without a home; and in an image."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import dperm

ROOT = Path(__file__).parents[2]
NOBODY = 65534
NOT_KEPT = "dperm: warning: compiled code cannot be cached, so every process compiles it again"
NO_WITNESS = "dperm: warning: the state of the ledger cannot be recorded"


@pytest.fixture(scope="module")
def place():
    """A folder that everybody can reach: a copy of the package that nobody can write, and a place to work in."""
    folder = Path(tempfile.mkdtemp(prefix="dperm-nobody-", dir="/tmp"))
    without = shutil.ignore_patterns("__pycache__", "covertype.npz")
    shutil.copytree(Path(dperm.__file__).parent, folder / "site" / "dperm", ignore=without)
    (folder / "work").mkdir()
    if os.geteuid() == 0:
        os.chown(folder / "work", NOBODY, NOBODY)
    folder.chmod(0o755)
    for path in (folder / "site").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in (folder / "site").rglob("*"):  # also whoever is not root can remove it
        path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def python(place):
    """A Python that user nobody can start and that finds the package's copy and what is installed here."""
    names = [sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"]  # the second where the first is root's own
    path = f"{place / 'site'}:{sysconfig.get_path('purelib')}:{sysconfig.get_path('platlib')}"
    for name in names:
        try:
            subprocess.run([name, "-c", "import scipy"], check=True, cwd="/", env={"PYTHONPATH": path}, **user())
        except (OSError, subprocess.SubprocessError):
            continue
        return Python(name, path, place / "work")
    pytest.skip("no Python with scipy is in a folder that user nobody can reach")


def user():
    """Nobody; where this is not root, the same user, who cannot write into the copy either."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@dataclass
class Python:
    name: str
    path: str
    folder: Path

    def __call__(self, *arguments, **environment):
        alone = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin", "PYTHONPATH": self.path} | environment
        return subprocess.run(
            [self.name, *arguments], cwd=self.folder, env=alone, capture_output=True, text=True, **user()
        )


def said(ended):
    assert ended.returncode == 0, ended.stderr
    return ended.stderr.splitlines()


def test_every_step_of_a_release_works_without_a_home_and_beside_read_only_packages(python):
    def run(command):
        return python("-m", "dperm", *shlex.split(command))

    fit = "--schema adult.toml --epsilon 1 --delta 1e-5"
    assert said(python("-c", "from dperm import *; PrivateLogisticRegression")) == []
    assert said(run("example adult")) == []
    assert said(run(f"plan {fit}")) == []
    (line,) = said(run("budget create adult --epsilon 3 --delta 1e-5 --ledger ledger.db"))
    assert line.startswith(NO_WITNESS)
    about_ledger, about_kernels = said(run(f"fit adult.csv {fit} --dataset adult --ledger ledger.db -o adult.json"))
    assert about_ledger.startswith(NO_WITNESS)
    assert about_kernels.startswith(NOT_KEPT)
    assert said(run("verify adult.json")) == []
    assert said(run("report adult.json")) == []


def test_without_a_home_the_default_ledger_is_refused_in_a_sentence_that_names_the_remedy(python):
    ended = python("-m", "dperm", "budget", "create", "adult", "--epsilon", "3", "--delta", "1e-5")
    assert ended.returncode == 2
    assert ended.stderr == (
        "dperm: /nonexistent/.local/share/dperm cannot be created: Permission denied; pass a persistent ledger: "
        "--ledger, DPERM_LEDGER or ledger=.\n"
    )


def test_encoded_rows_go_to_the_named_folder_and_otherwise_to_a_temporary_one(place, python):
    code = "from dperm.rows.kept import cache_folder; print(cache_folder(True))"
    mine = place / "work" / "cache"
    assert python("-c", code).stdout == "/tmp\n"
    assert python("-c", code, DPERM_CACHE=str(mine)).stdout == f"{mine}\n"
    assert python("-c", code, DPERM_CACHE=str(place / "site"), TMPDIR=str(mine)).stdout == f"{mine}\n"


# --- The image ---

# The base is this system, with this Python and what is installed for it; what an image adds lies above it, in memory.
BUILT = """
set -e
mount --make-rprivate /
mkdir "$1/layer" && mount -t tmpfs tmpfs "$1/layer" && cd "$1/layer" && mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=$PWD/upper,workdir=$PWD/work root
cd root
mount --rbind /dev dev
cp -rL "$1/image" srv/image
chroot . sh -e /srv/image/build
for name in $2; do mkdir -p .$name && mount -t tmpfs -o uid=65534,mode=700 tmpfs .$name; done
mount -o remount,ro .
chroot --userspec=65534:65534 . sh /srv/image/run
"""


def instructions(dockerfile):
    """Of the last stage, after the installation."""
    lines = re.sub(r"\\\n", " ", dockerfile).splitlines()
    found = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    first = max(k for k, (_, rest) in enumerate(found) if rest.startswith("pip install"))
    return found[first + 1 :]


def commands(page):
    return [line.removeprefix("$ ") for line in page.splitlines() if line.startswith("$ dperm ")]


def test_the_page_shows_the_dockerfile():
    assert f"```dockerfile\n{(ROOT / 'Dockerfile').read_text()}```" in (ROOT / "docs" / "containers.md").read_text()


@pytest.mark.slow  # the kernels of two commands are compiled
def test_the_image_is_made_and_runs_every_command_of_the_page_without_a_warning(place, python, tmp_path):
    probe = subprocess.run(["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"], capture_output=True)
    if probe.returncode:
        pytest.skip("mounting needs root and a system that allows it")
    path = python.path.replace(str(place), "/srv/image")
    if "/tmp/" in python.name + path:
        pytest.skip("the image has a /tmp of its own, and this Python is there")
    start = [f"export HOME=/nonexistent PYTHONPATH={path} PATH=/srv/image:/usr/sbin:/usr/bin:/sbin:/bin"]
    build, volumes = list(start), ["/tmp"]
    for kind, rest in instructions((ROOT / "Dockerfile").read_text()):
        match kind:
            case "ENV":
                start.append(f"export {rest}")
                build.append(f"export {rest}")
            case "RUN":
                build.append(f"( {rest} )")
            case "VOLUME" | "WORKDIR":
                volumes += rest.split()
    assert volumes == ["/tmp", "/ledger", "/witness", "/data"]
    tried = commands((ROOT / "docs" / "containers.md").read_text())
    assert len(tried) == 9
    run = [*start, "cd /data", *(f"echo '{line}' >&2; {line}; echo $? >&2" for line in tried)]
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "site").symlink_to(place / "site")
    call = f'#!/bin/sh\nexec {python.name} -m dperm "$@"\n'
    for name, text in (("build", "\n".join(build)), ("run", "\n".join(run)), ("dperm", call)):
        (tmp_path / "image" / name).write_text(text)
        (tmp_path / "image" / name).chmod(0o755)
    (tmp_path / "built").write_text(BUILT)
    ended = subprocess.run(
        ["unshare", "--mount", "sh", tmp_path / "built", tmp_path, " ".join(volumes)], capture_output=True, text=True
    )
    assert ended.stderr.splitlines() == [line for command in tried for line in (command, "0")]
