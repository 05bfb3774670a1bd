"""Where budgets are kept: two tables of a database, the entries of a budget chained by their digests.

Entries are only ever added. The row of a budget says how many there are and which is the last. Every read verifies
the whole chain. Nothing is held between two calls: no connection, no lock, no state that a fork could copy.
"""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sql
from sqlalchemy import exc
from sqlalchemy.pool import NullPool

from dperm.disk import canonical
from dperm.errors import DpermError, InvalidParameterError, LedgerDamagedError
from dperm.ledger import witness
from dperm.ledger.places import without_password
from dperm.printable import one_line

_TABLES = sql.MetaData()
_BUDGETS = sql.Table(
    "dperm_budgets",
    _TABLES,
    sql.Column("dataset", sql.String(200), primary_key=True),
    sql.Column("entries", sql.Integer, nullable=False),
    sql.Column("head", sql.String(64), nullable=False),
)
_ENTRIES = sql.Table(
    "dperm_entries",
    _TABLES,
    sql.Column("dataset", sql.String(200), primary_key=True),
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("kind", sql.String(20), nullable=False),
    sql.Column("written_on", sql.String(10), nullable=False),
    sql.Column("content", sql.Text, nullable=False),
    sql.Column("digest", sql.String(64), nullable=False),
)

_SECONDS_TO_WAIT_FOR_A_LOCK = 600
_SECONDS_TO_WAIT_FOR_A_SERVER = 15


@dataclass(frozen=True)
class Entry:
    """One line of a budget's history; `content` is canonical JSON.

    `written_on` is a day, and that of a settlement is the day of its reservation: how long a release took can depend on
    the rows, as with a search that draws its number of trials, and the ledger is shown to others.
    """

    dataset: str
    number: int
    kind: str
    written_on: str
    content: str
    digest: str

    def follows(self, previous: str) -> bool:
        """Whether this is what was written after the entry of that digest."""
        try:
            return self.digest == self.expected_digest(previous)
        except TypeError:  # SQLite lets an editor put bytes where text was
            return False

    def expected_digest(self, previous: str) -> str:
        """SHA-256 of the canonical JSON of the digest before and of every other field."""
        fields = (previous, self.dataset, self.number, self.kind, self.written_on, self.content)
        return hashlib.sha256(canonical(fields).encode()).hexdigest()


class OpenChain:
    """The verified entries of a budget that no other process can add to while this is open."""

    def __init__(self, connection: sql.Connection, entries: Sequence[Entry]) -> None:
        self._connection = connection
        self.entries = tuple(entries)

    def append(self, kind: str, content: Mapping[str, Any], day: str | None = None) -> Entry:
        """Add an entry, of today unless another day is given; it is there for good once the chain is closed."""
        last = self.entries[-1]
        entry = _entry_after(last.digest, last.dataset, last.number + 1, kind, content, day)
        self._connection.execute(sql.insert(_ENTRIES).values(**asdict(entry)))
        row = sql.update(_BUDGETS).where(_BUDGETS.c.dataset == entry.dataset)
        self._connection.execute(row.values(entries=entry.number + 1, head=entry.digest))
        self.entries = (*self.entries, entry)
        return entry


class NoBudgetError(InvalidParameterError):
    """There is no budget of this name; `fact` says so without the remedy, which is not the same for everybody."""

    fact = ""


