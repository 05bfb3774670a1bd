"""The made-up hospital of docs/case_hospital.md: AUC of private fits on all test admissions, and without privacy.

    python benchmarks/hospital.py [--fits 5]

Every fit has the six columns and the ε of the last fit of the page. The second column takes at most two admissions of a
patient, chosen at random, as the page's evaluation does.
"""

import argparse
from dataclasses import replace

import numpy as np
from sklearn.metrics import roc_auc_score

from dperm import PrivateLogisticRegression
from dperm.datasets.hospital import load_hospital
from dperm.demo.without_privacy import is_second, linear_on_bins

EPSILON, DELTA = 0.8557, 1e-6
LEFT_OUT = {"sex", "ward"}


def main() -> None:
    """Print both AUC, median and range over fits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=5)
    fits = parser.parse_args().fits
    data = load_hospital()
    columns = {name: column for name, column in data.schema.columns.items() if name not in LEFT_OUT}
    schema, truth = replace(data.schema, columns=columns), is_second(data, data.test)
    chosen = at_most_two(data.test["patient_id"].to_numpy())
    model = PrivateLogisticRegression(EPSILON, DELTA, schema=schema, row_warnings=False)
    decisions = [model.fit(data.train).decision_function(data.test) for _ in range(fits)]
    for name, found in {
        f"private, ε = {EPSILON}, {fits} fits": decisions,
        "no privacy, all columns": [linear_on_bins(data)],
    }.items():
        everybody, two = ([roc_auc_score(truth[rows], one[rows]) for one in found] for rows in (slice(None), chosen))
        print(f"{name:<28} AUC on all test admissions {spread(everybody)}, on at most two of a patient {spread(two)}")


def at_most_two(ids: np.ndarray) -> np.ndarray:
    """Which rows to keep: at most two of every patient, chosen at random."""
    order = np.random.default_rng(0).permutation(ids.size)
    shuffled = np.argsort(ids[order], kind="stable")
    patients = ids[order][shuffled]
    starts = np.flatnonzero(np.r_[True, patients[1:] != patients[:-1]])
    places = np.arange(ids.size) - np.repeat(starts, np.diff([*starts, ids.size]))
    return order[shuffled[places < 2]]


def spread(values: list[float]) -> str:
    """Median, least and largest."""
    return f"{np.median(values):.3f} ({min(values):.3f} … {max(values):.3f})"


if __name__ == "__main__":
    main()
