"""A budget is for one unit: what is charged to it must protect the same one, a private count of rows as well."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dperm import (
    Budget,
    Guarantee,
    InvalidParameterError,
    PrivacyUnit,
    PrivateLogisticRegression,
    load_model,
    rows_per_unit,
    save_model,
)
from dperm.accounting.events import Gaussian, event_to_list
from dperm.files.model_file import read_content
from dperm.kernel.rows_per_unit import FEWEST_ROWS, cells_of_units
from dperm.kernel.units import Membership
from dperm.mechanisms.cell_counts import CellCounts
from dperm.mechanisms.cell_counts.answer import counted
from dperm.mechanisms.setting import PublicTable
from dperm.privacy.guarantee import Adjacency
from dperm.verify.release import verify

pytestmark = pytest.mark.usefixtures("own_folders")

PATIENT, EVENT, SIDE = PrivacyUnit("patient_id", 5), Gaussian(10.0), Adjacency.REPLACE_ONE


@pytest.fixture
def ledger(tmp_path):
    return str(tmp_path / "ledger.db")


def by_patient(ledger):
    return Budget.create("visits", Guarantee(3.0, 1e-5), ledger=ledger, unit="patient_id")


def test_a_budget_says_whom_it_protects(ledger):
    account = by_patient(ledger).account()
    assert account.unit == "patient_id"
    assert account.summary.endswith("(δ = 1e-05, replace_one, unit patient_id)")
    assert Budget.create("rows", Guarantee(3.0, 1e-5), ledger=ledger).account().unit is None


@pytest.mark.parametrize("unit", [None, PrivacyUnit("visit_id", 5), PrivacyUnit("Patient_id", 5)])
def test_a_release_that_protects_somebody_else_is_refused_and_nothing_is_spent(unit, ledger):
    budget = by_patient(ledger)
    for charge in (budget.check, budget.reserve):
        with pytest.raises(
            InvalidParameterError, match=r"protects unit 'patient_id' and this release .*cannot be composed"
        ):
            charge(EVENT, SIDE, unit)
    assert budget.account().releases == ()


def test_a_release_that_protects_a_unit_is_refused_by_a_budget_for_rows(ledger):
    budget = Budget.create("rows", Guarantee(3.0, 1e-5), ledger=ledger)
    with pytest.raises(InvalidParameterError, match="protects single rows and this release unit 'patient_id'"):
        budget.reserve(EVENT, SIDE, PATIENT)


def test_max_rows_may_differ_from_release_to_release(ledger):
    budget = by_patient(ledger)
    for unit in (
        PATIENT,
        PrivacyUnit("patient_id", 50),
        PrivacyUnit("patient_id", contribution="average", missing="ignore"),
    ):
        budget.reserve(EVENT, SIDE, unit)
    assert len(budget.account().releases) == 3


@pytest.mark.parametrize("name", ["", " ", 3, "a\nb", "x" * 300])
def test_what_cannot_be_the_name_of_a_unit_is_refused(name, ledger):
    with pytest.raises(InvalidParameterError, match="unit must be"):
        Budget.create("visits", Guarantee(3.0, 1e-5), ledger=ledger, unit=name)


def test_a_fit_by_rows_is_refused_before_a_row_is_read(ledger):
    X, y = np.zeros((50, 2)), np.arange(50) % 2
    with pytest.raises(InvalidParameterError, match="protects unit 'patient_id' and this release single rows"):
        PrivateLogisticRegression(1.0, 1e-6, classes=[0, 1], budget=by_patient(ledger)).fit(X, y)


def test_a_release_is_confirmed_by_a_budget_that_protects_the_same(ledger, tmp_path):
    budget, ids = by_patient(ledger), np.arange(60) // 2
    asked = {"classes": [0, 1], "solver": "dp-gd", "row_warnings": False, "unit": "patient_id"}
    model = PrivateLogisticRegression(1.0, 1e-6, max_rows_per_unit=2, **asked, budget=budget)
    save_model(model.fit(np.zeros((60, 2)), np.arange(60) % 2, groups=ids), tmp_path / "model.json")
    found = verify(read_content(tmp_path / "model.json"), ledger)
    assert found[-1].holds, found[-1].text
    assert load_model(tmp_path / "model.json").privacy_.unit == PrivacyUnit("patient_id", 2)


# --- a private count of rows ---


def numbers_of(sizes):
    """Units with so many rows each, the rows of all of them mixed."""
    numbers = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.default_rng(3).permutation(numbers).astype(np.int64)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("distribution", ["Gaussian", "Laplace"])
def test_one_unit_moves_the_counts_by_all_that_is_declared_and_no_more(adjacency, distribution):
    query = CellCounts(PublicTable(7, adjacency), "units", (len(FEWEST_ROWS),), distribution)
    order = 2 if distribution == "Gaussian" else 1
    others, sizes = [1, 1, 2, 9, 40, 200], (*FEWEST_ROWS, 4, 9, 1000)

    def counts(*mine):
        whose = Membership(
            PrivacyUnit("u", contribution="average"), numbers_of([*others, *mine]), len(others) + len(mine)
        )
        return counted(query, cells_of_units(whose))

    if adjacency is Adjacency.REPLACE_ONE:
        moved = [np.linalg.norm(counts(one) - counts(two), order) for one in sizes for two in sizes]
    else:
        moved = [np.linalg.norm(counts(one) - counts(), order) for one in sizes]
    assert 0.95 * query.sensitivity < max(moved) <= query.sensitivity


def test_every_unit_is_in_the_cell_of_its_number_of_rows():
    sizes = [1, 2, 3, 4, 5, 9, 10, 19, 20, 49, 50, 99, 100, 5000]
    whose = Membership(PrivacyUnit("u", contribution="average"), numbers_of(sizes), len(sizes))
    assert cells_of_units(whose)[:, 0].tolist() == [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]


def test_a_private_count_of_rows_is_charged_with_its_unit_and_settled(ledger):
    frame = pd.DataFrame({"patient_id": np.repeat(np.arange(2000), 4), "x": 0.0})
    budget = by_patient(ledger)
    found = rows_per_unit(frame, "patient_id", epsilon=0.5, delta=1e-6, budget=budget)
    (release,) = budget.account().releases
    assert release.is_settled
    assert event_to_list(release.event) == event_to_list(found.event_)
    assert found.privacy_.unit.name == "patient_id"
    assert found.privacy_.n == 2000
    assert "unit: one patient, with all of its rows" in str(found)
    # A Gaussian beyond seven deviations: one time in 10¹¹.
    assert abs(found.counts[2] - 2000) < 7 * found.deviation
    assert found.rows_used(2) == pytest.approx(2.0, abs=0.2)
    with pytest.raises(InvalidParameterError, match="protects unit 'patient_id'"):
        rows_per_unit(frame.rename(columns={"patient_id": "u"}), "u", epsilon=0.5, budget=budget)


@pytest.mark.parametrize("table", [pd.DataFrame, pa.table, pl.DataFrame])
def test_tables_of_all_kinds_are_counted(table):
    found = rows_per_unit(table({"u": [7, 7, 7, 8, None] * 200, "x": [0.0] * 1000}), "u", epsilon=50.0, random_state=0)
    assert [round(number, -1) for number in found.counts] == [200, 0, 0, 0, 0, 0, 0, 0]
    assert found.privacy_.n == 202


def test_its_noise_is_that_of_the_guarantee_for_one_unit_replaced():
    found = rows_per_unit(np.arange(500), "u", epsilon=0.25, random_state=1)
    assert found.deviation == pytest.approx(math.sqrt(2.0) * 2.0 / 0.25, rel=1e-9)
    assert found.privacy_.certified_epsilon <= 0.25 * (1 + 1e-9)
    assert not found.privacy_.for_release
    repeated = rows_per_unit(np.arange(500), "u", epsilon=0.25, random_state=1)
    assert repeated.counts == found.counts


@pytest.mark.parametrize("more", [{"adjacency": "add_remove"}, {"missing_units": "ignore"}])
def test_a_number_of_units_that_is_private_is_to_be_declared(more):
    with pytest.raises(InvalidParameterError, match="declare n"):
        rows_per_unit(np.arange(50), "u", epsilon=1.0, **more)
    assert rows_per_unit(np.arange(50), "u", epsilon=1.0, n=51, random_state=0, **more).privacy_.n == 51


def test_rows_without_an_id_are_units_of_their_own_or_ignored():
    ids = np.array([1, 1, 1, None, None, "", float("nan")] * 300, dtype=object)
    separate = rows_per_unit(ids, "u", epsilon=5.0, random_state=0)
    assert separate.counts[0] == pytest.approx(1200, abs=30)
    ignored = rows_per_unit(ids, "u", epsilon=5.0, random_state=0, missing_units="ignore", n=2)
    assert ignored.counts[0] == pytest.approx(0, abs=30)
    assert ignored.counts[-1] == pytest.approx(1, abs=30)


@pytest.mark.parametrize(
    ("ids", "unit", "words"),
    [
        (pd.DataFrame({"x": [1.0]}), "u", "there is no column 'u'"),
        (np.zeros((3, 3, 3)), "u", "groups must be one id per row"),
        (np.arange(3), "", "unit must be the name"),
        (np.arange(3), 7, "unit must be the name"),
    ],
)
def test_what_has_no_ids_is_refused(ids, unit, words):
    with pytest.raises(InvalidParameterError, match=words):
        rows_per_unit(ids, unit, epsilon=1.0)
