"""The tables of the comparison: raw columns with a schema of public ranges and categories, or arrays without one.

Adult and Covertype come with dperm. The others are read from the folder that DPERM_DATA names, by default
../shared/data beside the repository; nothing is downloaded.
"""

import functools
import lzma
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from about import ABOUT
from results import ROOT
from scipy import sparse
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

HERE = Path(__file__).resolve().parent
FOLDER = Path(os.environ.get("DPERM_DATA", ROOT.parent / "shared" / "data"))
SPLIT_SEED = 1


class AbsentError(Exception):
    """A file of the data is not there."""


@dataclass(frozen=True)
class Data:
    """One table, split once and for all.

    Attributes
    ----------
    name : str
        As on the page.
    measure : {"AUC", "accuracy", "R²"}
        What is measured on the test rows: the higher, the better.
    train, test : DataFrame or CSR matrix
        Raw rows; a table holds its target, under `target["column"]`.
    y, y_test : array
        The target: places among the classes, or a number.
    columns, target, facts : dict
        The parts of the schema's file; empty for arrays.
    row_norm : float
        For arrays: a public bound on the norm of a row.
    """

    name: str
    measure: str
    train: Any
    test: Any
    y: Any
    y_test: Any
    columns: dict[str, Any]
    target: dict[str, Any]
    facts: dict[str, Any]
    row_norm: float = 1.0

    @property
    def n_classes(self) -> int:
        """How many classes there are, 0 for a regression."""
        return 0 if self.measure == "R²" else int(self.y.max()) + 1

    def score(self, predictions: Any) -> float:
        """The measure: of scores for the AUC, of places among the classes for the accuracy, of numbers for R²."""
        judge = {"AUC": roc_auc_score, "accuracy": accuracy_score, "R²": r2_score}[self.measure]
        return float(judge(self.y_test, predictions))


def file(name: str) -> Path:
    """A file of the folder, or a sentence that says where it should be."""
    path = FOLDER / name
    if not path.is_file():
        raise AbsentError(f"{name} is not in {FOLDER}; DPERM_DATA names the folder that holds it.")
    return path


@functools.lru_cache(maxsize=1)
def load(name: str, quick: bool = False) -> Data:
    """The table of this name; `quick` keeps few rows of large ones."""
    return _LOADERS[name](quick)


def schema_file(name: str) -> Path:
    """The file of a schema: Covertype's comes with dperm, the others are for this comparison."""
    folder = ROOT / "src" / "dperm" / "datasets" if name == "covertype" else HERE / "schemas"
    return folder / f"{name}.toml"


def _table(name: str, schema: str, train: pd.DataFrame, test: pd.DataFrame, target: Any = None) -> Data:
    content = tomllib.loads(schema_file(schema).read_text(encoding="utf-8"))
    target = content["target"] if target is None else target
    y, y_test = (_target(table[target["column"]], target) for table in (train, test))
    return Data(name, ABOUT[name][2], train, test, y, y_test, content["columns"], target, content.get("table", {}))


def _target(values: pd.Series, target: dict[str, Any]) -> Any:
    if "classes" not in target:
        return values.to_numpy(dtype=np.float64)
    spellings = [entry if isinstance(entry, list) else [entry] for entry in target["classes"]]
    places = {str(text): place for place, texts in enumerate(spellings) for text in texts}
    return values.astype(str).map(places).to_numpy(dtype=np.int64)


