"""What a ledger does whatever database keeps it. A test file gives the fixture `ledger` and inherits the tests."""

import copy
import json
import pickle
import re
from datetime import date

import pytest
import sqlalchemy as sql
from dp_accounting import NoOpDpEvent
from sklearn.base import clone

from dperm import Budget, BudgetExceededError, Guarantee, InvalidParameterError, LedgerDamagedError, PrivacyUnit
from dperm.accounting.composition import epsilon_of
from dperm.accounting.curve import gaussian_mu
from dperm.accounting.events import Composed, Gaussian, NotPrivate, PoissonSampledGaussian, Pure, Repeated
from dperm.accounting.filter import Filter
from dperm.ledger import budgets
from dperm.ledger.tables import Entry, Ledger, canonical
from dperm.privacy.guarantee import Adjacency

REPLACE_ONE, ADD_REMOVE = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
GUARANTEE = Guarantee(3.0, 1e-5)
GAUSSIAN = Gaussian(20.0)
SAMPLED = Repeated(PoissonSampledGaussian(0.01, 20.0), 100)

COLUMNS = {
    "dperm_entries": ("dataset", "number", "kind", "written_on", "content", "digest"),
    "dperm_budgets": ("dataset", "entries", "head"),
}


def run_sql(ledger, *statements):
    """Do to a ledger what dperm never would."""
    engine = sql.create_engine(ledger if "://" in ledger else f"sqlite:///{ledger}", poolclass=sql.NullPool)
    with engine.begin() as connection:
        for statement, *values in statements:
            connection.execute(sql.text(statement), *values)


def rows(ledger):
    engine = sql.create_engine(ledger if "://" in ledger else f"sqlite:///{ledger}", poolclass=sql.NullPool)
    with engine.connect() as connection:
        return {
            table: [dict(line) for line in connection.execute(sql.text(f"SELECT * FROM {table}")).mappings()]
            for table in COLUMNS
        }


def put_back(ledger, saved):
    """Replace everything by what `rows` gave earlier, as restoring a copy does."""
    for table, columns in COLUMNS.items():
        values = ", ".join(f":{column}" for column in columns)
        insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"
        run_sql(ledger, (f"DELETE FROM {table}",), *((insert, line) for line in saved[table]))


def multiplier_of(guarantee, releases=1):
    """The noise with which so many Gaussian releases spend this guarantee, and hardly less.

    Several have the share of δ that is for Gaussians alone.
    """
    share = 1.0 if releases == 1 else Filter.of(guarantee).gaussian
    mu = gaussian_mu(Guarantee(guarantee.epsilon, share * guarantee.delta))
    return REPLACE_ONE.records_moved * releases**0.5 / mu * (1.0 + 1e-9)


def filled(ledger):
    """A budget with two settled releases and one that is only reserved."""
    budget = Budget.create("adult", GUARANTEE, ledger=ledger)
    for fingerprint in ("first", "second"):
        budget.reserve(GAUSSIAN, REPLACE_ONE).settle(fingerprint)
    budget.reserve(GAUSSIAN, REPLACE_ONE)
    return budget


