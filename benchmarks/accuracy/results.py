"""What was measured, by key: method, data, adjacency, ε and seed, in one JSON file that is kept with the code."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PATH = Path(__file__).resolve().parent / "results.json"
ROOT = PATH.parents[2]


class Key(NamedTuple):
    """One cell of the tables; ceilings have no adjacency and no ε."""

    data: str
    method: str
    adjacency: str | None = None
    epsilon: float | None = None


class Results:
    """The cells of a file; several runners may add to it at the same time.

    Attributes
    ----------
    cells : dict
        For every key a dictionary: `scores` by seed, the `setting` where there was one to choose, and the `version` of
        the package that reached them.
    shapes : dict
        Rows for training and testing, and raw columns, by data.
    """

    def __init__(self, path: Path = PATH) -> None:
        self.path = path
        self.cells: dict[Key, dict[str, Any]] = {}
        self.shapes: dict[str, list[int]] = {}
        self._read()

    def _read(self) -> None:
        if not self.path.is_file():
            return
        content = json.loads(self.path.read_text(encoding="utf-8"))
        self.shapes = content["shapes"]
        self.cells = {
            Key(*(cell[name] for name in Key._fields)): {
                "version": cell["version"],
                "setting": cell["setting"],
                "scores": {int(seed): score for seed, score in cell["scores"].items()},
            }
            for cell in content["cells"]
        }

    def missing(self, key: Key, seeds: range) -> list[int]:
        """The seeds that were not measured."""
        done = self.cells.get(key, {"scores": {}})["scores"]
        return [seed for seed in seeds if seed not in done]

    def add(self, key: Key, scores: dict[int, float], setting: str = "", version: str = "") -> None:
        """Keep scores by seed, on disk at once."""
        with self._changing():
            cell = self.cells.setdefault(key, {"scores": {}})
            cell |= {"version": version, "setting": setting}
            cell["scores"] |= {seed: round(score, 5) for seed, score in scores.items()}

    def note(self, data: str, shape: list[int]) -> None:
        """Keep the shape of a table."""
        with self._changing():
            self.shapes[data] = shape

    def forget(self, method: str, data: str) -> None:
        """Drop what a method reached on a table, so that it is measured again."""
        with self._changing():
            self.cells = {key: cell for key, cell in self.cells.items() if (key.method, key.data) != (method, data)}

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """The file as it is now, changed and written back before anybody else reads it."""
        with (self.path.parent / f".{self.path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._read()
            yield
            new = self.path.with_suffix(".new")
            new.write_text(self.text(), encoding="utf-8")
            os.replace(new, self.path)

    def text(self) -> str:
        """The file: a line per cell, so that changes can be read."""
        cells = [
            json.dumps(
                {
                    **key._asdict(),
                    **{name: cell[name] for name in ("version", "setting")},
                    "scores": dict(sorted(cell["scores"].items())),
                },
                ensure_ascii=False,
            )
            for key, cell in sorted(self.cells.items(), key=lambda item: str(item[0]))
        ]
        shapes = json.dumps(dict(sorted(self.shapes.items())))
        return "\n".join(
            ["{", f' "shapes": {shapes},', ' "cells": [', ",\n".join(f"  {cell}" for cell in cells), " ]", "}", ""]
        )

    def spread(self, key: Key) -> tuple[float, float, float] | None:
        """Least, median and largest score over the seeds, None if it was not measured."""
        cell = self.cells.get(key)
        if not cell or not cell["scores"]:
            return None
        scores = list(cell["scores"].values())
        return min(scores), float(np.median(scores)), max(scores)
