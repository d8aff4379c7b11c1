"""The database on bad ground: each failure is one line with the way out, and nothing is left half-written."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, insert, select

from results import database
from results.database import Database
from results.errors import ResultsError, StoreUnavailable
from results.schema import META

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mlrc.db"


def refusal(url_or_path: str | Path) -> str:
    with pytest.raises(ResultsError) as caught:
        Database(str(url_or_path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@contextmanager
def without_privileges() -> Iterator[None]:
    """Permissions do not bind root, so root steps down for a moment."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, with no private folder above it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    assert f"{tmp_path}: is a folder; the store wants a file, such as {tmp_path / 'mlrc.db'}." == refusal(tmp_path)
    assert "is a folder" in refusal(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("loss 0.25\n" * 100)
    assert "not a database; it is another kind of file; choose another path." in refusal(file)
    assert file.read_text() == "loss 0.25\n" * 100
    assert list(tmp_path.iterdir()) == [file]


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "its folder cannot be used (" in refusal(tmp_path / "file" / "mlrc.db")


def test_a_folder_without_permission_is_refused(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    with without_privileges():
        assert "unable to open database file; check that the file and its folder" in refusal(open_folder / "mlrc.db")
        assert "its folder cannot be used (Permission denied)" in refusal(open_folder / "runs" / "mlrc.db")
    assert list(open_folder.iterdir()) == []


def test_a_file_without_permission_is_refused(open_folder: Path) -> None:
    file = open_folder / "mlrc.db"
    Database(str(file)).close()
    file.chmod(0)
    with without_privileges():
        assert "unable to open database file; check that the file" in refusal(file)


def test_a_store_in_a_folder_that_may_only_be_read_is_refused_and_is_whole_afterwards(open_folder: Path) -> None:
    file = open_folder / "mlrc.db"
    opened = Database(str(file))
    keep(opened, "a", "x")
    opened.close()
    file.chmod(0o444)
    open_folder.chmod(0o555)
    with without_privileges():
        assert "check that the file and its folder may be" in refusal(file)
    open_folder.chmod(0o755)
    file.chmod(0o644)
    assert kept(Database(str(file))) == {"schema": "1", "a": "x"}


def test_a_store_of_a_newer_version_is_refused(path: Path) -> None:
    Database(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE mlrc_meta SET value = '2' WHERE key = 'schema'")
    connection.close()
    assert refusal(path) == f"{path}: store schema 2; this code reads up to 1. Update the package."


def keep(opened: Database, key: str, value: str) -> None:
    opened.write(lambda connection: connection.execute(insert(META).values(key=key, value=value)))


def kept(opened: Database) -> dict[str, str]:
    return opened.read(lambda connection: {row.key: row.value for row in connection.execute(select(META))})


def test_a_full_disk_is_an_error_of_one_line_and_leaves_nothing_half_written(path: Path) -> None:
    opened = Database(str(path))
    keep(opened, "short", "x")
    limit = "PRAGMA max_page_count = 1"  # SQLite then says what it says when the disk is full
    event.listen(opened._engine, "begin", lambda connection: connection.exec_driver_sql(limit))
    with pytest.raises(StoreUnavailable, match=r"disk is full; nothing was written; free some space, then") as caught:
        keep(opened, "long", "x" * 100_000)
    assert "\n" not in str(caught.value)
    again = Database(str(path))
    assert kept(again) == {"schema": "1", "short": "x"}
    keep(again, "long", "x" * 100_000)


def test_a_write_that_fails_half_way_is_undone(path: Path) -> None:
    opened = Database(str(path))

    def work(connection: Connection) -> None:
        connection.execute(insert(META).values(key="first", value="x"))
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        opened.write(work)
    assert kept(opened) == {"schema": "1"}


def test_a_lock_that_never_ends_is_an_error_of_one_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.3)
    opened = Database(str(path))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="database is locked; another program has held it"):
        keep(opened, "a", "x")
    assert kept(opened) == {"schema": "1"}  # a reader is not held up
    holder.close()
    keep(opened, "a", "x")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql+psycopg://me:s3cret@host:port/db", "cannot be parsed"),
        ("postgresql+psycopg://me:p@s3cret@127.0.0.1:1/db", "an @ too many; in a user or password, write it as %40"),
        ("sqlite://me:s3cret@host/mlrc.db", "a SQLite store is a file and has no user or host"),
        ("nosuch://me:s3cret@host/db?password=s3cret", "a database of SQLite or PostgreSQL, not 'nosuch'"),
        ("mysql+pymysql://me:s3cret@127.0.0.1:1/db?password=s3cret", ""),  # no driver, or nobody there
        ("postgresql+psycopg://me:s3cret@127.0.0.1:1/db?password=s3cret", ""),
    ],
)
def test_a_password_is_in_no_message(url: str, message: str) -> None:
    said = refusal(url)
    assert message in said
    assert "s3cret" not in said


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_store_in_memory_is_refused(url: str) -> None:
    assert "would be lost; name a file" in refusal(url)