class LedgerBehaviour:
    def test_a_budget_for_a_unit_takes_no_release_that_protects_single_rows(self, ledger):
        budget = Budget.create("visits", GUARANTEE, ledger=ledger, unit="patient_id")
        with pytest.raises(InvalidParameterError, match="protects unit 'patient_id' and this release single rows"):
            budget.reserve(GAUSSIAN, REPLACE_ONE)
        budget.reserve(GAUSSIAN, REPLACE_ONE, PrivacyUnit("patient_id", 5))
        assert (budget.account().unit, len(budget.account().releases)) == ("patient_id", 1)

    def test_ten_equal_releases_cost_less_than_ten_times_one(self, ledger):
        budget = Budget.create("adult", GUARANTEE, ledger=ledger)
        for _ in range(10):
            budget.reserve(GAUSSIAN, REPLACE_ONE)
        account = budget.account()
        alone = epsilon_of(GAUSSIAN, 1e-5, REPLACE_ONE)
        assert [release.epsilon for release in account.releases] == [alone] * 10
        assert account.composed == epsilon_of(Repeated(GAUSSIAN, 10), 1e-5, REPLACE_ONE)
        assert account.spent == account.filtered
        assert account.composed < account.spent < 1.1 * account.composed < 0.5 * 10 * alone
        budget.check(Pure(account.left), REPLACE_ONE, delta=0.0)

    def test_sampled_releases_are_composed_too(self, ledger):
        budget = Budget.create("adult", GUARANTEE, ledger=ledger)
        budget.reserve(SAMPLED, REPLACE_ONE)
        one = budget.account()
        assert one.spent == one.composed == epsilon_of(SAMPLED, 1e-5, REPLACE_ONE)
        budget.reserve(Composed([SAMPLED, GAUSSIAN]), REPLACE_ONE)
        two = budget.account()
        assert one.composed < two.composed < 2 * one.composed + epsilon_of(GAUSSIAN, 1e-5, REPLACE_ONE)
        assert two.composed < two.spent == two.filtered < GUARANTEE.epsilon

    def test_more_fits_if_all_releases_are_fixed_in_advance(self, ledger):
        looks = Budget.create("looks", GUARANTEE, ledger=ledger)
        fixed = Budget.create("fixed", GUARANTEE, ledger=ledger, fixed_in_advance=True)
        first, second = Composed([SAMPLED, Gaussian(4.0)]), Gaussian(4.5)
        for budget in (looks, fixed):
            assert budget.reserve(first, REPLACE_ONE).fixed_in_advance == (budget is fixed)
        fixed.reserve(second, REPLACE_ONE)
        with pytest.raises(BudgetExceededError, match="would make it"):
            looks.reserve(second, REPLACE_ONE)
        for budget in (looks, fixed):
            account = budget.account()
            assert account.spent == (account.composed if budget is fixed else account.filtered) <= GUARANTEE.epsilon
        assert fixed.account().filtered > GUARANTEE.epsilon

    def test_releases_that_are_fixed_in_advance_cost_what_they_cost_together(self, ledger):
        budget = Budget.create("fixed", GUARANTEE, ledger=ledger, fixed_in_advance=True)
        for _ in range(20):
            assert budget.reserve(GAUSSIAN, REPLACE_ONE).fixed_in_advance
        account = budget.account()
        assert account.rule.fixed_in_advance
        assert account.spent == account.composed
        assert account.composed == pytest.approx(epsilon_of(Repeated(GAUSSIAN, 20), 1e-5, REPLACE_ONE), rel=1e-12)

    def test_the_numbers_of_the_filter_are_kept_with_the_budget(self, ledger):
        budget = Budget.create("adult", GUARANTEE, ledger=ledger)
        first = json.loads(rows(ledger)["dperm_entries"][0]["content"])
        assert first["filter"] == Filter.of(GUARANTEE).numbers()
        assert budget.account().rule.filter == Filter.of(GUARANTEE)

    def test_the_whole_budget_fits_and_then_nothing_does(self, ledger):
        budget = Budget.create("adult", GUARANTEE, ledger=ledger)
        whole = Gaussian(multiplier_of(GUARANTEE))
        budget.check(whole, REPLACE_ONE)
        budget.reserve(whole, REPLACE_ONE)
        before = rows(ledger)
        for refused in (budget.check, budget.reserve):
            with pytest.raises(BudgetExceededError, match=r"no further Gaussian release fits"):
                refused(Gaussian(1e4), REPLACE_ONE)
        assert rows(ledger) == before
        assert budget.account().largest(1e-5) == 0.0

    def test_a_refusal_says_what_the_budget_is_and_what_still_fits(self, ledger):
        budget = filled(ledger)
        before = rows(ledger)
        with pytest.raises(BudgetExceededError) as refused:
            budget.reserve(Gaussian(2.0), REPLACE_ONE)
        words = r"the budget 'adult' is ε = 3 at δ = 1e-05 under replace_one, of which ε = (\S+) is spent, and this "
        words += r"release would make it ε = (\S+); one further Gaussian release of at most ε = (\S+) at this δ fits\."
        spent, would_be, largest = map(float, re.fullmatch(words, str(refused.value)).groups())
        assert rows(ledger) == before
        account = budget.account()
        assert account.spent <= spent < 1.001 * account.spent
        assert would_be > 3.0
        assert 0.999 * account.largest(1e-5) < largest <= account.largest(1e-5)
        budget.reserve(Gaussian(multiplier_of(Guarantee(largest, 1e-5))), REPLACE_ONE)

    def test_the_largest_further_release_fits_and_a_little_more_does_not(self, ledger):
        budget = filled(ledger)
        for delta in (1e-5, 1e-7, 1e-3):
            largest = budget.account().largest(delta)
            budget.check(Gaussian(multiplier_of(Guarantee(largest, delta))), REPLACE_ONE)
            with pytest.raises(BudgetExceededError):
                budget.check(Gaussian(multiplier_of(Guarantee(1.001 * largest, delta))), REPLACE_ONE)

    def test_a_check_writes_nothing(self, ledger):
        budget = filled(ledger)
        before = rows(ledger)
        budget.check(GAUSSIAN, REPLACE_ONE)
        assert rows(ledger) == before

    def test_what_is_not_private_is_refused(self, ledger):
        budget = filled(ledger)
        before = rows(ledger)
        for event in (NotPrivate(), Composed([GAUSSIAN, NotPrivate()])):
            with pytest.raises(BudgetExceededError, match="infinite: it is not private"):
                budget.reserve(event, REPLACE_ONE)
        for event in (NoOpDpEvent(), Composed([]), "gaussian", Gaussian(0.0)):
            with pytest.raises(InvalidParameterError):
                budget.reserve(event, REPLACE_ONE)
        assert rows(ledger) == before

    def test_a_pure_budget_pays_for_pure_releases_only(self, ledger):
        budget = Budget.create("pure", Guarantee(1.0, 0.0), "add_remove", ledger)
        budget.reserve(Pure(0.25), ADD_REMOVE)
        budget.reserve(Pure(0.25), ADD_REMOVE)
        assert budget.account().spent == pytest.approx(0.5)
        assert budget.account().largest(0.0) == pytest.approx(0.5, rel=1e-3)
        with pytest.raises(BudgetExceededError, match="pure release of at most"):
            budget.reserve(GAUSSIAN, ADD_REMOVE)
        budget.reserve(Pure(0.25), ADD_REMOVE)
        budget.reserve(Pure(0.25), ADD_REMOVE)
        with pytest.raises(BudgetExceededError, match="no further pure release fits"):
            budget.reserve(Pure(0.01), ADD_REMOVE)

    def test_a_fit_about_other_tables_is_refused(self, ledger):
        budget = filled(ledger)
        for refused in (budget.check, budget.reserve):
            with pytest.raises(
                InvalidParameterError, match=r"for adjacency replace_one and this release for add_remove"
            ):
                refused(GAUSSIAN, ADD_REMOVE)

    def test_a_name_that_has_a_budget_is_refused_and_nothing_changes(self, ledger):
        filled(ledger)
        before = rows(ledger)
        with pytest.raises(InvalidParameterError, match="there is a budget 'adult'"):
            Budget.create("adult", Guarantee(100.0, 1e-5), ledger=ledger)
        assert rows(ledger) == before

    def test_budgets_of_one_ledger_do_not_mix(self, ledger):
        filled(ledger)
        other = Budget.create("Ünï 'quoted' -- name", GUARANTEE, "add_remove", ledger)
        other.reserve(GAUSSIAN, ADD_REMOVE)
        assert [len(budget.account().releases) for budget in budgets(ledger)] in ([3, 1], [1, 3])
        assert {budget.dataset for budget in budgets(ledger)} == {"adult", other.dataset}

    def test_a_missing_budget_says_how_to_make_one(self, ledger):
        for others in (False, True):
            if others:
                filled(ledger)
            with pytest.raises(
                InvalidParameterError, match=r"there is no budget 'my rows' in .*create 'my rows' --epsilon 3"
            ):
                Budget("my rows", ledger).account()
            with pytest.raises(InvalidParameterError, match="there is no budget"):
                Budget("my rows", ledger).reserve(GAUSSIAN, REPLACE_ONE)

    def test_states_are_kept_and_a_reservation_without_settlement_counts(self, ledger):
        budget = filled(ledger)
        account = budget.account()
        assert [release.fingerprint for release in account.releases] == ["first", "second", None]
        assert [not release.is_settled for release in account.releases] == [False, False, True]
        assert account.composed == epsilon_of(Repeated(GAUSSIAN, 3), 1e-5, REPLACE_ONE)
        assert date.fromisoformat(account.created)
        assert account.adjacency is REPLACE_ONE

    def test_a_release_is_settled_once_and_then_confirmed(self, ledger):
        budget = filled(ledger)
        reservation = budget.reserve(GAUSSIAN, REPLACE_ONE)
        number, digest = reservation.number, reservation.digest
        with pytest.raises(LedgerDamagedError, match="was never settled"):
            budget.confirm(number, digest, "mine")
        reservation.settle("mine")
        budget.confirm(number, digest, "mine")
        with pytest.raises(InvalidParameterError, match="is already settled"):
            reservation.settle("other")
        for wrong in ((number, digest, "other"), (number, "0" * 64, "mine"), (99, digest, "mine"), (0, digest, "mine")):
            with pytest.raises(LedgerDamagedError):
                budget.confirm(*wrong)

    def test_a_budget_survives_copies_and_pickles(self, ledger):
        budget = filled(ledger)
        twins = [
            copy.copy(budget),
            copy.deepcopy(budget),
            pickle.loads(pickle.dumps(budget)),
            clone(budget, safe=False),
        ]
        for twin in twins:
            assert twin == budget
            twin.reserve(GAUSSIAN, REPLACE_ONE)
        reservation = pickle.loads(pickle.dumps(budget.reserve(GAUSSIAN, REPLACE_ONE)))
        reservation.settle("from a pickle")
        assert len(budget.account().releases) == 3 + len(twins) + 1

    @pytest.mark.one_case_in(4)
    @pytest.mark.parametrize("number", range(6))
    @pytest.mark.parametrize("column", COLUMNS["dperm_entries"])
    def test_an_edited_entry_is_noticed(self, ledger, column, number):
        budget = filled(ledger)
        value = {"number": 77, "dataset": "other", "digest": "0" * 64, "kind": "x", "written_on": "x", "content": "{}"}
        statement = f"UPDATE dperm_entries SET {column} = :value WHERE number = :number"
        run_sql(ledger, (statement, {"value": value[column], "number": number}))
        self.is_damaged(budget)

    @pytest.mark.parametrize(("column", "value"), [("dataset", "other"), ("entries", 5), ("entries", 7), ("head", "x")])
    def test_an_edited_budget_is_noticed(self, ledger, column, value):
        budget = filled(ledger)
        run_sql(ledger, (f"UPDATE dperm_budgets SET {column} = :value", {"value": value}))
        self.is_damaged(budget)

    def test_a_larger_guarantee_is_noticed(self, ledger):
        budget = filled(ledger)
        content = {**json.loads(rows(ledger)["dperm_entries"][0]["content"]), "epsilon": 300.0}
        run_sql(ledger, ("UPDATE dperm_entries SET content = :c WHERE number = 0", {"c": json.dumps(content)}))
        self.is_damaged(budget, "entry 0")

    @pytest.mark.parametrize("number", range(6))
    def test_a_missing_entry_is_noticed(self, ledger, number):
        budget = filled(ledger)
        run_sql(ledger, ("DELETE FROM dperm_entries WHERE number = :number", {"number": number}))
        self.is_damaged(budget)

    def test_a_missing_row_or_table_is_noticed(self, ledger):
        budget = filled(ledger)
        run_sql(ledger, ("DELETE FROM dperm_budgets",))
        self.is_damaged(budget)
        with pytest.raises(InvalidParameterError, match="there is a budget 'adult'"):
            Budget.create("adult", GUARANTEE, ledger=ledger)
        run_sql(ledger, ("DROP TABLE dperm_budgets",))
        self.is_damaged(budget)

    def test_entries_that_are_cut_off_are_noticed_even_if_the_count_is_set_right(self, ledger):
        budget = filled(ledger)
        head = rows(ledger)["dperm_entries"][3]["digest"]
        run_sql(ledger, ("DELETE FROM dperm_entries WHERE number > 3",))
        self.is_damaged(budget, "entry 4")
        run_sql(ledger, ("UPDATE dperm_budgets SET entries = 4, head = :head", {"head": head}))
        self.is_damaged(budget, "older copy was restored")

    def test_an_inserted_entry_is_noticed(self, ledger):
        budget = filled(ledger)
        insert = "INSERT INTO dperm_entries SELECT dataset, 6, kind, written_on, content, digest FROM dperm_entries "
        run_sql(ledger, (insert + "WHERE number = 5",))
        self.is_damaged(budget, "entry 6")

    def test_reordered_entries_are_noticed(self, ledger):
        budget = filled(ledger)
        swap = "UPDATE dperm_entries SET number = :new WHERE number = :old"
        run_sql(ledger, *((swap, {"old": old, "new": new}) for old, new in ((1, 90), (3, 1), (90, 3))))
        self.is_damaged(budget, "entry 1")

    def test_an_older_copy_is_noticed_also_after_others_went_on_with_it(self, ledger, tmp_path, monkeypatch):
        budget = filled(ledger)
        saved = rows(ledger)
        last = budget.reserve(GAUSSIAN, REPLACE_ONE)
        put_back(ledger, saved)
        self.is_damaged(budget, "older copy was restored")
        with monkeypatch.context() as elsewhere:  # a machine that has not seen the newest entry
            elsewhere.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
            for _ in range(3):
                budget.reserve(SAMPLED, REPLACE_ONE)
            with pytest.raises(LedgerDamagedError):
                budget.confirm(last.number, last.digest, "mine")
        self.is_damaged(budget, "older copy was restored")

    @pytest.mark.parametrize(
        "change",
        [
            {"id": "../../x"},
            {"id": None},
            {"epsilon": -1.0},
            {"adjacency": "none"},
            {"unit": 3},
            {"unit": ""},
            {"filter": None},
            {"filter": {"order": 1}},
        ],
    )
    def test_a_creation_that_makes_no_sense_is_noticed_though_its_digest_is_right(self, ledger, change):
        budget = Budget.create("adult", GUARANTEE, ledger=ledger)
        first = rows(ledger)["dperm_entries"][0]
        first["content"] = canonical({**json.loads(first["content"]), **change})
        first["digest"] = Entry(**first).expected_digest("")
        put_back(
            ledger,
            {
                "dperm_entries": [first],
                "dperm_budgets": [{"dataset": "adult", "entries": 1, "head": first["digest"]}],
            },
        )
        self.is_damaged(budget, "entry 0")

    def test_entries_that_make_no_sense_are_noticed_though_their_digests_are_right(self, ledger):
        budget = filled(ledger)
        with Ledger(ledger).open("adult") as chain:
            chain.append("settled", {"reservation": 1, "fingerprint": "again"})
        self.is_damaged(budget, "entry 6")

    def is_damaged(self, budget, words="entry"):
        """Every use says so in one sentence, and changes nothing."""
        before = rows(budget.ledger) if "dperm_budgets" in self.tables(budget.ledger) else None
        event = (GAUSSIAN, REPLACE_ONE)
        uses = (budget.account, lambda: budget.check(*event), lambda: budget.reserve(*event))
        for use in uses:
            with pytest.raises(LedgerDamagedError) as damaged:
                use()
            message = str(damaged.value)
            assert message.startswith("the budget 'adult' in ")
            assert words in message
            assert "nothing was spent" in message
            assert "secret" not in message
        if before:
            assert rows(budget.ledger) == before

    @staticmethod
    def tables(ledger):
        engine = sql.create_engine(ledger if "://" in ledger else f"sqlite:///{ledger}", poolclass=sql.NullPool)
        return sql.inspect(engine).get_table_names()
