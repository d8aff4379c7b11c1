"""Result tables made of a data frame of runs: rows with their labels and order, cells with what is missing, marks."""

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.elsewhere import elsewhere
from reports.frame import BASELINES, COMPARISON, SETTINGS, VARIANT, Column
from reports.headings import numbered, printable, short
from reports.marks import with_best
from reports.statistics.intervals import mean_interval
from reports.tables import Cell, Row, Table
from results import external
from results.repeats import ONE_RUN


def result_tables(frame: pd.DataFrame, derivations: Mapping[str, str] | None = None) -> list[Table]:
    """One table for each protocol digest, data set and split digest of a `runs_frame`, in order of appearance.

    Args:
        frame: what `reports.frame.runs_frame` returns.
        derivations: protocol digest -> the values in which a derived protocol differs, for example
            `schedule.max_steps = 120`.
    """
    others = elsewhere(frame)
    parts = [part for _, part in frame.groupby(COMPARISON, sort=False)]
    return [_table(part, derivations or {}, found) for part, found in zip(parts, others, strict=True)]


def _table(part: pd.DataFrame, derivations: Mapping[str, str], others: tuple[str, ...]) -> Table:
    context = {str(name): value for name, value in part.iloc[0].items()}
    metrics = tuple(str(metric) for metric in part["metric"].unique())
    variants = {tuple(map(str, variant)): runs for variant, runs in part.groupby(VARIANT, sort=False)}
    labels = variant_labels(list(variants))
    rows = _rows(variants, labels, ("separated", str(context["primary_metric"])))
    is_external = context["protocol_name"] == external.NAME
    return Table(
        protocol_title=printable(context["protocol_title"]),
        protocol_digest=context["protocol_digest"],
        protocol_note=_note(context, derivations),
        dataset_name=printable(context["dataset_name"]),
        dataset_hash=context["dataset_hash"],
        split_kind=context["split_kind"],
        split_digest=context["split_digest"],
        n_folds=int(context["n_folds"]),
        n_runs=int(context["n_runs"]),
        embedding_dim=int(context["embedding_dim"]),
        primary_metric=context["primary_metric"],
        metrics_version=int(context["metrics_version"]),
        origins=tuple(context["origins"]),
        standard_name=context["standard_name"],
        n_classes=int(context["n_classes"]),
        n_images=int(context["n_images"]),
        evaluated=context["evaluated"],
        elsewhere=others,
        metrics=metrics,
        rows=tuple(with_best(rows, 0 if is_external else int(context["n_runs"]))),  # no shared seeds
        unsearched=tuple(
            label
            for variant, label in labels.items()
            if variant[0] not in {*BASELINES, *ONE_RUN} and variant[2] == "{}"
        ),
        published=tuple(
            f"{label} ({source})"
            for variant, label in labels.items()
            if (source := str(variants[variant]["published"].iloc[0]))
        ),
    )


def _rows(
    variants: Mapping[tuple[str, ...], pd.DataFrame], labels: Mapping[tuple[str, ...], str], primary: Column
) -> list[Row]:
    """Baselines in their order, then the others by ascending mean; those without one last."""
    rows = [
        Row(
            method=label,
            name=variant[0],
            code=variant[1],
            hyperparameters=variant[2],
            baseline=variant[0] in BASELINES,
            cells=_cells(variants[variant]),
        )
        for variant, label in labels.items()
    ]
    ranks = {name: rank for rank, name in enumerate(BASELINES)}

    def order(row: Row) -> tuple[bool, float, bool, float]:
        mean = row.cells[primary].mean
        return not row.baseline, ranks.get(row.name, 0), mean is None, mean or 0.0

    return sorted(rows, key=order)


def _note(context: Mapping[str, Any], derivations: Mapping[str, str]) -> str:
    notes = ["a demonstration, not a measurement"] if context["protocol_name"] == "demo" else []
    if context["protocol_name"] == external.NAME:
        notes.append(external.NOTE)
    title = str(context["protocol_title"])
    if title.endswith("+"):
        values = derivations.get(str(context["protocol_digest"]))
        notes.append(f"derived from {title[:-1]} with other values{f': {printable(values)}' if values else ''}")
    return "; ".join(notes)


def variant_labels(variants: list[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """A label for each (method, code, hyper-parameters): the name, and what tells it from others of the same name."""
    labels: dict[tuple[str, ...], str] = {}
    for variant in variants:
        method, code, hyperparameters = variant
        rivals = [other for other in variants if other[0] == method]
        marks = [code or "built in"] if len({other[1] for other in rivals}) > 1 else []
        if len({other[2] for other in rivals}) > 1:
            marks.append(_values(hyperparameters, {other[2] for other in rivals}))
        labels[variant] = printable(f"{method} ({'; '.join(marks)})" if marks else method)
    return labels


def _values(hyperparameters: str, rivals: set[str]) -> str:
    """Hyper-parameters for people: four digits of a longer number, all where a rival has another that begins so."""
    own = json.loads(hyperparameters or "{}")
    others = [json.loads(rival or "{}") for rival in rivals]
    words = []
    for name, value in own.items():
        alike = {json.dumps(other[name]) for other in others if name in other and short(other[name]) == short(value)}
        is_long = isinstance(value, float) and float(short(value)) != value
        words.append(f"{name}={short(value) if is_long and len(alike) == 1 else value}")
    return ", ".join(words) or "no winner"


def _cells(runs: pd.DataFrame) -> dict[Column, Cell]:
    cells: dict[Column, Cell] = {}
    for setting in SETTINGS:
        for metric, part in runs[runs["setting"] == setting].groupby("metric", sort=False):
            numbers = part.set_index("run")["value"].dropna()
            values = {int(run): float(number) for run, number in numbers.items()}  # type: ignore[call-overload]
            reasons: dict[str, list[int]] = {}
            for run, reason in zip(part["run"], part["missing"], strict=True):
                if reason:
                    reasons.setdefault(printable(reason), []).append(int(run))
            interval = mean_interval(values.values()) if values else None
            cells[setting, str(metric)] = Cell(
                mean=interval.mean if interval else None,
                half_width=interval.half_width if interval else None,
                n_runs=len(values),
                expected_runs=len(part),
                missing="; ".join(
                    reason if len(where) == len(part) else f"{numbered('run', where)}: {reason}"
                    for reason, where in reasons.items()
                ),
                values=values,
            )
    return cells
