"""What is done, running, failed and left in a store, by method, how fast it goes and when it should end.

Searches under one title, data set name and method name may still differ: by a `--set`, an added image, an edited file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from protocols.catalogue import CATALOGUE
from results.claims import campaign_claim
from results.comparison import Comparison
from results.record import FoldRecord
from results.repeats import n_final_folds, n_final_runs
from results.store import Store
from results.study import Study

COLUMNS = (
    *("protocol", "protocol_digest", "dataset", "dataset_hash", "method", "method_code"),
    *("trials", "final_folds", "best_map_at_r"),
)
FINGERPRINTS = ("protocol_digest", "dataset_hash", "method_code")
PAUSE = timedelta(seconds=60)  # a longer one ends a stretch of work: the run was stopped in between


def columns(lines: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The columns to show; a fingerprint is shown where it tells lines apart."""
    return tuple(name for name in COLUMNS if name not in FINGERPRINTS or len({line[name] for line in lines}) > 1)


def shown(line: Mapping[str, Any]) -> dict[str, Any]:
    """The line for people: MAP@R in percent, as in the tables."""
    best = line["best_map_at_r"]
    return {**line, "best_map_at_r": None if best is None else f"{100 * best:.2f}"}


def remarks(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is left of each method that is not done: "ms: 52 folds left; node7:812:a3 runs it, 12 an hour, ..."."""
    return [_remark(line) for line in lines if line["left"] or line["running"]]


def _remark(line: Mapping[str, Any]) -> str:
    left, pace, end = line["left"], line["folds_per_hour"], line["expected_end"]
    said = (
        f"{line['method']}: {'unknown how many' if left is None else f'{left:,}'} fold{'s' if left != 1 else ''} left"
    )
    if line["running"]:
        said += f"; {line['running']} runs it"
    if pace is not None:
        said += f", {pace:,.0f} an hour"
    return said + (f", ends about {datetime.fromisoformat(end).astimezone():%Y-%m-%d %H:%M}" if end else "")


def status_lines(store: Store) -> list[dict[str, Any]]:
    """One line of plain values for each method of each comparison: its search, its final folds, its pace, its best."""
    return [line for comparison in store.comparisons() for line in _lines(store, comparison)]


def _lines(store: Store, comparison: Comparison) -> Iterator[dict[str, Any]]:
    folds: dict[tuple[str, str], list[FoldRecord]] = {}
    values: Mapping[str, Any] | None = None
    for record in store.records(kind="fold", **comparison._asdict()):
        if isinstance(record, FoldRecord):
            folds.setdefault((record.identity.method, record.identity.method_code), []).append(record)
            values = record.identity.protocol["values"]
    studies = {(study.method, study.method_code): study for study in store.studies(**comparison._asdict())}
    for key in dict.fromkeys([*studies, *folds]):
        study, records = studies.get(key), folds.get(key, [])
        line = _line(*key, study, records, values or _published(study))
        holder = store.holder(campaign_claim(comparison, *key))
        yield {**comparison._asdict(), **line, **_pace(records, line["left"], holder)}


def _line(
    method: str, method_code: str, study: Study | None, records: list[FoldRecord], values: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A method has a study, or records, or both."""
    finals = [record for record in records if record.identity.purpose == "final"]
    done = sum(record.outcome == "done" for record in finals)
    return {
        "protocol": study.protocol_title if study else records[0].identity.protocol["title"],
        "dataset": study.dataset_name if study else records[0].identity.dataset["name"],
        "method": method,
        "method_code": method_code,
        "trials": {"done": study.n_finished, "failed": study.n_failed, "of": study.n_trials} if study else None,
        "final_folds": {
            "done": done,
            "failed": len(finals) - done,
            "of": n_final_runs(method, values) * n_final_folds(method, values) if values else None,
        },
        "left": _left(method, study, len(finals), values) if values else None,
        "best_map_at_r": study.best_value if study else None,  # validation, mean over folds
        "best_standard_error": study.best_standard_error if study else None,
        "best_hyperparameters": study.best_hyperparameters if study else None,
    }


def _left(method: str, study: Study | None, n_finals: int, values: Mapping[str, Any]) -> int:
    """Fold jobs that a whole run would still do; the finished folds of an open trial count as left."""
    trials = study.n_trials - study.n_finished - study.n_failed if study else 0
    wanted = n_final_runs(method, values) * n_final_folds(method, values)
    return max(0, trials) * int(values["folds"]["n_folds"]) + max(0, wanted - n_finals)


def _published(study: Study | None) -> Mapping[str, Any] | None:
    """The values of the protocol of a search that has no record yet, if it is a published one."""
    found = CATALOGUE.get(study.protocol_title) if study else None
    return found.values() if found and study and found.digest() == study.protocol_digest else None


def _pace(records: Sequence[FoldRecord], left: int | None, holder: str | None) -> dict[str, Any]:
    """Who runs it, the folds an hour of the stretch of work up to the newest record, and when all is done at that."""
    end: str | None = None
    per_hour = _folds_per_hour(records) if holder else None
    if per_hour and left is not None:
        newest = max(datetime.fromisoformat(record.provenance.created_at) for record in records)
        end = (newest + timedelta(hours=left / per_hour)).astimezone(UTC).isoformat(timespec="seconds")
    return {"running": holder, "folds_per_hour": per_hour, "expected_end": end}


def _folds_per_hour(records: Sequence[FoldRecord]) -> float | None:
    """Over the newest records whose times of work leave no long pause between them."""
    work = []
    for record in records:
        ended = datetime.fromisoformat(record.provenance.created_at)
        work.append((ended - timedelta(seconds=sum(record.seconds.values())), ended))
    if not work:
        return None
    work.sort(key=lambda times: times[1], reverse=True)
    newest, began, n_folds = work[0][1], work[0][0], 0
    for start, ended in work:
        if began - ended > PAUSE:
            break
        began, n_folds = min(began, start), n_folds + 1
    hours = (newest - began) / timedelta(hours=1)
    return n_folds / hours if hours > 0 else None
