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
from typing import Any, Literal

import pandas as pd

from reports.errors import ReportError
from reports.evaluated import evaluated
from reports.finals import Finals, Variant, finals_of, variant_of
from reports.headings import numbered
from reports.origins import differing_origins
from results.comparison import Comparison
from results.record import FoldRecord, Identity, Metrics, Record, RunRecord, has_failed
from results.reference.hyperparameters import published_keys
from results.repeats import is_concatenated, n_final_folds, n_final_runs

Setting = Literal["concatenated", "separated"]
SETTINGS: tuple[Setting, ...] = ("concatenated", "separated")
Column = tuple[Setting, str]  # a setting and a metric: what one number is of

BASELINES = ("pixels", "untrained", "pretrained")  # in the order in which tables show them

# Numbers meet only where all of these are equal.
COMPARISON = list(Comparison._fields)
# Said once for each comparison; a data set that was renamed is still the same by its hash.
CONTEXT = [
    *("dataset_name", "protocol_title", "protocol_name", "n_folds", "n_runs", "embedding_dim"),
    *("primary_metric", "metrics_version", "split_kind", "standard_name", "n_classes", "n_images"),
    *("origins", "evaluated"),
]
# What tells methods apart; hyperparameters are sorted JSON, "" where a search had no winner.
VARIANT = ["method", "method_code", "hyperparameters"]
COLUMNS = [*COMPARISON, *CONTEXT, *VARIANT, "published", "run", "setting", "metric", "value", "missing"]


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
    found = list(records)
    comparisons: dict[Comparison, Identity] = {}
    searched: dict[Variant, Identity] = {}
    tried: set[Variant] = set()
    for identity in (record.identity for record in found):
        comparisons.setdefault(identity.comparison, identity)
        if identity.purpose == "search":
            searched.setdefault(variant_of(identity)._replace(hyperparameters=""), identity)
            tried.add(variant_of(identity))
    finals = finals_of(found)
    if failures and len(comparisons) != 1:
        raise ReportError(
            f"failures of {', '.join(sorted(failures))} belong to one protocol, data set and split, but the records "
            f"are of {len(comparisons)}; make one frame for each."
        )
    rows = [
        {**row, "published": "" if variant in tried else _published(variant)}
        for variant, of_variant in finals.items()
        for row in _final_rows(variant, of_variant)
    ]
    winners = {variant._replace(hyperparameters="") for variant in finals}
    for variant, identity in searched.items():
        if variant not in winners and variant.method not in (failures or {}):
            rows += _missing_rows(variant, identity, "searched, no final run")
    for comparison, identity in comparisons.items():
        for method, reason in (failures or {}).items():
            rows += _missing_rows(Variant(comparison, method, "", ""), identity, reason)
    made = _made(finals)
    rows = [row | made.get(Comparison(*(row[name] for name in COMPARISON)), {}) for row in rows]
    return pd.DataFrame(rows, columns=pd.Index(COLUMNS)).astype({"value": "float64"})


def _made(finals: Mapping[Variant, Finals]) -> dict[Comparison, dict[str, Any]]:
    """How the numbers of each comparison were made: in what their records differ, and what was evaluated."""
    found: dict[Comparison, list[Record]] = defaultdict(list)
    for variant, of_variant in finals.items():
        done = [fold for fold in of_variant.folds.values() if not has_failed(fold)]
        found[variant.comparison] += [*done, *of_variant.runs.values()]
    return {
        comparison: {
            "origins": differing_origins(record for record in records if isinstance(record, FoldRecord)),
            "evaluated": evaluated(records),
        }
        for comparison, records in found.items()
    }


def _published(variant: Variant) -> str:
    return "" if variant.method_code else ", ".join(published_keys(variant.method, json.loads(variant.hyperparameters)))


def _final_rows(variant: Variant, finals: Finals) -> Iterator[dict[str, Any]]:
    values = finals.identity.protocol["values"]
    n_folds = n_final_folds(variant.method, values)
    for run in _expected_runs(variant, values):
        folds = [finals.folds.get((run, fold)) for fold in range(n_folds)]
        for metric in finals.identity.metrics:
            found = dict.fromkeys(SETTINGS, _separated(folds, metric))
            if is_concatenated(variant.method, values):
                found["concatenated"] = _concatenated(finals.runs.get(run), metric, found["separated"][1])
            for setting in settings_of(values["folds"]["n_folds"]):
                yield _row(variant, finals.identity, run, setting, metric, *found[setting])


def _missing_rows(variant: Variant, identity: Identity, reason: str) -> Iterator[dict[str, Any]]:
    values = identity.protocol["values"]
    for run in _expected_runs(variant, values):
        for metric in identity.metrics:
            for setting in settings_of(values["folds"]["n_folds"]):
                yield _row(variant, identity, run, setting, metric, math.nan, reason)


def _expected_runs(variant: Variant, values: Mapping[str, Any]) -> range:
    return range(1, n_final_runs(variant.method, values) + 1)


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


def _row(
    variant: Variant, identity: Identity, run: int, setting: Setting, metric: str, value: float, missing: str
) -> dict[str, Any]:
    values = identity.protocol["values"]
    return {
        **variant.comparison._asdict(),
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
        "n_classes": identity.dataset["n_classes"],
        "n_images": identity.dataset["n_images"],
        "origins": (),
        "evaluated": "",
        "method": variant.method,
        "method_code": variant.method_code,
        "hyperparameters": variant.hyperparameters,
        "published": "",
        "run": run,
        "setting": setting,
        "metric": metric,
        "value": value,
        "missing": missing,
    }
