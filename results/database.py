"""One SQL database shared by many processes: opening it, transactions that wait their turn, plain errors.

SQLite is the default and has one writer at a time. Three things keep "database is locked" away: write-ahead logging, so
that a reader never blocks a writer; BEGIN IMMEDIATE for writes, because SQLite cannot wait when a transaction that has
read turns to writing; and a busy timeout with retries around it. A PostgreSQL server may go away and come back: a
store that was open waits for it, and says so through `logging`. A password in the URL never appears in a message.
"""

import logging
import os
import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)

from results.errors import ResultsError, StoreUnavailable
from results.schema import META, bring_up_to_date, is_current

BACKENDS = ("sqlite", "postgresql")
EXAMPLES = "examples: runs/mlrc.db, postgresql+psycopg://USER@HOST/NAME"
BUSY_TIMEOUT_S = 60.0
SERVER_AWAY_S = 600.0  # how long a server is waited for: longer than a restart takes
LONGEST_PAUSE_S = 1.0
N_RACES = 5  # two processes that insert the same row, or make the same table: the loser looks again and finds it
# What libpq is told, so that a server that is cut off is missed after a minute and not after hours.
LIBPQ = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "client_encoding": "utf8",
}

Result = TypeVar("Result")
log = logging.getLogger(__name__)


class Database:
    """An open database. Safe to use from threads and after a fork."""

    def __init__(self, url_or_path: str) -> None:
        """Open or create it; a plain path is a SQLite file, whose folder is created. An older one is migrated.

        Raises:
            ResultsError: if it cannot be opened, is no database, or was written by a newer version.
        """
        self.url = database_url(url_or_path)
        self.place = place(self.url)
        self._is_sqlite = self.url.get_backend_name() == "sqlite"
        self._is_open = False  # until then a server is not waited for: its address may be a slip of the pen
        self._engine = _engine(self.url, self.place)
        self._pid = os.getpid()
        self._jitter = random.Random()  # of its own, so that waiting never shifts anybody's random numbers
        if not self.read(lambda connection: is_current(connection, self.place)):
            self.write(lambda connection: bring_up_to_date(connection, self.place))
        self._is_open = True

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """What `work` returns, from one consistent view of the database. It may be run more than once."""
        return self._attempt(work, {} if self._is_sqlite else {"isolation_level": "REPEATABLE READ"}, True)

    def write(self, work: Callable[[Connection], Result], wait_for_server: bool = True) -> Result:
        """What `work` returns, run in one transaction: all of it happens, or nothing. It may be run more than once.

        Raises:
            StoreUnavailable: if the disk is full, the database held by another program for a minute, or its server
                away: at once unless it is to be waited for, else after ten minutes.
            ResultsError: if the database is damaged, or cannot take what `work` gives it.
        """
        return self._attempt(work, {"mlrc_write": True}, wait_for_server)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def explained(self, error: SQLAlchemyError) -> ResultsError:
        """What a failure of this database means, in one line. For those who use it through an engine of their own."""
        kind = StoreUnavailable if self._is_open and _is_passing(error) else ResultsError
        return kind(f"{self.place}: {_explained(error)}")

    def _attempt(self, work: Callable[[Connection], Result], options: dict[str, Any], wait_for_server: bool) -> Result:
        if self._pid != os.getpid():  # forked: the parent's connections are not ours to use or to close
            self._engine.dispose(close=False)
            self._pid = os.getpid()
        began, pause_s, was_away = time.monotonic(), 0.01, False
        for n_attempts in count(1):
            try:
                with self._engine.connect().execution_options(**options) as connection, connection.begin():
                    result = work(connection)
            except SQLAlchemyError as error:
                limit_s = self._worth_waiting_s(error, n_attempts, wait_for_server)
                if time.monotonic() - began >= limit_s:
                    raise self.explained(error) from error
                if limit_s == SERVER_AWAY_S and not was_away:
                    was_away = True
                    log.warning("%s: %s; waiting up to %.0f s for the server.", self.place, _said(error), limit_s)
            else:
                if was_away:
                    log.warning("%s: the server is back after %.0f s.", self.place, time.monotonic() - began)
                return result
            time.sleep(pause_s * (0.5 + self._jitter.random()))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        raise AssertionError("count has no end")

    def _worth_waiting_s(self, error: SQLAlchemyError, n_attempts: int, wait_for_server: bool) -> float:
        """How long after the first attempt there may be another."""
        if _is_lost_race(error):
            return BUSY_TIMEOUT_S if n_attempts < N_RACES else 0.0
        if _is_contention(error):
            return BUSY_TIMEOUT_S
        is_away = wait_for_server and self._is_open and not self._is_sqlite and _is_passing(error)
        return SERVER_AWAY_S if is_away else 0.0


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
        (url.host or "").encode("idna")  # as it will be when it is looked up
    except (ArgumentError, ValueError):  # neither is chained: both may quote the password
        raise ResultsError("the store's URL cannot be parsed; an example: sqlite:///runs/mlrc.db") from None
    if "@" in (url.host or ""):  # all after the first @ was taken for the host, and would be shown
        raise ResultsError("the store's URL has an @ too many; in a user or password, write it as %40.")
    if backend == "sqlite" and (url.host or url.username):
        raise ResultsError("a SQLite store is a file and has no user or host; an example: sqlite:///runs/mlrc.db")
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise ResultsError("a store in memory would be lost; name a file, such as sqlite:///runs/mlrc.db")
    return url