@dataclass(frozen=True)
class Ledger:
    """A database that holds budgets.

    Parameters
    ----------
    place : str
        A SQLAlchemy URL, or the path of a SQLite file.

    Examples
    --------
    >>> str(Ledger("postgresql+psycopg://ann:secret@db.example/ledger"))
    'postgresql+psycopg://ann:***@db.example/ledger'
    """

    place: str

    def __str__(self) -> str:
        return one_line(without_password(self.place))

    def create(self, dataset: str, content: Mapping[str, Any]) -> None:
        """Write the first entry of a budget, or raise if there is one of this name."""
        self._make_tables()
        entry = _entry_after("", dataset, 0, "created", content)
        with self._transaction(writes=True) as connection:
            row, entries = _rows(connection, dataset)
            if row is not None or entries:
                raise self._exists(dataset)
            try:
                connection.execute(sql.insert(_BUDGETS).values(dataset=dataset, entries=1, head=entry.digest))
                connection.execute(sql.insert(_ENTRIES).values(**asdict(entry)))
            except exc.IntegrityError:  # another process was faster
                raise self._exists(dataset) from None
        self._remember([entry])

    def read(self, dataset: str) -> tuple[Entry, ...]:
        """All entries of a budget, verified."""
        seen = witness.seen()  # before the entries are read: another process may add some in between
        if self.is_missing_file():
            raise self._no_budget(dataset)
        with self._transaction(writes=False) as connection:
            entries = self._verified(dataset, *_rows(connection, dataset), seen)
        self._remember(entries)
        return entries

    @contextmanager
    def open(self, dataset: str) -> Iterator[OpenChain]:
        """Lock a budget and verify it; what is appended is on disk when the block has ended without an error."""
        seen = witness.seen()
        if self.is_missing_file():
            raise self._no_budget(dataset)
        with self._transaction(writes=True) as connection:
            chain = OpenChain(connection, self._verified(dataset, *_rows(connection, dataset, lock=True), seen))
            yield chain
        self._remember(chain.entries)

    def datasets(self) -> tuple[str, ...]:
        """The names of all budgets."""
        if self.is_missing_file():
            return ()
        with self._transaction(writes=False) as connection:
            if not sql.inspect(connection).has_table(_BUDGETS.name):
                return ()
            return tuple(connection.scalars(sql.select(_BUDGETS.c.dataset).order_by(_BUDGETS.c.dataset)))

    def damaged(self, dataset: str, number: int, what: str) -> LedgerDamagedError:
        """The error for an entry that is not what it was."""
        return LedgerDamagedError(
            f"the budget {dataset!r} in {self} is damaged at entry {number}: {what}; nothing was spent, and nothing "
            "can be until the newest intact copy of the ledger is restored."
        )

    def _verified(
        self, dataset: str, row: Any, entries: Sequence[Entry], seen: Mapping[str, witness.Seen]
    ) -> tuple[Entry, ...]:
        if row is None and not entries:
            raise self._no_budget(dataset)
        previous = ""
        for number, entry in enumerate(entries):
            if entry.number != number:
                raise self.damaged(dataset, number, "it is missing")
            if not entry.follows(previous):
                raise self.damaged(dataset, number, "it, or an earlier entry, was edited")
            previous = entry.digest
        if row is None:
            raise self.damaged(dataset, 0, "the row of the budget is missing")
        if row.entries != len(entries) or row.head != previous:
            raise self.damaged(
                dataset, len(entries), "entries are missing or were added, or the row of the budget was edited"
            )
        try:
            identity = _identity(entries)
        except (ValueError, KeyError, TypeError):
            raise self.damaged(dataset, 0, "it does not create a budget") from None
        number, digest = seen.get(identity, (0, entries[0].digest))
        if number >= len(entries) or entries[number].digest != digest:
            raise self.damaged(
                dataset, number, "this machine has seen a different entry, so an older copy was restored"
            )
        return tuple(entries)

    def _remember(self, entries: Sequence[Entry]) -> None:
        last = entries[-1]
        witness.remember(_identity(entries), last.number, last.digest, last.dataset)

    def _exists(self, dataset: str) -> InvalidParameterError:
        return InvalidParameterError(
            f"there is a budget {dataset!r} in {self} already, and budgets cannot be changed; see dperm budget show "
            f"{shlex.quote(dataset)}."
        )

    def _no_budget(self, dataset: str) -> NoBudgetError:
        missing = ", and no such file" if self.is_missing_file() else ""
        fact = f"there is no budget {dataset!r} in {self}{missing}"
        create = f"dperm budget create {shlex.quote(dataset)} --epsilon 3 --delta 1e-5 [--ledger …]"
        error = NoBudgetError(f"{fact}; create one: {create}")
        error.fact = fact
        return error

    def is_missing_file(self) -> bool:
        """Whether it is a SQLite file that is not there."""
        url = self._url()
        return url.get_backend_name() == "sqlite" and not os.path.exists(str(url.database))

    def _url(self) -> sql.URL:
        try:
            is_url = "://" in self.place
            url = sql.make_url(self.place) if is_url else sql.URL.create("sqlite", database=self.place)
            url.get_dialect()
        except ModuleNotFoundError as error:
            raise self._no_driver(error) from None
        except (exc.SQLAlchemyError, ValueError):
            raise InvalidParameterError(
                f"the ledger {self} is not a database URL; pass the path of a SQLite file, or a URL such as "
                "postgresql+psycopg://user@host/name."
            ) from None
        if url.get_backend_name() == "sqlite" and (url.database in {None, "", ":memory:"} or "uri" in url.query):
            raise InvalidParameterError(
                f"the ledger {self} is not on disk; pass the path of a SQLite file, or sqlite:///path."
            )
        return url

    def _no_driver(self, error: ModuleNotFoundError) -> DpermError:
        return DpermError(
            f"the ledger {self} needs the database driver {error.name}, which is not installed; for PostgreSQL use "
            "postgresql+psycopg:// and pip install 'dperm[postgresql]'."
        )

    def _engine(self, writes: bool) -> sql.Engine:
        url = self._url()
        if url.get_backend_name() == "sqlite":
            waits = {"timeout": _SECONDS_TO_WAIT_FOR_A_LOCK}
            engine = sql.create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=waits)
            _begin_ourselves(engine, "BEGIN IMMEDIATE" if writes else "BEGIN")
            return engine
        # What is read under the lock must be the newest; what is read without one must be of one moment.
        level = "READ COMMITTED" if writes else "REPEATABLE READ"
        options: dict[str, Any] = {}
        if url.get_driver_name() in {"psycopg", "psycopg2"} and "connect_timeout" not in url.query:
            options["connect_timeout"] = _SECONDS_TO_WAIT_FOR_A_SERVER
        return sql.create_engine(
            url, poolclass=NullPool, hide_parameters=True, isolation_level=level, connect_args=options
        )

    @contextmanager
    def _transaction(self, writes: bool) -> Iterator[sql.Connection]:
        try:
            engine = self._engine(writes)
            with engine.begin() as connection:
                if writes and engine.dialect.name == "postgresql":
                    # Whatever the server's defaults are.
                    connection.exec_driver_sql("SET LOCAL synchronous_commit TO on")
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout TO '{_SECONDS_TO_WAIT_FOR_A_LOCK}s'")
                yield connection
        except ModuleNotFoundError as error:
            raise self._no_driver(error) from None
        except exc.SQLAlchemyError as error:
            # Without the cause: its text holds SQL, and perhaps more of the URL than may be shown.
            raise DpermError(f"the ledger {self} {_reason(error)}.") from None

    def _make_tables(self) -> None:
        try:
            with self._transaction(writes=True) as connection:
                _TABLES.create_all(connection)
        except DpermError:
            # Where two processes make the first budget of a server at once, one of them finds the tables now.
            with self._transaction(writes=True) as connection:
                _TABLES.create_all(connection)


