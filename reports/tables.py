"""Result tables as plain values: per method, setting and metric a mean over runs, its interval and what is missing.

One table holds one protocol digest, data set and split digest; there is no way to put two into one. Numbers stay
fractions here; percent begins in `reports.render`. A mean over fewer runs than the protocol asks for keeps its count
and its reasons, and is never best.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from reports.elsewhere import elsewhere
from reports.frame import BASELINES, COMPARISON, SETTINGS, VARIANT, Setting, numbered, settings_of
from reports.headings import RECALL_AT, printable
from reports.marks import with_best
from reports.notes import footer, warning
from reports.statistics.intervals import mean_interval
from results import external
from results.reference.published import PublishedValue
from results.repeats import ONE_RUN


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A mean over runs in fractions. `mean` is None without a run, `half_width` also with one."""

    mean: float | None
    half_width: float | None
    n_runs: int
    expected_runs: int
    missing: str  # which runs are missing and why; "" if none is
    best: bool = False  # of the trained methods the best of its column, or not distinguishable from it
    values: Mapping[int, float] = field(default_factory=dict)  # by run

    @property
    def complete(self) -> bool:
        """Whether every run that the protocol asks for is in the mean."""
        return self.n_runs == self.expected_runs


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method; its label tells variants of one name apart and holds printable characters only."""

    method: str
    baseline: bool
    cells: Mapping[tuple[Setting, str], Cell]  # by setting and metric
    name: str = ""  # the method's own
    code: str = ""  # that of a method which does not ship with the package
    hyperparameters: str = ""  # sorted JSON; "" where a search had no winner


@dataclass(frozen=True, kw_only=True)
class QuotedRow:
    """A method in one paper's table: numbers of other people's runs, never tested or ordered among ours."""

    method: str  # our name
    source: str  # of `results.reference.published.PAPERS`
    table: str
    protocol: str  # a title of ours where that was followed, else in words
    same_protocol: bool  # as that of the table beside which it stands
    n_runs: int | None  # None: not stated
    cells: Mapping[tuple[Setting, str], PublishedValue]

    @property
    def label(self) -> str:
        """`contrastive [musgrave2020]`."""
        return f"{self.method} [{self.source}]"


@dataclass(frozen=True, kw_only=True)
class Table:
    """The results of one protocol on one data set and split. Rows: baselines, then by ascending separated metric."""

    protocol_title: str
    protocol_digest: str
    protocol_note: str  # "" for a published protocol; else what its numbers must not be taken for
    dataset_name: str
    dataset_hash: str
    split_kind: str
    split_digest: str
    n_folds: int
    n_runs: int
    embedding_dim: int
    primary_metric: str
    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    unsearched: tuple[str, ...] = ()  # trained methods that had no search space
    published: tuple[str, ...] = ()  # methods with a paper's hyper-parameters, each with where these are from
    metrics_version: int = 1  # of the definitions
    origins: tuple[str, ...] = ()  # in what the records differ beside the method: versions, devices, ...
    standard_name: str = ""  # of a data set of the papers
    evaluated: str = ""  # what the metrics are over: queries, left out, R
    elsewhere: tuple[str, ...] = ()  # methods without a number here that have some under another fingerprint
    quoted: tuple[QuotedRow, ...] = ()

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that the protocol has."""
        return settings_of(self.n_folds)

    @property
    def blocks(self) -> tuple[tuple[Setting, tuple[str, ...]], ...]:
        """What is shown as one: a setting with its recall@K, which are many, or with its other metrics."""
        recalls = tuple(metric for metric in self.metrics if metric.startswith(RECALL_AT))
        others = tuple(metric for metric in self.metrics if metric not in recalls)
        return tuple((setting, found) for setting in self.settings for found in (recalls, others) if found)

    def heading(self, setting: Setting) -> str:
        """`Concatenated (4 x 128 = 512-D)`, `Separated (128-D)` or `One model (512-D)`."""
        if self.n_folds == 1:
            return f"One model ({self.embedding_dim}-D)"
        if setting == "separated":
            return f"Separated ({self.embedding_dim}-D)"
        return f"Concatenated ({self.n_folds} x {self.embedding_dim} = {self.n_folds * self.embedding_dim}-D)"

    def title(self) -> tuple[str, str]:
        """Two lines: the protocol with what it is not, and the data set with its split; each with its fingerprint."""
        note = f": {self.protocol_note}" if self.protocol_note else ""
        dataset = f"{self.dataset_name} ({self.dataset_hash[:12]})"
        return (
            f"Protocol {self.protocol_title} ({self.protocol_digest}){note}",
            f"Data set {dataset}, {self.split_kind} split ({self.split_digest[:12]})",
        )

    def missing(self) -> list[str]:
        """One line for each method that lacks runs: how many it has, which it lacks and why."""
        lines: dict[str, list[Setting]] = {}
        for row in self.rows:
            for (setting, _), cell in row.cells.items():
                if not cell.complete:
                    line = f"{row.method}: {cell.n_runs} of {cell.expected_runs} runs; {cell.missing}"
                    settings = lines.setdefault(line, [])
                    settings += [] if setting in settings else [setting]
        everywhere = len(self.settings)
        return [line + ("" if len(found) == everywhere else f" ({found[0]})") for line, found in lines.items()]

    def warning(self) -> str:
        """In what the records behind the numbers differ beside the method; "" where they were made alike."""
        return warning(self)

    def footer(self) -> list[str]:
        """What a reader needs to know of the numbers: definitions, ties, runs, intervals, order."""
        return footer(self)


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
    primary: tuple[Setting, str] = ("separated", str(context["primary_metric"]))
    is_external = context["protocol_name"] == external.NAME
    ranks = {name: rank for rank, name in enumerate(BASELINES)}

    def order(row: Row) -> tuple[bool, float, bool, float]:
        mean = row.cells[primary].mean
        return not row.baseline, ranks.get(row.method, 0), mean is None, mean or 0.0

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
        primary_metric=primary[1],
        metrics_version=int(context["metrics_version"]),
        origins=tuple(context["origins"]),
        standard_name=context["standard_name"],
        evaluated=context["evaluated"],
        elsewhere=others,
        metrics=metrics,
        rows=tuple(with_best(sorted(rows, key=order), 0 if is_external else int(context["n_runs"]))),  # no shared seeds
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
            values = json.loads(hyperparameters or "{}")
            marks.append(", ".join(f"{name}={value}" for name, value in values.items()) or "no winner")
        labels[variant] = printable(f"{method} ({'; '.join(marks)})" if marks else method)
    return labels


def _cells(runs: pd.DataFrame) -> dict[tuple[Setting, str], Cell]:
    cells: dict[tuple[Setting, str], Cell] = {}
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
