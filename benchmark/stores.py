"""How a command opens the store that it was given."""

from pathlib import Path
from typing import TYPE_CHECKING

from results.errors import ResultsError

if TYPE_CHECKING:
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


def missing_file(address: str) -> Path | None:
    """The SQLite file of a store that is not there yet.

    Raises:
        ResultsError: if the address is none.
    """
    from results.database import database_url

    url = database_url(address)
    file = Path(url.database or "")
    return file if url.get_backend_name() == "sqlite" and not file.exists() else None
