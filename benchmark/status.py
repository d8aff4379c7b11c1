"""What is done, failed and left in a store, by method.

Searches under one title, data set name and method name may still differ: by a `--set`, an added image, an edited file.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from results.comparison import Comparison
from results.record import FoldRecord
from results.store import Store
from results.study import Study

COLUMNS = (
    *("protocol", "protocol_digest", "dataset", "dataset_hash", "method", "method_code"),
    *("trials", "final_folds", "best_map_at_r"),
)
FINGERPRINTS = ("protocol_digest", "dataset_hash", "method_code")


def columns(lines: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The columns to show; a fingerprint is shown where it tells lines apart."""
    return tuple(name for name in COLUMNS if name not in FINGERPRINTS or len({line[name] for line in lines}) > 1)


def status_lines(store: Store) -> list[dict[str, Any]]:
    """One line of plain values for each method of each comparison: its search, its final folds, its best so far."""
    return [line for comparison in store.comparisons() for line in _lines(store, comparison)]


def _lines(store: Store, comparison: Comparison) -> Iterator[dict[str, Any]]:
    folds: dict[tuple[str, str], list[FoldRecord]] = {}
    for record in store.records(kind="fold", **comparison._asdict()):
        if isinstance(record, FoldRecord):
            folds.setdefault((record.identity.method, record.identity.method_code), []).append(record)
    studies = {(study.method, study.method_code): study for study in store.studies(**comparison._asdict())}
    for key in dict.fromkeys([*studies, *folds]):
        yield {**comparison._asdict(), **_line(*key, studies.get(key), folds.get(key, []))}


def _line(method: str, method_code: str, study: Study | None, records: list[FoldRecord]) -> dict[str, Any]:
    """A method has a study, or records, or both."""
    finals = [record for record in records if record.identity.purpose == "final"]
    done = sum(record.outcome == "done" for record in finals)
    return {
        "protocol": study.protocol_title if study else records[0].identity.protocol["title"],
        "dataset": study.dataset_name if study else records[0].identity.dataset["name"],
        "method": method,
        "method_code": method_code,
        "trials": {"done": study.n_finished, "failed": study.n_failed, "of": study.n_trials} if study else None,
        "final_folds": {"done": done, "failed": len(finals) - done, "of": _expected_final_folds(records)},
        "best_map_at_r": study.best_value if study else None,  # validation, mean over folds
        "best_standard_error": study.best_standard_error if study else None,
        "best_hyperparameters": study.best_hyperparameters if study else None,
    }


def _expected_final_folds(records: list[FoldRecord]) -> int | None:
    if not records:
        return None
    identity = records[0].identity
    if identity.method == "pixels":
        return 1
    values = identity.protocol["values"]
    return int(values["finals"]["n_runs"] * values["folds"]["n_folds"])
