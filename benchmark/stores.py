"""How a command opens the store that it was given, and what it refuses to look for there."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.errors import BenchmarkError
from protocols.errors import did_you_mean
from results.errors import ResultsError

if TYPE_CHECKING:
    from results.record import Record
    from results.store import Store


def open_store(address: str, must_exist: bool = False) -> "Store":
    """The store at an address; a SQLite file is made where there is none, unless it must exist.

    Raises:
        ResultsError: if it must and does not, or as `Store.open`.
    """
    from results.store import Store  # here, so that a command's help does not wait for SQLAlchemy

    if must_exist and (file := missing_file(address)):
        raise ResultsError(f"{file}: no store there yet; mlrc run makes one, or name yours with --store.")
    return Store.open(address)


def find_record(store: "Store", beginning: str) -> "Record":
    """The one record whose id begins so.

    Raises:
        BenchmarkError: if there is none, or there are several.
    """
    records = store.records()
    found = [record for record in records if beginning and record.id.startswith(beginning)]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(f"{record.id} ({record.identity.method})" for record in (found or records)[:3])
    how_many = f"{len(found)} records begin" if found else "no record begins"
    raise BenchmarkError(f"{store.name}: {how_many} with {beginning!r}; an id there is {shown or 'none'}.")


def refuse_unrecorded(store: "Store", methods: Iterable[str]) -> None:
    """Refuse methods of which a store has no record.

    Raises:
        ResultsError: with those that it has.
    """
    for method in methods:
        if not store.records(method=method):
            known = sorted({record.identity.method for record in store.records()})
            raise ResultsError(
                f"{store.name}: nothing of {method!r} is recorded there.{did_you_mean(method, known)} Methods there: "
                f"{', '.join(known) or 'none'}."
            )


def missing_file(address: str) -> Path | None:
    """The SQLite file of a store that is not there yet: no file, or one in which nothing is ours.

    Raises:
        ResultsError: if the address is none.
    """
    from results.database import database_url, lacks_store

    url = database_url(address)
    file = Path(url.database or "")
    return file if url.get_backend_name() == "sqlite" and (not file.exists() or lacks_store(file)) else None
