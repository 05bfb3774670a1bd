"""The same ledger in a PostgreSQL server, which is started for the tests where there is one."""

import itertools

import pytest
import sqlalchemy as sql

from dperm import Budget, DpermError
from dperm.ledger.tables import Ledger
from ledger.behaviour import GAUSSIAN, GUARANTEE, REPLACE_ONE, LedgerBehaviour, filled, multiplier_of, run_sql
from ledger.processes import make_budgets, race

pytestmark = pytest.mark.usefixtures("own_folders")

NUMBERS = itertools.count()


@pytest.fixture
def ledger(postgresql_server):
    """A database of the test's own."""
    name = f"ledger_{next(NUMBERS)}"
    engine = sql.create_engine(f"{postgresql_server}/postgres", isolation_level="AUTOCOMMIT", poolclass=sql.NullPool)
    with engine.connect() as connection:
        connection.execute(sql.text(f"CREATE DATABASE {name}"))
    return f"{postgresql_server}/{name}"


class TestInPostgresql(LedgerBehaviour):
    pass


def test_processes_spend_exactly_what_fits(ledger):
    budget = Budget.create("adult", GUARANTEE, ledger=ledger)
    assert race(budget, 25, multiplier_of(GUARANTEE, releases=9)) == ["refused"] * 16 + ["reserved"] * 9
    assert len(budget.account().releases) == 9
    assert budget.account().spent <= GUARANTEE.epsilon


def test_a_wrong_password_user_or_database_is_one_sentence(ledger):
    for wrong in (ledger.replace("secret-of", "other-secret"), ledger.replace("tester", "nobody"), ledger + "_missing"):
        with pytest.raises(DpermError, match="cannot be reached") as error:
            Budget("adult", wrong).account()
        assert "secret" not in str(error.value)
        assert "\n" not in str(error.value)


def with_rights(ledger, name, *grants):
    """The ledger as another user sees it who has these rights and no others."""
    user = f"{name}_{ledger.rsplit('_', 1)[1]}"
    run_sql(
        ledger, (f"CREATE ROLE {user} LOGIN PASSWORD 'secret'",), *((f"GRANT {grant} TO {user}",) for grant in grants)
    )
    return ledger.replace("tester:secret-of-tests", f"{user}:secret")


def test_whoever_may_only_read_can_look_and_not_spend(ledger):
    filled(ledger)
    reader = Budget("adult", with_rights(ledger, "reader", "SELECT ON dperm_budgets, dperm_entries"))
    assert len(reader.account().releases) == 3
    reader.check(GAUSSIAN, REPLACE_ONE)
    with pytest.raises(DpermError, match="cannot be accessed by this user"):
        reader.reserve(GAUSSIAN, REPLACE_ONE)


def test_whoever_may_add_entries_can_spend_and_not_make_budgets(ledger):
    filled(ledger)
    theirs = with_rights(ledger, "analyst", "SELECT, INSERT ON dperm_entries", "SELECT, UPDATE ON dperm_budgets")
    Budget("adult", theirs).reserve(GAUSSIAN, REPLACE_ONE).settle("theirs")
    assert len(Budget("adult", ledger).account().releases) == 4
    with pytest.raises(DpermError, match="cannot be accessed by this user"):
        Budget.create("another", GUARANTEE, ledger=theirs)


def test_many_processes_can_make_the_first_budget(ledger):
    assert make_budgets(ledger, GUARANTEE, 8) == ["made"] + ["refused"] * 7


def test_a_lock_that_is_not_given_back_is_one_sentence(ledger, monkeypatch):
    budget = filled(ledger)
    monkeypatch.setattr("dperm.ledger.tables._SECONDS_TO_WAIT_FOR_A_LOCK", 1)
    with Ledger(ledger).open("adult"):
        with pytest.raises(DpermError, match="is locked by another process"):
            budget.reserve(GAUSSIAN, REPLACE_ONE)
        assert len(budget.account().releases) == 3  # looking needs no lock


def test_a_read_only_server_is_one_sentence(ledger):
    filled(ledger)
    name = ledger.rsplit("/", 1)[1]
    run_sql(ledger, (f"ALTER DATABASE {name} SET default_transaction_read_only = on",))
    assert len(Budget("adult", ledger).account().releases) == 3
    with pytest.raises(DpermError, match="the server is read-only"):
        Budget("adult", ledger).reserve(GAUSSIAN, REPLACE_ONE)
