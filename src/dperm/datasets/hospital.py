"""Admissions of a hospital that does not exist: made up from a seed, with patients who come several times.

What is assumed, so that a model can be compared with the truth:

- A patient has an age (a mixture of younger and older adults), a sex, one group of diagnoses, and a frailty u from
  N(0, 0.5²) that no column shows. All admissions of a patient share these four.
- An admission has a type, a ward that follows from the diagnosis for four patients of five, a length of stay and a
  level of creatinine in the blood (µmol/l), which was not measured in 12 % of the emergencies and 35 % of the others.
- The log odds of being readmitted within 30 days are the sum of `INTERCEPT`, `PER_DECADE` for each ten years above 65,
  the effects of type and diagnosis below, `PER_DOUBLED_STAY` for each doubling of 1 + days,
  `PER_DOUBLED_CREATININE` for each doubling of creatinine from 90 on, `PER_EARLIER_ADMISSION` for each of up to five
  earlier admissions, and u. Sex and ward have no effect of their own.
- A readmitted patient has a further row. Any other comes back later in the year with a probability of
  `COMES_BACK`. Nobody has more than `MOST_ADMISSIONS` rows.
"""

from dataclasses import replace
from importlib.resources import as_file, files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.tables import Tables
from dperm.schema import load_schema

INTERCEPT = -3.9
PER_DECADE = 0.3
PER_DOUBLED_STAY = 0.4
PER_DOUBLED_CREATININE = 0.7
PER_EARLIER_ADMISSION = 0.5
EFFECT_OF_TYPE = {"emergency": 0.6, "urgent": 0.2, "planned": -0.5}
EFFECT_OF_DIAGNOSIS = {
    "heart": 0.8, "lungs": 0.6, "kidneys": 0.4, "cancer": 1.0, "digestive": 0.0, "nerves": 0.0, "injury": -0.8,
    "other": -0.3,
}  # fmt: skip
FRAILTY = 0.5
COMES_BACK = 0.3
MOST_ADMISSIONS = 25

_SHARE_OF_TYPE = [0.5, 0.2, 0.3]
_SHARE_OF_DIAGNOSIS = [0.18, 0.14, 0.06, 0.12, 0.16, 0.08, 0.14, 0.12]
_WARDS = ["medicine", "surgery", "cardiology", "oncology", "neurology"]
_WARD_OF_DIAGNOSIS = np.array([2, 0, 0, 3, 1, 4, 1, 0])


def make_hospital(n_patients: int, seed: int) -> Any:
    """Draw the admissions of patients; the module says by which rules.

    Parameters
    ----------
    n_patients : int
        Patients; they have about 1.7 admissions each.
    seed : int
        Decides everything.

    Examples
    --------
    >>> make_hospital(1000, seed=0).column_names[:4]
    ['patient_id', 'age', 'sex', 'admission_type']
    """
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    older = rng.random(n_patients) < 0.65
    patients = {
        "patient_id": np.array([f"P{number:07d}" for number in rng.choice(10_000_000, n_patients, replace=False)]),
        "age": np.clip(
            np.where(older, rng.normal(70, 12, n_patients), rng.normal(42, 12, n_patients)), 18, 100
        ).round(),
        "sex": rng.choice(["female", "male"], n_patients),
        "diagnosis": rng.choice(len(EFFECT_OF_DIAGNOSIS), n_patients, p=_SHARE_OF_DIAGNOSIS),
        "frailty": rng.normal(0.0, FRAILTY, n_patients),
    }
    present, rounds = np.arange(n_patients), []
    for earlier in range(MOST_ADMISSIONS):
        rows = _admissions({name: values[present] for name, values in patients.items()}, earlier, rng)
        rounds.append(rows)
        returns = (rows["readmitted"] == "yes") | (rng.random(present.size) < COMES_BACK)
        present = present[returns]
    order = rng.permutation(sum(rows["age"].size for rows in rounds))
    return pa.table(
        {
            name: pa.array(values[order], mask=np.isnan(values[order]) if values.dtype == np.float64 else None)
            for name, values in ((name, np.concatenate([rows[name] for rows in rounds])) for name in rounds[0])
        }
    )


def load_hospital(n_patients: int = 30_000, n_test_patients: int = 10_000, seed: int = 2024) -> Tables:
    """Make up a table to fit, one of other patients to test on, and the schema of both.

    Parameters
    ----------
    n_patients, n_test_patients : int
        Patients of the two tables.
    seed : int
        Decides everything.

    Examples
    --------
    >>> load_hospital(n_patients=1000, n_test_patients=100).schema.n
    1000
    """
    with as_file(files("dperm.datasets") / "hospital.toml") as path:
        schema = replace(load_schema(path), n=n_patients)
    table = make_hospital(n_patients + n_test_patients, seed)
    ids = table["patient_id"].to_numpy().astype(str)
    is_fitted = np.isin(ids, np.unique(ids)[:n_patients])  # ids are numbers drawn at random, and tell nothing else
    return Tables(schema, table.filter(is_fitted), table.filter(~is_fitted))


def _admissions(patients: dict[str, NDArray[Any]], earlier: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """One admission of each patient, and whether it is followed by another within 30 days."""
    n = patients["age"].size
    kind = rng.choice(len(EFFECT_OF_TYPE), n, p=_SHARE_OF_TYPE)
    ward = np.where(rng.random(n) < 0.8, _WARD_OF_DIAGNOSIS[patients["diagnosis"]], rng.integers(0, len(_WARDS), n))
    days = np.clip(rng.lognormal(1.3 + 0.3 * (kind == 0), 0.8), 0, 90).round()
    creatinine = np.clip(np.where(patients["diagnosis"] == 2, 170, 85) * rng.lognormal(0.0, 0.35, n), 20, 900).round()
    log_odds = (
        INTERCEPT
        + PER_DECADE * (patients["age"] - 65.0) / 10.0
        + np.array(list(EFFECT_OF_TYPE.values()))[kind]
        + np.array(list(EFFECT_OF_DIAGNOSIS.values()))[patients["diagnosis"]]
        + PER_DOUBLED_STAY * np.log2(1.0 + days)
        + PER_DOUBLED_CREATININE * np.log2(creatinine / 90.0)
        + PER_EARLIER_ADMISSION * min(earlier, 5)
        + patients["frailty"]
    )
    readmitted = rng.random(n) < 1.0 / (1.0 + np.exp(-log_odds))
    measured = rng.random(n) >= np.where(kind == 0, 0.12, 0.35)
    return {
        "patient_id": patients["patient_id"],
        "age": patients["age"].astype(np.int64),
        "sex": patients["sex"],
        "admission_type": np.array(list(EFFECT_OF_TYPE))[kind],
        "ward": np.array(_WARDS)[ward],
        "diagnosis": np.array(list(EFFECT_OF_DIAGNOSIS))[patients["diagnosis"]],
        "length_of_stay": days.astype(np.int64),
        "earlier_admissions": np.full(n, earlier),
        "creatinine": np.where(measured, creatinine, np.nan),
        "readmitted": np.where(readmitted, "yes", "no"),
    }
