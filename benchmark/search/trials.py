"""Optuna's part of the store: its trials lie in the same database as the records."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from results.claims import new_owner
from results.database import database_url, engine_arguments
from results.errors import ResultsError
from results.store import Store

# Attributes of a trial, for the search itself and for viewers.
NOTE = "note"  # why it ended without running, or before its last fold
REASON = "reason"  # why it failed
STOPS = "stops"  # by the machine, one attempt each
RESUMED = "resumed at"  # when a restart found it open
SHARES = "shares"  # that stand for numbers which may be at most half of another, as they were drawn
PREDICTED = "predicted"  # the value that a pruned one would have reached


def open_trials(store: Store) -> RDBStorage:
    """Optuna's part of the store, opened by one process at a time: two that create its tables at once both fail.

    It connects when the store answers: where a server was away, Optuna's next step waits for it as the store does.

    Raises:
        ResultsError: if Optuna's tables are of another version.
    """
    claim, owner = "optuna tables", new_owner()
    while not store.claim(claim, owner):
        time.sleep(0.05)
    try:
        storage = RDBStorage(store.url, engine_kwargs=engine_arguments(database_url(store.url)))
    except RuntimeError as error:  # its tables are of another version, and it says how to upgrade
        raise ResultsError(f"{store.name}: {error}") from error
    finally:
        store.release(claim, owner)
    event.listen(storage.engine, "do_connect", lambda *_: store.wait_for_server())
    return storage


@contextmanager
def database_errors(store: Store) -> Iterator[None]:
    """What Optuna and SQLAlchemy say of a full disk, a lost server or a damaged database, in one line."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) else error
        if not isinstance(cause, SQLAlchemyError):
            raise
        raise store.explained(cause) from error


def best_trial(trials: Iterable[FrozenTrial]) -> FrozenTrial | None:
    """The finished trial of the highest value, of two equal ones the earlier; None where none is finished."""
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return max(finished, key=lambda trial: (trial.value, -trial.number), default=None)


def note(study: optuna.Study, trial: FrozenTrial, name: str, value: Any) -> None:
    """Keep an attribute of an open trial. (An `optuna.trial.Trial` made for it would ask the sampler again.)"""
    study._storage.set_trial_user_attr(trial._trial_id, name, value)


def report(study: optuna.Study, trial: FrozenTrial, fold: int, value: float) -> None:
    """Keep the value of one fold of an open trial, as an intermediate value."""
    study._storage.set_trial_intermediate_value(trial._trial_id, fold, value)