def _split(table: pd.DataFrame, n_train: int, n_test: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    order = np.random.default_rng(SPLIT_SEED).permutation(len(table))[: n_train + n_test]
    shuffled = table.iloc[order].reset_index(drop=True)
    return shuffled[:n_train], shuffled[n_train:].reset_index(drop=True)


def _adult(quick: bool) -> Data:
    names = tomllib.loads(schema_file("adult").read_text(encoding="utf-8"))["table"]["header"]
    train, test = (
        pd.read_csv(ROOT / "src" / "dperm" / "datasets" / file, names=names, skipinitialspace=True, comment="|")
        for file in ("adult.data.xz", "adult.test.xz")
    )
    return _table("adult", "adult", train, test)


def _covertype(quick: bool) -> pd.DataFrame:
    with np.load(ROOT / "src" / "dperm" / "datasets" / "covertype.npz") as stored:
        names = list(tomllib.loads(schema_file("covertype").read_text(encoding="utf-8"))["columns"])
        table = pd.DataFrame(stored["num_T"].T, columns=names[:10])
        table["wilderness"], table["soil"], table["cover"] = stored["wilderness"], stored["soil"], stored["y"]
    return _split(table, *((20_000, 10_000) if quick else (200_000, 50_000)))


def _covertype_2(quick: bool) -> Data:
    target = {"column": "cover", "classes": [[1, 3, 4, 5, 6, 7], [2]]}
    return _table("covertype-2", "covertype", *_covertype(quick), target)


def _covertype_7(quick: bool) -> Data:
    return _table("covertype-7", "covertype", *_covertype(quick))


def _letter(quick: bool) -> Data:
    names = tomllib.loads(schema_file("letter").read_text(encoding="utf-8"))["table"]["header"]
    table = pd.read_csv(file("letter_recognition.data.xz"), names=names)
    return _table("letter", "letter", table[:16_000], table[16_000:].reset_index(drop=True))


def _california(quick: bool) -> Data:
    with np.load(file("california_housing.npz")) as stored:
        names = list(tomllib.loads(schema_file("california").read_text(encoding="utf-8"))["columns"])
        table = pd.DataFrame(stored["X"], columns=names)
        table["value"] = stored["y"]
    return _table("california", "california", *_split(table, 16_512, 4_128))


def _bike(quick: bool) -> Data:
    return _table("bike", "bike", *_split(pd.read_csv(file("bike_hour.csv.xz")), 13_903, 3_476))


def _rcv1(quick: bool) -> Data:
    (train, y), (test, y_test) = (_vowpal(file(name)) for name in ("rcv1_small.dat.xz", "rcv1_small_test.data.xz"))
    return Data("rcv1", ABOUT["rcv1"][2], train, test, y, y_test, {}, {}, {})


def _vowpal(path: Path) -> tuple[Any, Any]:
    """Rows and labels of a file in Vowpal Wabbit's format; RCV1 has 47 236 terms, counted from 1."""
    labels, places, values, ends = [], [], [], [0]
    with lzma.open(path, "rt") as lines:
        for label, *terms in (line.replace("|f", "").split() for line in lines if line.strip()):
            labels.append(int(float(label) > 0))
            places += [int(term.partition(":")[0]) - 1 for term in terms]
            values += [float(term.partition(":")[2]) for term in terms]
            ends.append(len(values))
    return sparse.csr_matrix((values, places, ends), shape=(len(labels), 47_236)), np.array(labels)


def _a9a(quick: bool) -> Data:
    with np.load(file("a9a.npz")) as stored:
        rows, labels = [], []
        for part in ("train", "test"):
            places, ends = stored[f"{part}_indices"].astype(np.int32), stored[f"{part}_indptr"]
            rows.append(sparse.csr_matrix((np.ones(len(places)), places, ends), shape=(len(ends) - 1, 123)))
            labels.append((stored[f"{part}_y"] > 0).astype(np.int64))
    # Fourteen attributes of a person, each a 1 in at most one of its columns.
    return Data("a9a", ABOUT["a9a"][2], *rows, *labels, {}, {}, {}, row_norm=14.0**0.5)


_LOADERS = {
    "adult": _adult, "covertype-2": _covertype_2, "covertype-7": _covertype_7, "letter": _letter,
    "california": _california, "bike": _bike, "rcv1": _rcv1, "a9a": _a9a,
}  # fmt: skip
