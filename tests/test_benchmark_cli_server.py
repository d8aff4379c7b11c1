"""A suite whose store is on a PostgreSQL server that goes away in mid-run: it waits, or stops and goes on later.

The suite is one method's: two trials of two folds and a final run of two folds with its ensemble, 7 records.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from conftest import Command, Launch, Outcome, options, write_loss
from postgres import PASSWORD, PostgreSQL, postgresql
from slow_suite import BODY, n_begun, slow_forward
from sqlalchemy import delete
from tiny import without_timings

from benchmark import cli
from results import database
from results.record import FoldRecord
from results.schema import CLAIMS
from results.store import Store

FORWARD = slow_forward(0.05)
N_FOLDS = 6


@pytest.fixture
def server() -> Iterator[PostgreSQL]:
    running = postgresql()
    yield running
    running.start()


def command(folder: Path, address: object) -> list[str]:
    folder.mkdir(exist_ok=True)
    write_loss(folder / "slow.py", FORWARD, BODY)
    return ["run", "slow.py:Loss", *options("shapes:shifted?train=4&test=3", address), "--json"]


def folds(address: object) -> list[FoldRecord]:
    """The fold records without what may differ between two runs of one job."""
    with Store.open(str(address)) as store:
        return [without_timings(record) for record in store.records(kind="fold") if isinstance(record, FoldRecord)]


def read_until(stream: IO[str], wanted: str) -> str:
    said = ""
    while wanted not in said:
        line = stream.readline()
        assert line, said
        said += line
    return said


@pytest.fixture
def undisturbed(mlrc: Command, tmp_path: Path) -> tuple[Outcome, list[FoldRecord]]:
    """The suite on a SQLite file, with nothing in its way."""
    done = mlrc(*command(tmp_path, "undisturbed.db"))
    assert done.code == 0, done.err
    (tmp_path / "begun.txt").unlink()
    return done, folds(tmp_path / "undisturbed.db")


def test_a_run_waits_for_a_server_that_goes_away_and_ends_as_an_undisturbed_one(
    launch: Launch, server: PostgreSQL, tmp_path: Path, undisturbed: tuple[Outcome, list[FoldRecord]]
) -> None:
    address = server.url()
    process = launch(*command(tmp_path, address))
    assert process.stdout is not None
    assert process.stderr is not None
    while n_begun(tmp_path) < 3:  # in the second trial
        assert process.poll() is None
        time.sleep(0.01)
    server.stop("immediate")
    said = read_until(process.stderr, "waiting up to 600 s for the server.")
    server.start()
    out, rest = process.stdout.read(), process.stderr.read()
    assert process.wait() == 0, said + rest
    assert "the server is back after " in rest
    assert "Traceback" not in said + rest
    assert PASSWORD not in said + rest + out
    whole, records = undisturbed
    assert Outcome(0, out, rest).json == whole.json
    assert folds(address) == records
    assert n_begun(tmp_path) == N_FOLDS


def test_a_run_whose_server_stays_away_stops_and_the_same_command_goes_on(
    mlrc: Command,
    server: PostgreSQL,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: tuple[Outcome, list[FoldRecord]],
) -> None:
    address = server.url()
    monkeypatch.setattr(database, "SERVER_AWAY_S", 0.5)
    write_record = Store.add

    def add(store: Store, record: FoldRecord) -> bool:
        if record.identity.purpose == "final":
            server.stop()
        return write_record(store, record)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", add)
        stopped = mlrc(*command(tmp_path, address))
    assert stopped.code == 3, stopped.err
    assert stopped.out == ""
    assert stopped.err.splitlines()[-1].endswith(
        "check that the server runs and can be reached, then run the same command again."
    )
    assert PASSWORD not in stopped.err
    refused = mlrc(*command(tmp_path, address)).refusal()  # it never answered this command: nothing to wait for
    assert "check that the server runs" in refused
    server.start()
    with Store.open(address) as store:  # the claim's owner is this process, which lives; a command's own would be gone
        store._database.write(lambda connection: connection.execute(delete(CLAIMS)))
    resumed = mlrc(*command(tmp_path, address))
    whole, records = undisturbed
    assert resumed.code == 0, resumed.err
    assert resumed.json == whole.json
    assert folds(address) == records
    assert n_begun(tmp_path) == N_FOLDS + 1  # the fold whose record found no store ran again


def test_the_demonstration_tells_where_its_store_is_without_the_password(
    mlrc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "_run", lambda *_: 0)  # it takes minutes, and this is of what is said at the end
    said = mlrc("demo", "--store", f"postgresql+psycopg://me:{PASSWORD}@localhost:1/x").out
    assert "mlrc status --store postgresql+psycopg://me:***@localhost:1/x" in said
    assert PASSWORD not in said
    assert "mlrc status --store runs/demo.db" in mlrc("demo").out


def test_no_command_prints_the_password_of_a_store(mlrc: Command, server: PostgreSQL, tmp_path: Path) -> None:
    address = server.url()
    for arguments in (command(tmp_path, address), ["status", "--store", address], ["report", "--store", address]):
        done = mlrc(*arguments)
        assert done.code == 0
        assert PASSWORD not in done.out + done.err
    with Store.open(address) as store:
        assert PASSWORD not in repr(store.records()) + repr(store.studies()) + store.name
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD in path.read_text("latin-1")]
