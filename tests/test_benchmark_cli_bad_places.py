"""A store or an --out that cannot be used, and a full disk: one line, exit 2, nothing lost and nothing half made."""

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Command, Outcome, folds_in, lines_of, options

from results.store import Store

# --- the store and --out


def test_a_store_that_is_a_folder_is_refused(mlrc: Command, images: Path, tmp_path: Path) -> None:
    for command in (["run", "untrained", *options(images, tmp_path)], ["report", "--store", tmp_path]):
        assert "is a folder; the store wants a file" in mlrc(*command).refusal()


def test_a_store_that_is_another_kind_of_file_is_left_as_it_is(mlrc: Command, images: Path, tmp_path: Path) -> None:
    other = tmp_path / "thesis.txt"
    other.write_text("Not a database. " * 100)
    for command in (["run", "untrained", *options(images, other)], ["status", "--store", other]):
        assert "another kind of file; choose another path" in mlrc(*command).refusal()
    assert other.read_text() == "Not a database. " * 100


def test_a_store_of_a_newer_schema_is_refused_by_every_command(mlrc: Command, suite: list[str], store: Path) -> None:
    mlrc("run", "untrained", *suite)
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE mlrc_meta SET value = '2' WHERE key = 'schema'")
    for command in (["run", "untrained", *suite], ["report", "--store", store], ["status", "--store", store]):
        assert "store schema 2; this code reads up to 1. Update the package." in mlrc(*command).refusal()


def test_trials_of_another_version_of_optuna_are_refused(mlrc: Command, suite: list[str], store: Path) -> None:
    mlrc("run", "contrastive", *suite)
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v99'")
    assert "optuna" in mlrc("run", "contrastive", *suite).refusal()


def test_a_store_that_is_not_there_is_not_made_by_a_question(mlrc: Command, store: Path) -> None:
    for address in (store, f"sqlite:///{store}"):
        for command in ("report", "status"):
            assert "no store there yet; mlrc run makes one" in mlrc(command, "--store", address).refusal()
    assert not store.exists()


def test_a_database_on_a_server_is_asked_and_not_looked_for_as_a_file(mlrc: Command) -> None:
    for command in ("report", "status"):
        said = mlrc(command, "--store", "postgresql+psycopg://me:secret@localhost:1/x").refusal()
        assert said.startswith("postgresql+psycopg://me:***@localhost:1/x: ")
        assert "no store there yet" not in said


def test_a_question_writes_nothing_into_an_empty_file_or_anothers_database(mlrc: Command, tmp_path: Path) -> None:
    empty, foreign = tmp_path / "empty.db", tmp_path / "foreign.db"
    empty.touch()
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE notes (text)")
    before = foreign.read_bytes()
    for file in (empty, foreign):
        for command in (["report"], ["status"], ["record"], ["export", "out"]):
            assert "no store there yet" in mlrc(*command, "--store", file).refusal()
    assert empty.read_bytes() == b""
    assert foreign.read_bytes() == before


def test_a_report_of_an_empty_store_says_so(mlrc: Command, store: Path) -> None:
    Store.open(str(store)).close()
    assert "nothing is recorded there yet" in mlrc("report", "--store", store).refusal()


def test_a_password_is_never_printed(mlrc: Command, images: Path) -> None:
    for address in ("postgresql+psycopg://me:secret@localhost:1/x", "nosuch://me:secret@localhost/x"):
        assert "secret" not in mlrc("run", "untrained", *options(images, address)).refusal()


@pytest.mark.parametrize("out", ["a file", "/proc/nowhere/x"])
def test_an_out_that_cannot_be_written_costs_no_run(mlrc: Command, suite: list[str], tmp_path: Path, out: str) -> None:
    (tmp_path / "a file").write_text("x")
    assert "cannot be written" in mlrc("run", "untrained", *suite, "--out", out).refusal()
    assert not (tmp_path / "store.db").exists() or folds_in(tmp_path / "store.db") == []


def test_a_place_that_takes_no_file_is_found_before_anything_is_printed(
    mlrc: Command, suite: list[str], store: Path, tmp_path: Path
) -> None:
    assert mlrc("run", "untrained", *suite).code == 0
    (tmp_path / "a file").write_text("x")
    for command in (["report", "--out"], ["report", "--reproduction", "--out"], ["export"]):
        said = mlrc(*command, "a file", "--store", store).refusal()
        assert said.startswith("a file: cannot be written, as ")
        assert said.endswith("is a file; name a folder.")


# --- a full disk, as a limit on the size of a file


@contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_under_out_leaves_no_half_file_and_the_report_can_be_made_again(
    mlrc: Command, suite: list[str], store: Path, tmp_path: Path
) -> None:
    whole = mlrc("run", "untrained", *suite, "--out", tmp_path / "whole")
    for n_bytes in (0, 500, 3000, 20_000):
        with largest_file(n_bytes):
            full = mlrc("report", "--store", store, "--out", tmp_path / "full")
        assert full.code == 2
        assert "cannot be written" in lines_of(full)[-1]
        for path in (tmp_path / "full").iterdir():
            assert path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes()
    again = mlrc("report", "--store", store, "--out", tmp_path / "full")
    assert again.code == 0
    assert again.out == whole.out
    assert len(list((tmp_path / "full").iterdir())) == 6


LIMITED = """
import resource, sys
import benchmark.workshop, reports.rehearsal  # torch wants a temporary file while it is imported
from benchmark.cli import main

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
main(sys.argv[2:])
"""


def test_a_full_disk_under_the_store_loses_nothing(mlrc: Command, images: Path, tmp_path: Path) -> None:
    def arguments(store: Path) -> list[str]:
        return ["run", "untrained", "contrastive", *options(images, store), "--json"]

    def here(store: Path, n_bytes: int) -> Outcome:
        with largest_file(n_bytes):
            return mlrc(*arguments(store))

    def in_a_process(store: Path, n_bytes: int) -> Outcome:
        """Slower, and needed once there are claims: those of a process that lives are waited for."""
        command = [sys.executable, "-c", LIMITED, str(n_bytes), *arguments(store)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120)
        return Outcome(done.returncode, done.stdout, done.stderr)

    whole = mlrc(*arguments(tmp_path / "whole.db"))
    full_at = {"tables": (8, 2, here), "Optuna's tables": (150, 3, in_a_process), "trials": (420, 3, in_a_process)}
    for at, (kilobytes, code, run) in full_at.items():
        store = tmp_path / f"{at}.db"
        full = run(store, 1024 * kilobytes)
        assert full.code == code, (at, full.err)
        assert full.out == ""
        said = lines_of(full)[-1]
        assert said.startswith(f"error: {store}: ")
        assert "run the same command again" in said
        kept = {record.id for record in folds_in(store)}
        resumed = mlrc(*arguments(store))
        assert resumed.code == 0, (at, resumed.err)
        assert kept <= {record.id for record in folds_in(store)}
        assert resumed.json == whole.json


def test_a_reader_that_has_read_enough_ends_the_command_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmark", "protocols", "--json"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(command, cwd=tmp_path, stdout=pipe, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (141, b"")
