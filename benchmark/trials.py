"""Optuna's part of the store: its trials lie in the same database as the records."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.exc import SQLAlchemyError

from results.claims import new_owner
from results.errors import ResultsError
from results.store import Store


def open_trials(store: Store) -> RDBStorage:
    """Optuna's part of the store, opened by one process at a time: two that create its tables at once both fail."""
    claim, owner = "optuna tables", new_owner()
    while not store.claim(claim, owner):
        time.sleep(0.05)
    try:
        return RDBStorage(
            store.url, engine_kwargs={"connect_args": {"timeout": 60}} if store.url.startswith("sqlite") else None
        )
    except RuntimeError as error:  # its tables are of another version, and it says how to upgrade
        raise ResultsError(f"{store.name}: {error}") from error
    finally:
        store.release(claim, owner)


@contextmanager
def database_errors(store: Store) -> Iterator[None]:
    """What Optuna and SQLAlchemy say of a full disk or a damaged database, in one line."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # the driver's own words come last, without statement and values
            cause = cause.__cause__
        raise ResultsError(
            f"{store.name}: {cause}; check the disk and its free space, then run the same command again."
        ) from error
