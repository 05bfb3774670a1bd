"""The made-up hospital: patients come back as its page says, and the outcome has the effects that are stated."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from dperm.datasets import hospital
from dperm.datasets.hospital import load_hospital, make_hospital


@pytest.fixture(scope="module")
def admissions():
    return make_hospital(40_000, seed=5).to_pandas()


def test_a_seed_decides_everything():
    assert make_hospital(50, seed=1).equals(make_hospital(50, seed=1))
    assert not make_hospital(50, seed=1).equals(make_hospital(50, seed=2))


def test_test_patients_are_other_patients_drawn_in_the_same_way():
    data = load_hospital(500, 200, seed=3)
    assert data.schema.n == 500
    fitted, tested = (set(table["patient_id"].to_pylist()) for table in (data.train, data.test))
    assert (len(fitted), len(tested), len(fitted & tested)) == (500, 200, 0)
    assert data.train.column_names == data.test.column_names
    declared = {*data.schema.columns, data.schema.target.column, data.schema.unit.name}
    assert set(data.train.column_names) == declared


def test_admissions_of_a_patient_are_numbered_and_readmission_is_followed_by_another(admissions):
    admissions = admissions.sort_values("earlier_admissions")
    by_patient = admissions.groupby("patient_id")
    assert (by_patient.cumcount() == admissions["earlier_admissions"]).all()
    rows = by_patient["patient_id"].transform("size")
    assert rows.max() <= hospital.MOST_ADMISSIONS
    is_last = admissions["earlier_admissions"] == rows - 1
    followed = ~is_last | (rows == hospital.MOST_ADMISSIONS)
    assert followed[admissions["readmitted"] == "yes"].all()
    came_back = followed[(admissions["readmitted"] == "no") & (rows < hospital.MOST_ADMISSIONS)]
    # Some 50 000 admissions: five standard errors of a share of 0.3.
    assert came_back.mean() == pytest.approx(hospital.COMES_BACK, abs=0.011)
    assert (by_patient["diagnosis"].nunique() == 1).all()


def test_the_outcome_has_the_effects_that_are_stated(monkeypatch):
    """Without the frailty that no column shows, first admissions with creatinine are a plain logistic regression."""
    monkeypatch.setattr(hospital, "FRAILTY", 0.0)
    rows = make_hospital(60_000, seed=6).to_pandas().query("earlier_admissions == 0").dropna()
    columns = {
        "age": (rows["age"] - 65) / 10,
        "days": np.log2(1 + rows["length_of_stay"]),
        "creatinine": np.log2(rows["creatinine"] / 90),
        "male": rows["sex"] == "male",
    }
    stated = {
        "age": hospital.PER_DECADE,
        "days": hospital.PER_DOUBLED_STAY,
        "creatinine": hospital.PER_DOUBLED_CREATININE,
        "male": 0.0,
    }
    for effects, column in ((hospital.EFFECT_OF_TYPE, "admission_type"), (hospital.EFFECT_OF_DIAGNOSIS, "diagnosis")):
        for name in list(effects)[1:]:  # relative to the first
            columns[name], stated[name] = rows[column] == name, effects[name] - next(iter(effects.values()))
    for name in ("surgery", "cardiology", "oncology", "neurology"):
        columns[name], stated[name] = rows["ward"] == name, 0.0
    X = pd.DataFrame(columns).astype(float)
    found = LogisticRegression(C=np.inf, max_iter=1000).fit(X, rows["readmitted"])
    Z = np.column_stack([X, np.ones(len(X))])
    chance = found.predict_proba(X)[:, 1]
    errors = np.sqrt(np.diag(np.linalg.inv((Z * (chance * (1 - chance))[:, None]).T @ Z)))[:-1]
    # 18 effects: one in 10 000 tables has one that is 4.5 standard errors off.
    assert np.abs((found.coef_[0] - list(stated.values())) / errors).max() < 4.5
