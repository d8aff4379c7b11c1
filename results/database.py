"""One SQL database shared by many processes: opening it, our tables, transactions that wait their turn, plain errors.

SQLite is the default and has one writer at a time. Three things keep "database is locked" away: write-ahead logging, so
that a reader never blocks a writer; BEGIN IMMEDIATE for writes, because SQLite cannot wait when a transaction that has
read turns to writing; and a busy timeout with retries around it. Tables carry the prefix `mlrc_`, since Optuna
keeps its own in the same database. A password in the URL never appears in a message.
"""

import os
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from results.errors import ResultsError

SCHEMA = 1  # of our tables as a whole; a record's own schema is in the record
BUSY_TIMEOUT_S = 60.0
LONGEST_PAUSE_S = 1.0
N_INSERT_ATTEMPTS = 5  # two processes that insert the same row: the loser looks again and finds it

Result = TypeVar("Result")

TABLES = MetaData()
META = Table("mlrc_meta", TABLES, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False))
RECORDS = Table(
    "mlrc_records",
    TABLES,
    Column("id", String(64), primary_key=True),
    Column("kind", String(8), nullable=False),
    Column("protocol_title", Text, nullable=False),
    Column("protocol_digest", String(64), nullable=False),
    Column("dataset_name", Text, nullable=False),
    Column("dataset_hash", String(128), nullable=False),
    Column("split_digest", String(128), nullable=False),
    Column("method", Text, nullable=False),
    Column("method_code", Text, nullable=False),
    Column("purpose", String(8), nullable=False),
    Column("run", Integer, nullable=False),
    Column("fold", Integer, nullable=True),  # null for the record of a run
    Column("outcome", String(8), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("body", Text, nullable=False),  # the record as `results.record.to_json` writes it
    Index("mlrc_records_by_fingerprint", "protocol_digest", "dataset_hash", "split_digest"),
)
STUDIES = Table(
    "mlrc_studies",
    TABLES,
    Column("id", String(64), primary_key=True),  # hash of the five columns below
    Column("protocol_digest", String(64), nullable=False),
    Column("dataset_hash", String(128), nullable=False),
    Column("split_digest", String(128), nullable=False),
    Column("method", Text, nullable=False),
    Column("method_code", Text, nullable=False),
    Column("body", Text, nullable=False),  # the study as JSON
)
CLAIMS = Table(
    "mlrc_claims",
    TABLES,
    Column("name", String(512), primary_key=True),
    Column("owner", String(320), nullable=False),
    Column("beat_at", Double, nullable=False),  # seconds since 1970 by the owner's clock
)


class Database:
    """An open database. Safe to use from threads and after a fork."""

    def __init__(self, url_or_path: str) -> None:
        """Open or create it; a plain path is a SQLite file, whose folder is created.

        Raises:
            ResultsError: if it cannot be opened, is no database, or was written by a newer version.
        """
        self.url = database_url(url_or_path)
        self.place = _place(self.url)
        self._engine = _engine(self.url, self.place)
        self._pid = os.getpid()
        self._jitter = random.Random()  # of its own, so that waiting never shifts anybody's random numbers
        if not self.read(lambda connection: inspect(connection).has_table(META.name)):
            self.write(_create_tables)
        found = self.read(lambda connection: connection.scalar(select(META.c.value).where(META.c.key == "schema")))
        if found is None or not found.isdecimal() or int(found) > SCHEMA:
            raise ResultsError(
                f"{self.place}: store schema {found}; this code reads up to {SCHEMA}. Update the package."
            )

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """What `work` returns, from one consistent view of the database."""
        return self._attempt(work, {})

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """What `work` returns, run in one transaction: all of it happens, or nothing. It may be run more than once."""
        return self._attempt(work, {"mlrc_write": True})

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _attempt(self, work: Callable[[Connection], Result], options: dict[str, Any]) -> Result:
        if self._pid != os.getpid():  # forked: the parent's connections are not ours to use or to close
            self._engine.dispose(close=False)
            self._pid = os.getpid()
        deadline, pause_s, n_attempts = time.monotonic() + BUSY_TIMEOUT_S, 0.01, 0
        while True:
            n_attempts += 1
            try:
                with self._engine.connect().execution_options(**options) as connection, connection.begin():
                    return work(connection)
            except SQLAlchemyError as error:
                lost_race = isinstance(error, IntegrityError) and n_attempts < N_INSERT_ATTEMPTS
                if not lost_race and (not _is_contention(error) or time.monotonic() > deadline):
                    raise ResultsError(f"{self.place}: {_explained(error)}") from error
            time.sleep(pause_s * (0.5 + self._jitter.random()))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def database_url(url_or_path: str) -> URL:
    """The SQLAlchemy URL of a plain path or of a URL text; Optuna's storage takes the same one.

    Raises:
        ResultsError: if the text is no URL, or a SQLite URL that names no file.
    """
    if "://" not in url_or_path:
        return URL.create("sqlite", database=str(Path(url_or_path).expanduser()))
    try:
        url = make_url(url_or_path)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):  # neither is chained: both may quote the password
        raise ResultsError("the store's URL cannot be parsed; an example: sqlite:///runs/mlrc.db") from None
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise ResultsError("a store in memory would be lost; name a file, such as sqlite:///runs/mlrc.db")
    return url


