"""What is done, running, failed and left in a store, by method, how fast it goes and when it should end.

Searches under one title, data set name and method name may still differ: by a `--set`, an added image, an edited file.
Final runs with other hyper-parameters than those of the search in force (`--published`, an older fork) are a line of
their own, which names them.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from protocols.catalogue import CATALOGUE
from results.claims import campaign_claim
from results.comparison import Comparison
from results.record import FoldRecord, Value
from results.repeats import n_final_folds, n_final_runs
from results.store import Store
from results.study import Study

COLUMNS = ("method", "method_code", "rules", "trials", "final_folds", "best_map_at_r")
TITLES = {"best_map_at_r": "validation MAP@R"}
EPOCH = datetime.fromtimestamp(0, UTC)
PAUSE = timedelta(seconds=60)  # a longer one ends a stretch of work: the run was stopped in between


def columns(lines: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The columns to show of one board: a method's code where it tells lines apart, rules where a search has any."""
    hidden = set() if any(line["rules"] for line in lines) else {"rules"}
    if len({(line["method"], line["method_code"]) for line in lines}) == len({line["method"] for line in lines}):
        hidden.add("method_code")
    return tuple(name for name in COLUMNS if name not in hidden)


def boards(lines: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The lines of each board below what it is called: `mini@1 (4f570eba981a) on cub200 (8d1bc69deabe)`.

    With the split's fingerprint too, where two boards are otherwise called the same.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        dataset = f"{line['dataset']} ({line['dataset_hash'][:12]})"
        heading = f"{line['protocol']} ({line['protocol_digest']}) on {dataset}"
        found.setdefault((heading, line["split_digest"]), []).append(line)
    times = Counter(heading for heading, _ in found)
    return {
        heading if times[heading] == 1 else f"{heading}, split {split[:12]}": some
        for (heading, split), some in found.items()
    }


def shown(line: Mapping[str, Any]) -> dict[str, Any]:
    """The line for people: MAP@R in percent, as in the tables; hyper-parameters that no search in force chose."""
    best = line["best_map_at_r"]
    values = ", ".join(f"{name}={value:.4g}" for name, value in (line["hyperparameters"] or {}).items())
    return {
        **line,
        "method": f"{line['method']} ({values})" if values else line["method"],
        "best_map_at_r": None if best is None else f"{100 * best:.2f}",
    }


def remarks(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is left of each method that is not done: "ms: 52 folds left; node7:812:a3 runs it, 12 an hour, ...".

    Also which search is in force, where one was begun anew.
    """
    found = list(lines)
    forked = [
        f"{line['method']}: the search in force is {line['study']}; before it, {'; '.join(line['superseded'])}"
        for line in found
        if line["superseded"]
    ]
    return forked + [_remark(line) for line in found if line["left"] or line["running"]]


def _remark(line: Mapping[str, Any]) -> str:
    left, pace, end = line["left"], line["folds_per_hour"], line["expected_end"]
    number = "unknown how many" if left is None else f"{left:,}"
    said = f"{shown(line)['method']}: {number} fold{'s' if left != 1 else ''} left"
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
    studies: dict[tuple[str, str], list[Study | None]] = {}
    for one in store.studies(**comparison._asdict(), superseded=True):
        studies.setdefault((one.method, one.method_code), []).append(one)
    for key in dict.fromkeys([*studies, *folds]):
        *before, study = studies.get(key) or [None]
        holder = store.holder(campaign_claim(comparison, *key))
        parts = list(_parts(study, folds.get(key, [])))
        at_work = max(parts, key=lambda part: max((_ended(record) for record in part[1]), default=EPOCH))
        for part in parts:
            line = _line(*key, study, *part, values or _published(study))
            line["superseded"] = [_superseded(older) for older in before if older] if part is parts[0] else []
            yield {**comparison._asdict(), **line, **_pace(part[1], line["left"], holder if part is at_work else None)}


Part = tuple[dict[str, Value] | None, list[FoldRecord]]


def _parts(study: Study | None, records: Sequence[FoldRecord]) -> Iterator[Part]:
    """The records of the search and its final runs, then those of each other set of hyper-parameters that ran.

    Each with these hyper-parameters, None for those of the search. Without a search, its records go with the first set.
    """
    finals: dict[str, list[FoldRecord]] = {}
    for record in records:
        if record.identity.purpose == "final":
            finals.setdefault(_key(record.identity.hyperparameters), []).append(record)
    searched = [record for record in records if record.identity.purpose == "search"]
    best = study.best_hyperparameters if study else None
    if study or not finals:
        yield None, searched + (finals.pop(_key(best), []) if best is not None else [])
        searched = []
    for found in finals.values():
        yield dict(found[0].identity.hyperparameters), searched + found
        searched = []


def _key(hyperparameters: Mapping[str, Value]) -> str:
    return json.dumps(hyperparameters, sort_keys=True)


def _superseded(study: Study) -> str:
    best = "" if study.best_value is None else f", best {100 * study.best_value:.2f}"
    return f"{study.optuna_name} ({study.n_told} of {study.n_trials} trials{best})"


def _line(
    method: str,
    method_code: str,
    study: Study | None,
    hyperparameters: dict[str, Value] | None,
    records: list[FoldRecord],
    values: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A method has a study, or records, or both; `hyperparameters` are those that the study did not find."""
    search = study if hyperparameters is None else None
    finals = [record for record in records if record.identity.purpose == "final"]
    done = sum(record.outcome == "done" for record in finals)
    return {
        "protocol": study.protocol_title if study else records[0].identity.protocol["title"],
        "dataset": study.dataset_name if study else records[0].identity.dataset["name"],
        "method": method,
        "method_code": method_code,
        "hyperparameters": hyperparameters or None,
        "study": search.optuna_name if search else None,
        "rules": search.rules_in_words or None if search else None,
        "trials": _trials(search) if search else None,
        "final_folds": {
            "done": done,
            "failed": len(finals) - done,
            "of": n_final_runs(method, values) * n_final_folds(method, values) if values else None,
        },
        "left": _left(method, search, len(finals), values) if values else None,
        "best_map_at_r": search.best_value if search else None,  # validation, mean over folds
        "best_standard_error": search.best_standard_error if search else None,
        "best_hyperparameters": search.best_hyperparameters if search else None,
    }


def _trials(study: Study) -> dict[str, int]:
    pruned = {"pruned": study.n_pruned} if study.n_pruned else {}
    return {"done": study.n_finished, "failed": study.n_failed, **pruned, "of": study.n_trials}


def _left(method: str, study: Study | None, n_finals: int, values: Mapping[str, Any]) -> int:
    """Fold jobs that a whole run would still do; the finished folds of an open trial count as left."""
    trials = study.n_trials - study.n_told if study else 0
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
        newest = max(map(_ended, records))
        end = (newest + timedelta(hours=left / per_hour)).astimezone(UTC).isoformat(timespec="seconds")
    return {"running": holder, "folds_per_hour": per_hour, "expected_end": end}


def _folds_per_hour(records: Sequence[FoldRecord]) -> float | None:
    """Over the newest records whose times of work leave no long pause between them."""
    work = []
    for record in records:
        ended = _ended(record)
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


def _ended(record: FoldRecord) -> datetime:
    return datetime.fromisoformat(record.provenance.created_at)
