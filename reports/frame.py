"""Records as one tidy data frame: a row for each run, setting and metric, with the value or the reason it is missing.

What is expected comes from the protocol inside the records, so a run that never happened is a row too. Values are
fractions. A separated value is the mean over *all* folds of a run: a mean of three out of four folds would flatter or
punish a method by the fold it lacks, so it is missing instead. A protocol of one model has separated values alone.
"""

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import pandas as pd

from reports.errors import ReportError
from reports.evaluated import evaluated
from reports.origins import differing_origins
from results.comparison import Comparison
from results.record import FoldRecord, Identity, Metrics, Record, RunRecord
from results.reference.hyperparameters import published_keys
from results.repeats import is_concatenated, n_final_folds, n_final_runs

Setting = Literal["concatenated", "separated"]
SETTINGS: tuple[Setting, ...] = ("concatenated", "separated")

BASELINES = ("pixels", "untrained", "pretrained")  # in the order in which tables show them

# Numbers meet only where all of these are equal.
COMPARISON = list(Comparison._fields)
# Said once for each comparison; a data set that was renamed is still the same by its hash.
CONTEXT = [
    *("dataset_name", "protocol_title", "protocol_name", "n_folds", "n_runs", "embedding_dim"),
    *("primary_metric", "metrics_version", "split_kind", "standard_name", "origins", "evaluated"),
]
# What tells methods apart; hyperparameters are sorted JSON, "" where a search had no winner.
VARIANT = ["method", "method_code", "hyperparameters"]
COLUMNS = [*COMPARISON, *CONTEXT, *VARIANT, "published", "run", "setting", "metric", "value", "missing"]


class _Key(NamedTuple):
    comparison: Comparison
    method: str
    method_code: str
    hyperparameters: str


@dataclass
class _Finals:
    """The final records of one variant of a method."""

    identity: Identity
    folds: dict[tuple[int, int], FoldRecord] = field(default_factory=dict)  # by (run, fold)
    runs: dict[int, RunRecord] = field(default_factory=dict)


def settings_of(n_folds: int) -> tuple[Setting, ...]:
    """The settings of a protocol: one model has nothing to be concatenated with."""
    return SETTINGS if n_folds > 1 else ("separated",)


def runs_frame(records: Iterable[Record], failures: Mapping[str, str] | None = None) -> pd.DataFrame:
    """One row per protocol, data set, split, method variant, run, setting and metric, in order of first appearance.

    Args:
        records: records of searches and final runs, in any order. Search records carry no value here; a method that
            has only those is listed as missing.
        failures: method name -> one line why its search produced no winner. Only for records of one comparison.

    Returns:
        Columns `COLUMNS`: `value` is a fraction or NaN (missing), `missing` is "" or the reason. `published` names the
        papers' settings that have a variant's hyper-parameters; "" if none has, or if a search found them here.

    Raises:
        ReportError: for records that contradict each other or their protocol, and for failures whose comparison
            the records leave open.
    """
    comparisons: dict[Comparison, Identity] = {}
    finals: dict[_Key, _Finals] = {}
    searched: dict[_Key, Identity] = {}
    tried: set[_Key] = set()
    for record in records:
        identity = record.identity
        key = _key(identity)
        comparisons.setdefault(key.comparison, identity)
        if identity.purpose == "final":
            _check_place(record)
            found = finals.setdefault(key, _Finals(identity))
            if isinstance(record, FoldRecord):
                place = (identity.run, record.fold)
                found.folds[place] = _agreed(found.folds.get(place), record)
            else:
                found.runs[identity.run] = _agreed(found.runs.get(identity.run), record)
        else:
            searched.setdefault(key._replace(hyperparameters=""), identity)
            tried.add(key)
    if failures and len(comparisons) != 1:
        raise ReportError(
            f"failures of {', '.join(sorted(failures))} belong to one protocol, data set and split, but the records "
            f"are of {len(comparisons)}; make one frame for each."
        )
    rows = [
        {**row, "published": "" if key in tried else _published(key)}
        for key, found in finals.items()
        for row in _final_rows(key, found)
    ]
    winners = {key._replace(hyperparameters="") for key in finals}
    for key, identity in searched.items():
        if key not in winners and key.method not in (failures or {}):
            rows += _missing_rows(key, identity, "searched, no final run")
    for comparison, identity in comparisons.items():
        for method, reason in (failures or {}).items():
            rows += _missing_rows(_Key(comparison, method, "", ""), identity, reason)
    made = _made(finals)
    rows = [row | made.get(Comparison(*(row[name] for name in COMPARISON)), {}) for row in rows]
    return pd.DataFrame(rows, columns=pd.Index(COLUMNS)).astype({"value": "float64"})


def _key(identity: Identity) -> _Key:
    return _Key(
        comparison=identity.comparison,
        method=identity.method,
        method_code=identity.method_code,
        hyperparameters=json.dumps(identity.hyperparameters, sort_keys=True, allow_nan=False),
    )


def _made(finals: Mapping[_Key, _Finals]) -> dict[Comparison, dict[str, Any]]:
    """How the numbers of each comparison were made: in what their records differ, and what was evaluated."""
    found: dict[Comparison, list[Record]] = defaultdict(list)
    for key, of_variant in finals.items():
        done = [fold for fold in of_variant.folds.values() if not _failed(fold)]
        found[key.comparison] += [*done, *of_variant.runs.values()]
    return {
        comparison: {
            "origins": differing_origins(record for record in records if isinstance(record, FoldRecord)),
            "evaluated": evaluated(records),
        }
        for comparison, records in found.items()
    }