def lacks_store(file: Path) -> bool:
    """Whether a SQLite file, empty or somebody else's, has no store in it. Nothing is written."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (META.name,)).fetchone()
    except sqlite3.Error:
        return False  # opening it will say what is wrong
    return bool(found == (0,))


def place(url: URL) -> str:
    """How messages name the database: the file, or the address without password and options."""
    if url.get_backend_name() == "sqlite":
        return url.database or ""
    return url.set(query={}).render_as_string(hide_password=True)


def engine_arguments(url: URL) -> dict[str, Any]:
    """What `create_engine` is given beside the URL, by us and by Optuna's storage; the URL's own options win."""
    if url.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": BUSY_TIMEOUT_S}}
    told = LIBPQ if url.get_driver_name() == "psycopg" else {}
    return {"connect_args": {key: told[key] for key in told if key not in url.query}, "pool_pre_ping": True}


def _engine(url: URL, where: str) -> Engine:
    if url.get_backend_name() not in BACKENDS:
        raise ResultsError(
            f"{where}: a store is a database of SQLite or PostgreSQL, not {url.drivername!r}; {EXAMPLES}."
        )
    is_sqlite = url.get_backend_name() == "sqlite"
    if is_sqlite:
        _prepare_folder(Path(where))
    try:
        engine = create_engine(url, **engine_arguments(url))
    except NoSuchModuleError:
        raise ResultsError(f"{where}: no driver {url.drivername!r}; {EXAMPLES}.") from None
    except ModuleNotFoundError as error:
        raise ResultsError(
            f"{where}: needs the Python module {error.name}; write postgresql+psycopg://..., and pip install "
            "'mlrc-harness[postgres]'."
        ) from None
    if is_sqlite:
        event.listen(engine, "connect", _prepare_connection)
        event.listen(engine, "begin", _begin)
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


def _prepare_connection(connection: sqlite3.Connection, _record: object) -> None:
    # The driver would begin a transaction at the first write only, and then cannot wait for its turn.
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")  # kept in the file; of no effect where it is set


def _is_lost_race(error: SQLAlchemyError) -> bool:
    return isinstance(error, IntegrityError) or "already exists" in _said(error)


def _is_contention(error: SQLAlchemyError) -> bool:
    signs = (
        *("database is locked", "database table is locked", "deadlock", "serialize access"),
        *("too many clients", "connection slots are reserved"),
    )
    return any(sign in _said(error).lower() for sign in signs)


def _is_passing(error: SQLAlchemyError) -> bool:
    """Whether it is trouble of the machine, disk or network, and not of what was asked."""
    return isinstance(error, OperationalError) or (isinstance(error, DBAPIError) and error.connection_invalidated)


def _said(error: SQLAlchemyError) -> str:
    """The driver's first line. SQLAlchemy's own text would add the statement and its values."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    return (str(cause).splitlines() or [type(cause).__name__])[0]


def _explained(error: SQLAlchemyError) -> str:
    """The driver's first line and the way out."""
    said = _said(error)
    resume = "then run the same command again"
    ways_out = {
        "not a database": "it is another kind of file; choose another path",
        "malformed": "the file is damaged; restore a copy, or move it away to start anew",
        "unable to open": "check that the file and its folder may be read and written",
        "readonly": "check that the file and its folder may be written",
        "read-only": "check that it may be written",
        "disk is full": f"nothing was written; free some space, {resume}",
        "disk i/o": f"nothing was written; check the disk and its free space, {resume}",
        "no space left": f"nothing was written; free some space on the server, {resume}",
        "locked": f"another program has held it for {BUSY_TIMEOUT_S:.0f} s; end that program, {resume}",
        "authentication failed": "check user and password; PGPASSWORD or ~/.pgpass may hold the password",
        "no password supplied": "PGPASSWORD or ~/.pgpass may hold the password",
        "does not exist": "check the name of the database; createdb makes one",
        "permission denied": "its user must be allowed to make tables there",
        "connection failed": f"check that the server runs and can be reached, {resume}",
        "terminating connection": f"check that the server runs, {resume}",
        "closed the connection": f"check that the server runs, {resume}",
        "resolve": "check the name of the server",
    }
    way_out = next((way for sign, way in ways_out.items() if sign in said.lower()), "check the store's address")
    return f"{said}; {way_out}."
