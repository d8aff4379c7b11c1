"""Records and searches as rows of their tables: the columns, how a row is written, and the order of rows.

The order is made here and not by the database, because databases sort text by different rules.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from results.record import FoldRecord, Record, to_json
from results.schema import RECORDS, STUDIES
from results.study import Study, study_id, study_to_json


def add_record(connection: Connection, row: dict[str, Any]) -> bool:
    """Write the row of a record, unless one that is done is there, or one that failed later. Returns whether it did."""
    stored = RECORDS.c.outcome, RECORDS.c.created_at
    found = connection.execute(select(*stored).where(RECORDS.c.id == row["id"])).one_or_none()
    if found is None:
        connection.execute(insert(RECORDS).values(row))
        return True
    is_later = datetime.fromisoformat(row["created_at"]) > datetime.fromisoformat(found.created_at)
    if found.outcome == "done" or not (row["outcome"] == "done" or is_later):
        return False
    still_failed = (RECORDS.c.id == row["id"]) & (RECORDS.c.outcome == "failed")
    return connection.execute(update(RECORDS).where(still_failed).values(row)).rowcount == 1


def put_study(connection: Connection, row: dict[str, Any]) -> None:
    """Write the row of a search in place of the one before."""
    connection.execute(delete(STUDIES).where(STUDIES.c.id == row["id"]))
    connection.execute(insert(STUDIES).values(row))


def study_row(study: Study) -> dict[str, Any]:
    """The columns of a search."""
    return {
        "id": study.id,
        **study.comparison._asdict(),
        "method": study.method,
        "method_code": study.method_code,
        "body": study_to_json(study),
    }


def record_row(record: Record) -> dict[str, Any]:
    """The columns of a record, after all its checks."""
    body = to_json(record)  # first: all that follows relies on its checks
    identity = record.identity
    is_fold = isinstance(record, FoldRecord)
    return {
        "id": record.id,
        "kind": "fold" if is_fold else "run",
        **identity.comparison._asdict(),
        "protocol_title": identity.protocol["title"],
        "dataset_name": identity.dataset["name"],
        "method": identity.method,
        "method_code": identity.method_code,
        "purpose": identity.purpose,
        "run": identity.run,
        "fold": record.fold if isinstance(record, FoldRecord) else None,
        "outcome": record.outcome if isinstance(record, FoldRecord) else "done",
        "created_at": record.provenance.created_at,
        "body": body,
    }


def record_order(record: Record) -> tuple[str, int, float, str]:
    """By method, run, fold (a run's record last) and id."""
    fold = record.fold if isinstance(record, FoldRecord) else float("inf")
    return record.identity.method, record.identity.run, fold, record.id


def study_order(study: Study) -> tuple[str, str, str, str, str, int]:
    """By protocol, data set, split, method and fork."""
    key = study_id(*study.comparison, study.method, study.method_code)
    return study.protocol_title, study.dataset_name, study.method, study.method_code, key, study.fork