def _published(key: _Key) -> str:
    return "" if key.method_code else ", ".join(published_keys(key.method, json.loads(key.hyperparameters)))


def _check_place(record: Record) -> None:
    identity, fold = record.identity, record.fold if isinstance(record, FoldRecord) else 0
    values = identity.protocol["values"]
    n_runs, n_folds = values["finals"]["n_runs"], values["folds"]["n_folds"]
    if not (1 <= identity.run <= n_runs and 0 <= fold < n_folds):
        raise ReportError(
            f"record {record.id} of {identity.method!r} is run {identity.run}, fold {fold}; "
            f"{identity.protocol['title']} has runs 1 to {n_runs} and folds 0 to {n_folds - 1}."
        )


_AnyRecord = TypeVar("_AnyRecord", FoldRecord, RunRecord)


def _agreed(known: _AnyRecord | None, new: _AnyRecord) -> _AnyRecord:
    """One of two records of the same job: a done one rather than a failed one; two done ones must agree."""
    if known is None or _failed(known):
        return new
    if not _failed(new) and new.test != known.test:
        raise ReportError(
            f"records {known.id} and {new.id} are of the same job ({new.identity.method!r}, run {new.identity.run}) "
            f"and differ: {known.test} and {new.test}. Keep one of them."
        )
    return known


def _failed(record: Record) -> bool:
    return isinstance(record, FoldRecord) and record.outcome == "failed"


def _final_rows(key: _Key, finals: _Finals) -> Iterator[dict[str, Any]]:
    values = finals.identity.protocol["values"]
    n_folds = n_final_folds(key.method, values)
    for run in _expected_runs(key, values):
        folds = [finals.folds.get((run, fold)) for fold in range(n_folds)]
        for metric in finals.identity.metrics:
            found = dict.fromkeys(SETTINGS, _separated(folds, metric))
            if is_concatenated(key.method, values):
                found["concatenated"] = _concatenated(finals.runs.get(run), metric, found["separated"][1])
            for setting in settings_of(values["folds"]["n_folds"]):
                yield _row(key, finals.identity, run, setting, metric, *found[setting])


def _missing_rows(key: _Key, identity: Identity, reason: str) -> Iterator[dict[str, Any]]:
    values = identity.protocol["values"]
    for run in _expected_runs(key, values):
        for metric in identity.metrics:
            for setting in settings_of(values["folds"]["n_folds"]):
                yield _row(key, identity, run, setting, metric, math.nan, reason)


def _expected_runs(key: _Key, values: Mapping[str, Any]) -> range:
    return range(1, n_final_runs(key.method, values) + 1)


def _separated(folds: Sequence[FoldRecord | None], metric: str) -> tuple[float, str]:
    """Mean over the folds and "", or NaN and the folds that lack the metric, grouped by what happened to them."""
    found = [_metric(fold.test if fold and fold.outcome == "done" else None, metric) for fold in folds]
    if None not in found:
        return statistics.fmean(value for value in found if value is not None), ""
    if not any(folds):
        return math.nan, "not run"
    problems: dict[str, list[int]] = {}
    for index, (fold, value) in enumerate(zip(folds, found, strict=True)):
        if fold is None:
            problems.setdefault("not run", []).append(index)
        elif fold.outcome == "failed":
            problems.setdefault(f"failed: {fold.reason or 'no reason recorded'}", []).append(index)
        elif value is None:
            problems.setdefault(f"without {metric}", []).append(index)
    return math.nan, ", ".join(f"{numbered('fold', where)} {what}" for what, where in problems.items())


def _concatenated(record: RunRecord | None, metric: str, folds_missing: str) -> tuple[float, str]:
    if record is None:
        return math.nan, folds_missing or "fold models not evaluated together"
    value = _metric(record.test, metric)
    return (math.nan, f"run record without {metric}") if value is None else (value, "")


def _metric(test: Metrics | None, metric: str) -> float | None:
    """A finite value or None: a record says "absent" by leaving a metric out, but nothing else may become a number."""
    value = (test or {}).get(metric)
    return None if value is None or not math.isfinite(value) else float(value)


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """`fold 2`, `folds 0, 2`, or `runs 2 to 10`; the numbers ascend."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 2 and last - first == len(numbers) - 1:
        return f"{noun}s {first} to {last}"
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _row(
    key: _Key, identity: Identity, run: int, setting: Setting, metric: str, value: float, missing: str
) -> dict[str, Any]:
    values = identity.protocol["values"]
    return {
        **key.comparison._asdict(),
        "dataset_name": identity.dataset["name"],
        "protocol_title": identity.protocol["title"],
        "protocol_name": values["name"],
        "n_folds": values["folds"]["n_folds"],
        "n_runs": values["finals"]["n_runs"],
        "embedding_dim": values["embedding"]["dim"],
        "primary_metric": values["evaluation"]["primary_metric"],
        "metrics_version": values["evaluation"].get("metrics_version", 1),
        "split_kind": identity.split["kind"],
        "standard_name": str(identity.dataset.get("standard_name") or ""),
        "origins": (),
        "evaluated": "",
        "method": key.method,
        "method_code": key.method_code,
        "hyperparameters": key.hyperparameters,
        "published": "",
        "run": run,
        "setting": setting,
        "metric": metric,
        "value": value,
        "missing": missing,
    }
