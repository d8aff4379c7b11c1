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
    from results.database import database_url  # here, so that a command's help does not wait for SQLAlchemy
    from results.store import Store

    url = database_url(address)
    if must_exist and url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        raise ResultsError(f"{url.database}: no store there yet; mlrc run makes one, or name yours with --store.")
    return Store.open(address)
