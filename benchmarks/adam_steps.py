"""DP-Adam's default number of steps against fewer and more: on tables and networks of several shapes.

    python benchmarks/adam_steps.py                  ten minutes on two cores
    python benchmarks/adam_steps.py --seeds 1 --tables digits covertype

Letter and California housing are read from the folder that DPERM_DATA names, by default ../shared/data beside the
repository, and left out where that is not there. Covertype comes with dperm, the digits with scikit-learn.
"""

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from dperm import PrivateMLPClassifier, PrivateMLPRegressor
from dperm.datasets.covertype import load_covertype
from dperm.solvers import DPAdam

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
from network_tables import Absent, load  # the tables of the comparison with other libraries

EPSILON, DELTA = 1.0, 1e-5
FACTORS = (0.5, 1.0, 2.0)
NETWORKS = {
    "letter": [(), (16,), (64,), (256,), (64, 32)],
    "california": [(), (16,), (64,), (256,), (64, 32)],
    "digits": [(), (64,)],
    "covertype": [(), (64,)],
    "made up": [(), (64,)],
}
ABOUT = """\
Test accuracy (R² for california) at ε = {epsilon:g}, δ = {delta:g}, add_remove, with ½, 1 and 2 times the default
number of steps T; means of {seeds} seeds, and the least and most of the middle one."""


def digits() -> tuple[Any, ...]:
    """scikit-learn's digits, 64 pixels in [−1, 1], ten classes: few rows."""
    data = load_digits()
    return _split(data.data / 8.0 - 1.0, data.target, 10)


def covertype() -> tuple[Any, ...]:
    """60 000 rows of Covertype, of norm 1, class 2 against the rest."""
    data = load_covertype(60_000)
    return data.X, (data.y > 0).astype(int), data.X_test, (data.y_test > 0).astype(int), 2


def made_up() -> tuple[Any, ...]:
    """30 000 rows of 30 numbers in [−1, 1], five classes from a linear model."""
    rng = np.random.default_rng(5)
    X = np.clip(rng.normal(size=(30_000, 30)) / 3.0, -1.0, 1.0)
    scores = X @ (2.0 * rng.normal(size=(30, 5))) + rng.gumbel(size=(30_000, 5))
    return _split(X, scores.argmax(axis=1), 5)


def stored(name: str) -> tuple[Any, ...]:
    """A table of the comparison with other libraries."""
    table = load(name)
    return table.X, table.y, table.X_test, table.y_test, table.n_classes


def _split(X: Any, y: Any, n_classes: int) -> tuple[Any, ...]:
    order = np.random.default_rng(3).permutation(len(y))
    train, test = np.split(order, [len(y) * 4 // 5])
    return X[train], y[train], X[test], y[test], n_classes


LOADERS = {"digits": digits, "covertype": covertype, "made up": made_up}


def estimator(n: int, n_classes: int, **more: Any) -> Any:
    """A network at its defaults but for what is given."""
    common = {"epsilon": EPSILON, "delta": DELTA, "adjacency": "add_remove", "n": n, **more}
    if n_classes:
        return PrivateMLPClassifier(classes=list(range(n_classes)), **common)
    return PrivateMLPRegressor(target_bound=1.0, **common)


def main() -> None:
    """Print one line per table and network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=tuple(NETWORKS), default=list(NETWORKS), help="by default all")
    parser.add_argument("--seeds", type=int, default=3, help="fits of each kind")
    arguments = parser.parse_args()
    print(ABOUT.format(epsilon=EPSILON, delta=DELTA, seeds=arguments.seeds))
    print("| table | hidden layers | rows | T | ½ T | T | 2 T |\n|---|---|---|---|---|---|---|", flush=True)
    for name in arguments.tables:
        try:
            X, y, X_test, y_test, n_classes = LOADERS[name]() if name in LOADERS else stored(name)
        except Absent as absent:
            print(absent)
            continue
        for layers in NETWORKS[name]:
            model = estimator(len(y), n_classes, hidden_layer_sizes=layers)
            default = model.plan(*X.shape).calibrated.plan.n_steps
            scores = [
                [
                    estimator(
                        len(y), n_classes, hidden_layer_sizes=layers, random_state=seed,
                        solver=DPAdam(n_steps=round(factor * default)),
                    ).fit(X, y).score(X_test, y_test)
                    for seed in range(arguments.seeds)
                ]
                for factor in FACTORS
            ]  # fmt: skip
            few, own, many = (np.mean(found) for found in scores)
            spread = f"({min(scores[1]):.3f} … {max(scores[1]):.3f})"
            shown = " ".join(map(str, layers)) or "none"
            print(
                f"| {name} | {shown} | {len(y)} | {default} | {few:.3f} | {own:.3f} {spread} | {many:.3f} |", flush=True
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
