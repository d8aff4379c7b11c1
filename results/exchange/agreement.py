"""Two records of one job, or two states of one search: which to keep, and whether they contradict each other.

Records may differ in when, where, how fast and by which release they were made, and so in how much they say of it. If
they differ in what was found, one of them is wrong, and which one is for people to say.
"""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from results.errors import ResultsError
from results.record import COUNTS, Record, has_failed
from results.study import Study

FOUND = ("members", "embedding_dim", "n_steps", "n_images_seen", "curve", "best_step", "validation", "test")
WAY_OUT = "Nothing was taken; leave one of them out."


def agreed(known: Record, new: Record, where: str) -> Record:
    """The one of two records of a job to keep: the known one, unless it failed and the new one is done, or is later.

    Raises:
        ResultsError: if both are done and found something else.
    """
    if not has_failed(known) and not has_failed(new):
        _refuse_contradiction(known, new, where)
        return known
    if has_failed(known) and (not has_failed(new) or _made_at(new) > _made_at(known)):
        return new
    return known


def agreed_study(known: Study, new: Study, where: str) -> Study:
    """The one of two states of a search to keep: the one that is further.

    Raises:
        ResultsError: if both are as far and found something else, or searched in another way.
    """
    same = known.fingerprint == new.fingerprint and (
        known.n_told != new.n_told
        or (known.best_hyperparameters, known.best_value) == (new.best_hyperparameters, new.best_value)
    )
    if not same:
        raise ResultsError(
            f"{where} contradict each other: the search of {known.method!r} on {known.dataset_name} has other results. "
            f"{WAY_OUT}"
        )
    return new if new.n_told > known.n_told else known


def _refuse_contradiction(known: Record, new: Record, where: str) -> None:
    for name, before, after in _differing(_compared(known), _compared(new), ""):
        raise ResultsError(
            f"{where} contradict each other: record {known.id} ({known.identity.method!r}, {known.identity.purpose}, "
            f"run {known.identity.run}) has {name} {before!r:.60} and {after!r:.60}. {WAY_OUT}"
        )


def _compared(record: Record) -> dict[str, Any]:
    values = asdict(record)
    audit = values["evaluation_audit"] or {}
    return {
        **{name: values[name] for name in FOUND if name in values},
        "evaluation_audit": {name: audit[name] for name in COUNTS if name in audit},
    }


def _differing(known: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(known, dict) and isinstance(new, dict):
        for name in dict.fromkeys([*known, *new]):
            yield from _differing(known.get(name), new.get(name), f"{path}.{name}" if path else name)
    elif known != new:
        yield path, known, new


def _made_at(record: Record) -> datetime:
    return datetime.fromisoformat(record.provenance.created_at)
