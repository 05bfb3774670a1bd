"""The development environment is pinned with hashes, and the lock file holds nothing of the machine that made it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = "".join((ROOT / f"requirements-{part}.lock").read_text() for part in ("build", "dev"))
PINNED = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==", LOCK, flags=re.M)


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_line_of_the_lock_file_is_a_version_or_a_hash():
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    entry = r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+( ; \(?[a-z_]+ .*)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?"
    assert [line for line in lines if not re.fullmatch(entry, line)] == []
    assert "/" not in LOCK  # no address and no path
    for before, after in zip(lines, [*lines[1:], "end"], strict=True):
        assert before.endswith("\\") == after.startswith("    --hash")


def test_every_dependency_of_development_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        "setuptools",
        *(line for lines in project["optional-dependencies"].values() for line in lines),
    ]
    names = {plain(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in wanted} - {"dperm"}
    assert names <= set(map(plain, PINNED))
    # Twice only where the newest version is for some versions of Python: then each line says for which.
    twice = {name for name in PINNED if PINNED.count(name) > 1}
    assert all(re.search(rf"^{re.escape(name)}==[^ ]+ \\$", LOCK, flags=re.M) is None for name in twice)


def test_setup_installs_from_the_lock_file_with_hashes_and_nothing_else():
    installs = re.findall(r"^\t\$\(INSTALL\).*$", (ROOT / "Makefile").read_text(), flags=re.M)
    assert ["--require-hashes" in line for line in installs] == [True, True, False]
    assert [line.split()[-1] for line in installs[:2]] == ["requirements-build.lock", "requirements-dev.lock"]
    # pip fetches what builds a package without a hash, unless it is told to take what is installed.
    assert ["--only-binary :all:" in line or "--no-build-isolation" in line for line in installs] == [True] * 3
    assert "--no-deps" in installs[2]