def _place(url: URL) -> str:
    """How messages name the database: the file, or the address without password and options."""
    if url.get_backend_name() == "sqlite":
        return url.database or ""
    return url.set(query={}).render_as_string(hide_password=True)


def _engine(url: URL, place: str) -> Engine:
    is_sqlite = url.get_backend_name() == "sqlite"
    if is_sqlite:
        _prepare_folder(Path(place))
    arguments = {"timeout": BUSY_TIMEOUT_S, "isolation_level": None} if is_sqlite else {}
    try:
        engine = create_engine(url, connect_args=arguments, pool_pre_ping=not is_sqlite)
    except NoSuchModuleError:
        raise ResultsError(
            f"{place}: no database of kind {url.drivername!r}; known: sqlite, postgresql+psycopg."
        ) from None
    except ModuleNotFoundError as error:
        raise ResultsError(
            f"{place}: needs the Python module {error.name}; for PostgreSQL: pip install 'mlrc-harness[postgres]'."
        ) from None
    if is_sqlite:
        # The driver would begin a transaction at the first write only, and then cannot wait for its turn.
        event.listen(engine, "begin", _begin)
        event.listen(engine, "connect", _use_write_ahead_log)
    return engine


def _prepare_folder(path: Path) -> None:
    try:
        is_folder = path.is_dir()
        if not is_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultsError(f"{path}: its folder cannot be used ({error.strerror}); choose another path.") from error
    if is_folder:
        raise ResultsError(f"{path}: is a folder; the store wants a file, such as {path / 'mlrc.db'}.")


def _begin(connection: Connection) -> None:
    is_write = connection.get_execution_options().get("mlrc_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")


def _use_write_ahead_log(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA journal_mode=WAL")  # kept in the file; of no effect where it is set


def _create_tables(connection: Connection) -> None:
    TABLES.create_all(connection)
    if connection.scalar(select(META.c.value).where(META.c.key == "schema")) is None:
        connection.execute(insert(META).values(key="schema", value=str(SCHEMA)))


def _is_contention(error: SQLAlchemyError) -> bool:
    text = str(getattr(error, "orig", error)).lower()
    return any(
        sign in text for sign in ("database is locked", "database table is locked", "deadlock", "serialize access")
    )


def _explained(error: SQLAlchemyError) -> str:
    """The driver's first line and the way out. SQLAlchemy's own text would add the statement and its values."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    said = (str(cause).splitlines() or [type(cause).__name__])[0]
    ways_out = {
        "not a database": "it is another kind of file; choose another path",
        "malformed": "the file is damaged; restore a copy, or move it away to start anew",
        "unable to open": "check that the file and its folder may be read and written",
        "readonly": "check that the file and its folder may be written",
        "read-only": "check that the file and its folder may be written",
        "disk is full": "nothing was written; free some space and run the same command again",
        "disk i/o": "nothing was written; check the disk and its free space, then run the same command again",
        "locked": f"another program has held it for {BUSY_TIMEOUT_S:.0f} s; end that program and run again",
    }
    way_out = next((way for sign, way in ways_out.items() if sign in said.lower()), "check the store's address")
    return f"{said}; {way_out}."
