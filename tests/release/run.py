"""What is uploaded, tried as a stranger would: `make release-check` and `make test-versions`.

    python tests/release/run.py wheel       build sdist and wheel, check them, install the wheel outside the checkout,
                                            follow the quick start there, and say how long it took
    python tests/release/run.py versions    contract, problem, schema and solver tests on every Python that is installed

Everything is made in temporary folders; the checkout stays as it is.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SUPPORTED = [line.split(" :: ")[-1] for line in PROJECT["classifiers"] if "Python :: 3." in line]
# As the quick start has them; each must succeed where no checkout and no extra is.
QUICK_START = (
    "example adult",
    "budget create adult --epsilon 3 --delta 1e-5",
    "fit adult.csv --schema adult.toml --epsilon 1 --delta 1e-5 --dataset adult -o adult.json",
    "verify adult.json",
    "predict adult.json adult-test.csv -o predictions.csv",
    "report adult.json",
    "budget show adult",
)
# Without the extra that it needs, a command must say so at once.
NEED_AN_EXTRA = {
    "plot adult.json --what effects -o a.png": "dperm[plot]",
    "demo": "dperm[plot]",
    "reproduce figure-1": "dperm[plot]",
}


def main(what: str) -> None:
    """Run one of the two checks."""
    with tempfile.TemporaryDirectory(prefix="dperm-release-") as folder:
        wheel = built(Path(folder))
        if what == "wheel":
            try_wheel(wheel, Path(folder))
        else:
            try_versions(wheel, Path(folder))


def built(folder: Path) -> Path:
    """The wheel, built from the sdist, which is built from what git knows; both are checked."""
    source = folder / "checkout"
    known = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, known.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source])
    (wheel,), (sdist,) = (list((folder / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    check_contents(wheel, sdist)
    for path in (wheel, sdist):
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    return wheel


def check_contents(wheel: Path, sdist: Path) -> None:
    """Licence, notices, types, data, pages and kernels are in the wheel, sources in the sdist, caches in neither."""
    with zipfile.ZipFile(wheel) as packed, tarfile.open(sdist) as archive:
        names, sources = packed.namelist(), archive.getnames()
        (described,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = Metadata.from_email(packed.read(described), validate=True)  # raises where a registry would refuse it
    for ending in (
        "licenses/LICENSE", "covertype.NOTICE.txt", "adult.NOTICE.txt", "dperm/py.typed", "dperm/__init__.pyi",
        "datasets/adult.toml", "datasets/adult.data.xz", "datasets/covertype.npz", "report/page.html",
        "kernel/native.abi3.so", "kernel/native.pyi",
    ):  # fmt: skip
        require(any(name.endswith(ending) for name in names), f"the wheel has no {ending}")
    kernel = ROOT / "src" / "dperm" / "kernel"
    native = ["setup.py", "build_backend.py", *(kernel.glob("native.py[xi]")), *(kernel.glob("cpp/*"))]
    top = sources[0].partition("/")[0]
    for source in native:
        name = (ROOT / source).relative_to(ROOT).as_posix()
        require(f"{top}/{name}" in sources, f"the sdist has no {name}")
    require(not [name for name in names if name.endswith((".pyx", ".cpp", ".hpp"))], "the wheel has sources of kernels")
    require("-cp311-abi3-" in wheel.name, "the wheel is not for every Python from 3.11 on")
    require(
        not [name for name in (*names, *sources) if "__pycache__" in name or name.endswith(".pyc")], "a cache is in it"
    )
    require(all(name.startswith(("dperm/", "dperm-")) for name in names), "the wheel has files of others")
    require(metadata.license_expression == "Apache-2.0", "the licence is not in the metadata")
    require(str(metadata.requires_python) == ">=3.11", "the metadata are for other versions of Python")
    require(metadata.summary == PROJECT["description"], "the metadata have another summary")
    require(metadata.description_content_type == "text/markdown", "the README is not in the metadata")


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install it where nothing else is, and follow the quick start."""
    began = time.perf_counter()
    python = installed(folder / "clean", sys.executable, [wheel])
    print(f"installed in {time.perf_counter() - began:.0f} s")
    place = folder / "place"
    place.mkdir()
    outside = {
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_STATE_HOME": str(folder / "state"),
        "PATH": os.environ["PATH"],
    }
    first, second = (seconds_of_a_fit(python, place, outside) for _ in range(2))
    print(f"a small fit in the first process after the installation: {first:.2f} s, in the second: {second:.2f} s")
    print(f"first over second: {first / second:.2f}")
    began = time.perf_counter()
    for command in QUICK_START:
        start = time.perf_counter()
        run([python.parent / "dperm", *command.split()], cwd=place, env=outside)
        print(f"  {time.perf_counter() - start:5.1f} s  dperm {command}")
    print(f"the quick start took {time.perf_counter() - began:.0f} s")
    require((place / "adult.html").stat().st_size > 10_000, "the report is empty")
    for command, needed in NEED_AN_EXTRA.items():
        ended = subprocess.run(
            [python.parent / "dperm", *command.split()], cwd=place, env=outside, capture_output=True, text=True
        )
        require(ended.returncode == 2 and needed in ended.stderr, f"dperm {command} does not name {needed}")
        require(len(ended.stderr.splitlines()) == 1, f"dperm {command} says more than a sentence")
    print("release check: passed")


