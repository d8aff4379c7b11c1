"""The schema of the store: a kept file of schema 1 is read, older databases are migrated whole or not at all.

`data/store-schema-1.sql` is the dump of a store that was made by the code at revision 6aa9945, before records said what
was in force:
    mlrc run untrained contrastive --protocol demo --data "shapes:shifted?train=4&test=3" --executor inline
        --set max_steps=2 --set evaluate_every_steps=1 --set n_trials=2 --set n_startup_trials=1 --set n_runs=1
        --set n_folds=2
"""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from conftest import Command
from postgres import DATABASES, new_address
from sqlalchemy import Connection, inspect, text

from benchmark.search.trials import open_trials
from results import schema
from results.database import Database
from results.errors import ResultsError
from results.record import FoldRecord, from_json, to_json
from results.store import Store

KEPT = Path(__file__).parent / "data" / "store-schema-1.sql"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "kept.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(KEPT.read_text(encoding="utf-8"))
    return path


def test_a_store_of_schema_1_opens_with_all_its_records_searches_and_trials(kept: Path) -> None:
    with Store.open(str(kept)) as store:
        records = store.records()
        (study,) = store.studies()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        trials = optuna.load_study(storage=open_trials(store), study_name=study.optuna_name).get_trials()
    methods = [record.identity.method for record in records]
    assert (methods.count("untrained"), methods.count("contrastive")) == (3, 7)
    assert [record.identity.purpose for record in records].count("search") == 4
    assert study.best_value == max(trial.value for trial in trials if trial.value is not None)
    assert study.best_hyperparameters == trials[study.best_trial or 0].params


def test_a_record_of_schema_1_lacks_what_came_later_and_is_written_with_the_same_content(kept: Path) -> None:
    with closing(sqlite3.connect(kept)) as connection:
        bodies = [row[0] for row in connection.execute("SELECT body FROM mlrc_records WHERE kind = 'fold'")]
    assert len(bodies) == 8
    for body in bodies:
        record = from_json(body)
        assert isinstance(record, FoldRecord)
        assert "in_force" not in body
        assert record.in_force is None
        assert from_json(to_json(record)) == record
        assert record.identity.metrics == ("precision_at_1", "r_precision", "map_at_r")


def test_a_store_of_schema_1_takes_new_records(kept: Path) -> None:
    with Store.open(str(kept)) as store:
        (record, *_) = store.records(kind="fold")
        assert isinstance(record, FoldRecord)
        assert not store.add(replace(record, in_force={"optimiser": "adam"}))
        assert store.add(replace(record, id="new", in_force={"optimiser": "adam"}))
        assert len(store.records()) == 11


def test_every_command_that_reads_a_store_reads_one_of_schema_1(mlrc: Command, kept: Path) -> None:
    report, status = mlrc("report", "--store", kept, "--json"), mlrc("status", "--store", kept, "--json")
    assert (report.code, status.code) == (0, 0), report.err + status.err
    assert "contrastive" in report.out
    by_method = {line["method"]: line["final_folds"] for line in status.json}
    assert by_method["contrastive"] == by_method["untrained"] == {"done": 2, "failed": 0, "of": 2}


# --- migrations: of schemas to come, as no change of the tables was needed yet


def add_notes(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE mlrc_records ADD COLUMN note TEXT"))
    connection.execute(text("UPDATE mlrc_records SET note = 'of ' || method"))


def add_more(connection: Connection) -> None:
    connection.execute(text("CREATE TABLE mlrc_more AS SELECT id, note FROM mlrc_records"))


def fail(connection: Connection) -> None:
    raise ResultsError("half way")


def number(path: Path) -> str:
    """The schema that a file says it has; opening it as a store would migrate it."""
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("SELECT value FROM mlrc_meta WHERE key = 'schema'").fetchone()[0])


def columns(opened: Database) -> set[str]:
    found = opened.read(lambda connection: inspect(connection).get_columns("mlrc_records"))
    return {column["name"] for column in found}


def test_an_older_store_is_migrated_step_by_step_and_keeps_its_records(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(str(kept)) as store:
        before = store.records()
    monkeypatch.setattr(schema, "MIGRATIONS", (add_notes, add_more))
    with Store.open(str(kept)) as store:
        assert store.records() == before
    assert number(kept) == "3"
    with closing(sqlite3.connect(kept)) as connection:
        notes = connection.execute("SELECT note FROM mlrc_more").fetchall()
    assert sorted(set(notes)) == [("of contrastive",), ("of untrained",)]
    Database(str(kept)).close()  # and is not migrated again
    monkeypatch.setattr(schema, "MIGRATIONS", (add_notes,))
    with pytest.raises(ResultsError, match=r"store schema 3; this code reads up to 2\."):
        Database(str(kept))


def test_a_migration_that_fails_leaves_the_store_as_it_was(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", (add_notes, fail))
    with pytest.raises(ResultsError, match="half way"):
        Database(str(kept))
    monkeypatch.undo()
    assert number(kept) == "1"
    opened = Database(str(kept))
    assert "note" not in columns(opened)


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "older"])
def test_of_four_that_open_a_store_at_once_one_makes_or_migrates_its_tables(
    database: str, is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, all_ready = new_address(database, tmp_path), threading.Barrier(4)
    if not is_new:
        Database(address).close()
    monkeypatch.setattr(schema, "MIGRATIONS", (add_notes,))

    def work(_: int) -> None:
        all_ready.wait()
        Database(address).close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert ("note" in columns(Database(address))) != is_new  # a new one is made as it is wanted