def _entry_after(
    previous: str, dataset: str, number: int, kind: str, content: Mapping[str, Any], day: str | None = None
) -> Entry:  # fmt: skip
    entry = Entry(dataset, number, kind, day or today(), canonical(content), digest="")
    return Entry(**{**asdict(entry), "digest": entry.expected_digest(previous)})


def today() -> str:
    """The day in UTC: the finest time that a ledger holds."""
    return datetime.now(UTC).date().isoformat()


def _identity(entries: Sequence[Entry]) -> str:
    """The random id of a budget, by which machines remember it."""
    identity = json.loads(entries[0].content)["id"]
    if entries[0].kind != "created" or not re.fullmatch(r"[0-9a-f]{32}", identity):  # it becomes part of a file's name
        raise ValueError("id")
    return str(identity)


def _rows(connection: sql.Connection, dataset: str, lock: bool = False) -> tuple[Any, list[Entry]]:
    """The row of a budget and its entries in order, as they are found."""
    tables = sql.inspect(connection)
    row, entries = None, []
    if tables.has_table(_BUDGETS.name):
        query = sql.select(_BUDGETS).where(_BUDGETS.c.dataset == dataset)
        row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if tables.has_table(_ENTRIES.name):
        found = sql.select(_ENTRIES).where(_ENTRIES.c.dataset == dataset).order_by(_ENTRIES.c.number)
        entries = [Entry(**line._mapping) for line in connection.execute(found)]
    return row, entries


def _begin_ourselves(engine: sql.Engine, statement: str) -> None:
    """Take transactions out of the hands of Python's SQLite driver, which would begin them late."""

    @sql.event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = EXTRA")  # a commit that returned survives a loss of power
        connection.execute("PRAGMA fullfsync = ON")

    @sql.event.listens_for(engine, "begin")
    def on_begin(connection: sql.Connection) -> None:
        connection.exec_driver_sql(statement)


_SQLITE_REASONS = {
    "SQLITE_READONLY": "cannot be written: the file or its folder is read-only",
    "SQLITE_CANTOPEN": "cannot be opened: its folder must exist and be writable, and it must be a file",
    "SQLITE_NOTADB": "is not a SQLite database; pass another path",
    "SQLITE_CORRUPT": "is a damaged SQLite file; restore its newest intact copy",
    "SQLITE_BUSY": "is locked by another process; try again later",
    "SQLITE_FULL": "cannot be written: the disk is full",
}
_SQLSTATE_REASONS = {
    "23505": "was written by another process at the same moment; try again",
    "25006": "cannot be written: the server is read-only",
    "55P03": "is locked by another process; try again later",
    "42501": "cannot be accessed by this user; grant SELECT on its two tables, and INSERT and UPDATE to spend",
}
# SQLSTATE's classes for: no connection, invalid authorization, no such database, the server goes down.
_NO_CONNECTION = {"08", "28", "3D", "57"}


def _reason(error: exc.SQLAlchemyError) -> str:
    """What is wrong, in words of ours."""
    cause = getattr(error, "orig", None)
    name = "_".join((getattr(cause, "sqlite_errorname", None) or "").split("_")[:2])
    if name:
        return _SQLITE_REASONS.get(name, f"cannot be used ({name})")
    state = getattr(cause, "sqlstate", None)
    if state in _SQLSTATE_REASONS:
        return _SQLSTATE_REASONS[state]
    if isinstance(error, exc.OperationalError) and (state or "08")[:2] in _NO_CONNECTION:
        return "cannot be reached; check the server, host, port, user, password and database name"
    return f"cannot be used ({state or type(error).__name__})"
