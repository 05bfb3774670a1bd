"""Where measurements are made and kept: what was measured once, with this code and configuration, is not again."""

import hashlib
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Protocol

from dperm.errors import DpermError, LargeDeltaWarning
from dperm.paper.studies.reproduce.rows import RowsOf, draw
from dperm.plan.fit_plan import FitPlan
from dperm.plan.minimize import minimize
from dperm.plan.options import FitOptions
from dperm.privacy.guarantee import Guarantee
from dperm.problem import Problem
from dperm.progress import ProgressBar
from dperm.solvers import Solver
from dperm.unsafe import empirical_risk

# What shows results and has no say in them.
_WITHOUT_INFLUENCE = (
    "cli/", "report/", "models/", "pictures/", "demo/",
)  # fmt: skip

# Of this folder, what draws rows, fits and accounts. The rest chooses configurations, which are part of the key, or
# shows what was measured.
_HERE = "paper/studies/reproduce/"
_MEASURING = tuple(_HERE + name for name in ("costs.py", "gradients.py", "lab.py", "rows.py"))
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "dp-accounting", "jax", "jaxlib")


class Measurement(Protocol):
    """Something that can be measured: a frozen dataclass, whose repr is its configuration."""

    def run(self) -> dict[str, Any]:
        """Measure it; what comes back goes into JSON."""


@dataclass(frozen=True)
class Fit:
    """One private fit, and how far from the optimum it ends.

    The result has the excess risk (None with a reason if there was none), the seconds of the fit, the per-example
    gradients that were planned (None where an exact minimiser takes as many as it takes), what is certified, and
    F(0) − F*.
    """

    rows: RowsOf
    solver: Solver
    epsilon: float
    delta: float
    noise: str
    seed: int

    def run(self) -> dict[str, Any]:
        """Fit once."""
        sample = draw(self.rows)
        guarantee = Guarantee(self.epsilon, self.delta)
        result: dict[str, Any] = {"at_zero": sample.at_zero, "excess": None, "gradients": None}
        try:
            planned = _planned(sample.problem, *sample.X.shape, guarantee, self.solver, self.noise)
        except DpermError as error:
            return result | {"reason": str(error)}
        plan = planned.calibrated.plan
        result["gradients"] = plan.passes * len(sample.y) if plan.passes < float("inf") else None
        result["certified_delta"] = planned.statement.certified_delta
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LargeDeltaWarning)  # the paper's δ
            began = time.perf_counter()
            try:
                w = minimize(
                    sample.problem, sample.X, sample.y, guarantee=guarantee, solver=self.solver, noise=self.noise,
                    random_state=self.seed,
                ).w  # fmt: skip
            except DpermError as error:  # it diverged, or its minimiser was not found
                return result | {"reason": str(error)}
            result["seconds"] = time.perf_counter() - began
        result["excess"] = empirical_risk(sample.problem, sample.X, sample.y, w) - sample.best
        return result


@lru_cache(maxsize=64)
def _planned(
    problem: Problem, n: int, n_features: int, guarantee: Guarantee, solver: Solver, noise: str
) -> FitPlan:  # fmt: skip
    return FitOptions(problem, guarantee=guarantee, solver=solver, noise=noise).plan(n, n_features)


class Lab:
    """Runs measurements and keeps them in one file, a line each.

    Parameters
    ----------
    path : Path
        The file. A line that was cut off by a crash is ignored, and measured again.

    Examples
    --------
    >>> import tempfile
    >>> Lab(Path(tempfile.mkdtemp()) / "measurements.jsonl").run("nothing", [])
    {}
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] = {}
        self._cut_off = False
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            self._cut_off = bool(text) and not text.endswith("\n")
            for line in text.splitlines():
                try:
                    entry = json.loads(line)
                    self._known[entry["key"]] = entry["result"]
                except (ValueError, KeyError, TypeError):
                    continue

    def run(self, label: str, measurements: Sequence[Measurement]) -> dict[Measurement, dict[str, Any]]:
        """Measure what is not known yet, and return everything that was asked for."""
        wanted = list(dict.fromkeys(measurements))
        with ProgressBar(label) as bar:
            for done, one in enumerate(wanted):
                bar(done, len(wanted))
                if key(one) not in self._known:
                    self._keep(one, one.run())
        return {one: self._known[key(one)] for one in wanted}

    def _keep(self, one: Measurement, result: dict[str, Any]) -> None:
        line = json.dumps({"key": key(one), "of": repr(one), "result": result})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(("\n" if self._cut_off else "") + line + "\n")
        self._cut_off = False
        self._known[key(one)] = json.loads(line)["result"]


def key(one: Measurement) -> str:
    """Names a configuration together with the code that decides its outcome."""
    return hashlib.sha256(f"{fingerprint()}\n{one!r}".encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Digest of everything that has a say in what is measured: source files, data, libraries, the kind of machine."""
    digest = hashlib.sha256(f"{sys.version} {platform.machine()} {os.cpu_count()}\n".encode())
    for library in _LIBRARIES:
        digest.update(f"{library} {_version(library)}\n".encode())
    for name, content in sorted(_sources(files("dperm"), "")):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"  # JAX is optional


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        path = prefix + entry.name
        if entry.is_dir():
            found += _sources(entry, path + "/")
        elif path.endswith((".py", ".npz", ".so")) and _has_influence(path):
            found.append((path, entry.read_bytes()))
    return found


def _has_influence(path: str) -> bool:
    return path in _MEASURING if path.startswith(_HERE) else not path.startswith(_WITHOUT_INFLUENCE)
