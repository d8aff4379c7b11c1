"""The store: every record, the state of every search and the claims of the workers, in one SQL database.

Records are append-only: one that is done is never changed; only a failed one may be replaced, by a later outcome.
Several processes and machines may use one store at once; each method is one transaction.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Self

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from results import claims, notes
from results.comparison import Comparison
from results.database import Database
from results.errors import ResultsError, StoreUnavailable
from results.exchange.agreement import agreed, agreed_study
from results.record import Record, from_json
from results.rows import add_record, put_study, record_order, record_row, study_order, study_row
from results.schema import RECORDS, STUDIES
from results.study import Study, study_from_json

IDS_A_QUERY = 500  # databases limit the number of values in one statement


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What a merge did."""

    n_new: int  # records that the store did not have, or had as failed
    n_known: int  # records of jobs that it had
    n_searches: int  # states of searches that it did not have, or that are further


class Store:
    """An open store; a context manager that closes it."""

    def __init__(self, database: Database) -> None:
        """A store over an open database; `Store.open` is the usual way."""
        self._database = database
        self._watch = claims.Watch()

    @classmethod
    def open(cls, url_or_path: str) -> Self:
        """Open or create a store by a path (a SQLite file) or by any SQLAlchemy URL.

        Raises:
            ResultsError: if it cannot be opened, is no database, or was written by a newer version.
        """
        return cls(Database(url_or_path))

    @property
    def name(self) -> str:
        """The store for people: its file, or its address without the password."""
        return self._database.place

    @property
    def url(self) -> str:
        """The URL for other programs, such as Optuna's storage. It holds the password: never print it."""
        return self._database.url.render_as_string(hide_password=False)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def wait_for_server(self) -> None:
        """Return when the database answers; at once, unless its server is away.

        Raises:
            StoreUnavailable: if it stays away.
        """
        self._database.read(lambda _: None)

    def explained(self, error: SQLAlchemyError) -> ResultsError:
        """What a failure of the database means, in one line, where another program's engine met it."""
        return self._database.explained(error)

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    # --- records

    def add(self, record: Record) -> bool:
        """Keep a record, after all its checks. Returns whether the store changed.

        A record whose id is there as done changes nothing. One that failed is replaced by a record that is done, or
        that failed later.

        Raises:
            ResultsError: if the record fails a check of `to_json`, or the database cannot be written
                (`StoreUnavailable`: for now).
        """
        row = record_row(record)
        return self._database.write(lambda connection: add_record(connection, row))

    def merge(self, records: Iterable[Record], studies: Iterable[Study]) -> Merged:
        """Keep what another store found: all of it, or nothing.

        Of two records of one job, or states of one search, `results.exchange.agreement` says which is kept.

        Raises:
            ResultsError: if a record or search contradicts one that is there, or as `add`.
        """
        rows = {record.id: (record, record_row(record)) for record in records}
        searches = {study.id: (study, study_row(study)) for study in studies}
        where = f"{self.name} and what was given"

        def work(connection: Connection) -> Merged:
            n_new = n_known = n_searches = 0
            for record_id, (record, row) in rows.items():
                body = connection.scalar(select(RECORDS.c.body).where(RECORDS.c.id == record_id))
                if body is not None:
                    agreed(from_json(body), record, where)
                n_known += body is not None
                n_new += add_record(connection, row)
            for id_, (study, row) in searches.items():
                body = connection.scalar(select(STUDIES.c.body).where(STUDIES.c.id == id_))
                if body is None or agreed_study(study_from_json(body), study, where) is study:
                    put_study(connection, row)
                    n_searches += 1
            return Merged(n_new=n_new, n_known=n_known, n_searches=n_searches)

        return self._database.write(work)

    def get(self, record_id: str) -> Record | None:
        """The record of an id, or None."""
        return self.get_many([record_id]).get(record_id)

    def get_many(self, ids: Iterable[str]) -> dict[str, Record]:
        """The records of those ids that are there, by id, in the order of `ids`."""
        wanted = list(dict.fromkeys(ids))

        def work(connection: Connection) -> dict[str, str]:
            bodies: dict[str, str] = {}
            for start in range(0, len(wanted), IDS_A_QUERY):
                chosen = RECORDS.c.id.in_(wanted[start : start + IDS_A_QUERY])
                rows = connection.execute(select(RECORDS.c.id, RECORDS.c.body).where(chosen))
                bodies.update({row.id: row.body for row in rows})
            return bodies

        found = self._database.read(work)
        return {record_id: from_json(found[record_id]) for record_id in wanted if record_id in found}

    def records(
        self,
        *,
        kind: Literal["fold", "run"] | None = None,
        protocol_digest: str | None = None,
        dataset_hash: str | None = None,
        split_digest: str | None = None,
        method: str | None = None,
        purpose: Literal["search", "final"] | None = None,
    ) -> list[Record]:
        """All records that match what is given, sorted by method, run, fold (a run's record last) and id."""
        wanted = {
            "kind": kind,
            "protocol_digest": protocol_digest,
            "dataset_hash": dataset_hash,
            "split_digest": split_digest,
            "method": method,
            "purpose": purpose,
        }
        conditions = [RECORDS.c[name] == value for name, value in wanted.items() if value is not None]
        query = select(RECORDS.c.body).where(*conditions)
        bodies = self._database.read(lambda connection: connection.scalars(query).all())
        return sorted(map(from_json, bodies), key=record_order)

    def comparisons(self) -> list[Comparison]:
        """The comparisons that have a record or a search, sorted."""
        queries = [
            select(table.c.protocol_digest, table.c.dataset_hash, table.c.split_digest).distinct()
            for table in (RECORDS, STUDIES)
        ]
        found = self._database.read(lambda connection: [row for query in queries for row in connection.execute(query)])
        return sorted({Comparison(*row) for row in found})

    # --- studies

    def put_study(self, study: Study) -> None:
        """Keep the state of a search in place of its state before.

        Raises:
            ResultsError: if a field has a wrong type, or the database cannot be written.
        """
        row = study_row(study)
        self._database.write(lambda connection: put_study(connection, row))

    def study(
        self, *, protocol_digest: str, dataset_hash: str, split_digest: str, method: str, method_code: str
    ) -> Study | None:
        """The state of the search in force, which is the newest fork, or None."""
        found = self.studies(protocol_digest=protocol_digest, dataset_hash=dataset_hash, split_digest=split_digest)
        return next((study for study in found if (study.method, study.method_code) == (method, method_code)), None)

    def studies(
        self,
        *,
        protocol_digest: str | None = None,
        dataset_hash: str | None = None,
        split_digest: str | None = None,
        superseded: bool = False,
    ) -> list[Study]:
        """All searches that match what is given, sorted by protocol, data set, split, method and fork.

        Of each search only the newest fork; with `superseded`, those before it too.
        """
        wanted = {"protocol_digest": protocol_digest, "dataset_hash": dataset_hash, "split_digest": split_digest}
        conditions = [STUDIES.c[name] == value for name, value in wanted.items() if value is not None]
        query = select(STUDIES.c.body).where(*conditions)
        bodies = self._database.read(lambda connection: connection.scalars(query).all())
        found = sorted(map(study_from_json, bodies), key=study_order)
        newest = {(study.comparison, study.method, study.method_code): study for study in found}
        return found if superseded else list(newest.values())

    # --- notes

    def note(self, kind: notes.Kind, name: str) -> Any:
        """What the store remembers under a name, a JSON value, or None."""
        return self._database.read(lambda connection: notes.read(connection, kind, name))

    def put_note(self, kind: notes.Kind, name: str, value: Any) -> None:
        """Remember a JSON value, in place of what was remembered under the name."""
        self._database.write(lambda connection: notes.put(connection, kind, name, value))

    # --- claims

    def claim(self, name: str, owner: str, stale_after_s: float = claims.STALE_AFTER_S) -> bool:
        """Take a claim that is free, stale or already the owner's. Returns whether the owner holds it now."""
        return self._database.write(
            lambda connection: claims.take(connection, name, owner, stale_after_s, time.time(), self._watch)
        )

    def beat(self, owner: str) -> int:
        """Renew all claims of an owner, at least every few seconds. Returns how many it holds."""
        now = time.time()  # an owner that beats again soon waits for no server
        return self._database.write(lambda connection: claims.beat(connection, owner, now), wait_for_server=False)

    def release(self, name: str, owner: str) -> None:
        """Give a claim back; one that somebody else holds stays. Where the store is away, it is left to go stale."""
        with suppress(StoreUnavailable):
            self._database.write(lambda connection: claims.release(connection, name, owner), wait_for_server=False)

    def holder(self, name: str, stale_after_s: float = claims.STALE_AFTER_S) -> str | None:
        """Who holds a claim, or None if nobody who lives does."""
        return self._database.read(lambda connection: claims.holder(connection, name, stale_after_s, time.time()))