def seconds_of_a_fit(python: Path, place: Path, environment: dict[str, str]) -> float:
    """How long a new process takes for a small fit, imports included."""
    code = """
import numpy as np
from dperm import PrivateLogisticRegression
X = np.random.default_rng(0).normal(size=(1000, 5)) / 5
PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))
"""
    began = time.perf_counter()
    run([python, "-W", "ignore", "-c", code], cwd=place, env=environment)
    return time.perf_counter() - began


def try_versions(wheel: Path, folder: Path) -> None:
    """Contract, problem, schema and solver tests with the wheel, on every supported Python that can be found."""
    found = {version: interpreter(version) for version in SUPPORTED}
    print("  ".join(f"Python {version}: {path or 'not installed'}" for version, path in found.items()))
    for version, path in found.items():
        if path is None:
            continue
        build, dev = (
            ["--require-hashes", "--requirement", ROOT / f"requirements-{part}.lock"] for part in ("build", "dev")
        )
        python = installed(folder / version, path, build, ["--no-build-isolation", *dev], ["--no-deps", wheel])
        began = time.perf_counter()
        chosen = ("tests/problem", "tests/schema", "tests/solvers", "tests/contracts", "tests/cli/test_examples.py")
        run([python, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", *chosen], cwd=folder / "checkout")
        print(f"Python {version}: passed in {time.perf_counter() - began:.0f} s")
    require(any(found.values()), "no supported Python was found")


def interpreter(version: str) -> str | None:
    """A Python of this version that starts: on the path, or among pyenv's."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    places = [f"python{version}", *sorted(home.glob(f"versions/{version}.*/bin/python"))]
    for place in places:
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run([place, "-c", "import venv"], check=True, capture_output=True)
            return str(place)
    return None


def installed(place: Path, python: str, *installs: list[object]) -> Path:
    """The interpreter of a new environment in which pip has run with each of these arguments."""
    run([python, "-m", "venv", place])
    for arguments in installs:
        run([place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments])
    return place / "bin" / "python"


def run(command: list[object], **options: object) -> None:
    """Run a command; what it printed is shown if it fails."""
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{ended.stdout}{ended.stderr}failed with {ended.returncode}")


def require(holds: bool, otherwise: str) -> None:
    """End with a sentence unless it holds."""
    if not holds:
        sys.exit(f"release check: {otherwise}.")


if __name__ == "__main__":
    if sys.argv[1:] not in (["wheel"], ["versions"]):
        sys.exit(__doc__)
    main(sys.argv[1])
