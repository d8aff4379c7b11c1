"""The tables of the store, their schema number, and what brings an older database up to it.

Tables carry the prefix `mlrc_`, since Optuna keeps its own in the same database. The number is of our tables as a
whole; a record's own schema is in the record. A change of the tables is one function more in `MIGRATIONS`: the one at
place n takes a database of schema n + 1 to n + 2. All that are due run in one transaction: a database is old or new.
"""

from collections.abc import Callable

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    insert,
    inspect,
    select,
    update,
)

from results.errors import ResultsError

MIGRATIONS: tuple[Callable[[Connection], None], ...] = ()

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
    Column("name", Text, primary_key=True),  # it holds a method's name, which may be the path of a file
    Column("owner", String(320), nullable=False),
    Column("beat_at", Double, nullable=False),  # seconds since 1970 by the owner's clock
)

NUMBER = select(META.c.value).where(META.c.key == "schema")


def current() -> int:
    """The schema that this code writes."""
    return 1 + len(MIGRATIONS)


def is_current(connection: Connection, place: str) -> bool:
    """Whether the database needs nothing from `bring_up_to_date`.

    Raises:
        ResultsError: if the database is of a newer schema, or of none that is known.
    """
    return inspect(connection).has_table(META.name) and _checked(connection.scalar(NUMBER), place) == current()


def bring_up_to_date(connection: Connection, place: str) -> None:
    """Make the tables in a database that lacks them; migrate those of an older schema. For one write transaction."""
    is_new = not inspect(connection).has_table(META.name)
    TABLES.create_all(connection)
    if is_new:
        connection.execute(insert(META).values(key="schema", value=str(current())))
    found = _checked(connection.scalar(NUMBER.with_for_update()), place)  # one process migrates, the others wait here
    for migrate in MIGRATIONS[found - 1 :]:
        migrate(connection)
    connection.execute(update(META).where(META.c.key == "schema").values(value=str(current())))


def _checked(found: str | None, place: str) -> int:
    if found is None or not found.isdecimal() or not 1 <= int(found) <= current():
        raise ResultsError(f"{place}: store schema {found}; this code reads up to {current()}. Update the package.")
    return int(found)
