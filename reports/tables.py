"""Result tables as plain values: per method, setting and metric a mean over runs, its interval and what is missing.

One table holds one protocol digest, data set and split digest; there is no way to put two into one. Numbers stay
fractions here; percent begins in `reports.render`. A mean over fewer runs than the protocol asks for keeps its count
and its reasons, and is never best.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from reports.frame import BASELINES, COMPARISON, SETTINGS, VARIANT, Setting, numbered, settings_of
from reports.statistics import mean_interval
from results.repeats import ONE_EMBEDDING, ONE_RUN

METRICS = {  # heading and definition; R = images of the query's class other than the query
    "precision_at_1": ("P@1", "share of queries whose nearest neighbour is of their class"),
    "r_precision": ("R-precision", "share of hits among the R nearest neighbours"),
    "map_at_r": ("MAP@R", "1/R x sum over ranks j <= R of the precision at j where the j-th neighbour is a hit"),
}

RECALL_AT = "recall_at_"  # and the K
ON_FEATURES = ONE_RUN - ONE_EMBEDDING | {"itml", "mmc"}  # of the frozen trunk
ON_FEATURES_NOTE = (
    "Not trained, the trunk is frozen: pretrained (its features by PCA, fitted on the test images; one run of one "
    "model) and the linear metrics euclidean, whitened, within-class, nca, lmnn (one run: nothing is random), itml and "
    "mmc, on its features or, where its weights are random, on the image itself."
)
SPLIT_NOTES = {
    "wrapped": "Wrapped split: a few train classes may be in no fold's validation part.",
    "holdout": "Holdout split: the train classes that validate, and so pick the best step, are not trained on.",
}
DATASET_NOTES = {
    "cub200": "CUB-200-2011: its authors warn that some of its images are in ImageNet too; a pretrained trunk may have "
    "seen test images.",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A mean over runs in fractions. `mean` is None without a run, `half_width` also with one."""

    mean: float | None
    half_width: float | None
    n_runs: int
    expected_runs: int
    missing: str  # which runs are missing and why; "" if none is
    best: bool = False  # highest mean of its column among the trained methods, with no run missing

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

    def footer(self) -> list[str]:
        """What a reader needs to know of the numbers: definitions, ties, runs, intervals, order."""
        definitions = [f"{METRICS[name][0]}: {METRICS[name][1]}." for name in self.metrics if name in METRICS]
        if any(name.startswith(RECALL_AT) for name in self.metrics):
            definitions.append("R@K: share of queries with one of their class among the K nearest neighbours.")
        runs = "1 run" if self.n_runs == 1 else f"{self.n_runs} runs"
        settings = (
            f"Separated: mean over the {self.n_folds} fold models of a run. Concatenated: their embeddings side by "
            "side. pixels: the images themselves, one run, the same in both."
            if self.n_folds > 1
            else "A run is one model; nothing is concatenated. pixels: the images themselves, one run."
        )
        differing = "; ".join(printable(line) for line in self.origins)
        return [
            *([f"Not made alike, which can move numbers: {differing}."] if differing else []),
            f"Metrics version {self.metrics_version}.",
            *definitions,
            "R: images of the query's class other than the query; queries with R = 0 are left out. "
            "Equal distances: smaller reference index first.",
            f"Percent: mean ± half width of the 95 % Student t-interval over {runs} (one run has none). "
            "Runs differ by seed only; all methods share the seeds.",
            settings,
            *([ON_FEATURES_NOTE] if any(row.method.partition(" (")[0] in ON_FEATURES for row in self.rows) else []),
            *([SPLIT_NOTES[self.split_kind]] if self.split_kind in SPLIT_NOTES else []),
            *([DATASET_NOTES[self.dataset_name]] if self.dataset_name in DATASET_NOTES else []),
            *([f"Not searched, run with its own defaults: {', '.join(self.unsearched)}."] if self.unsearched else []),
            *([f"Not searched, run with published values: {', '.join(self.published)}."] if self.published else []),
            f"Order: baselines, then ascending {'separated ' if self.n_folds > 1 else ''}"
            f"{metric_heading(self.primary_metric)}. Bold: highest mean of the trained methods; none where the highest "
            "lacks runs.",
        ]


def metric_heading(metric: str) -> str:
    """`MAP@R` for `map_at_r`, `R@10` for `recall_at_10`; a name without a heading stands for itself."""
    if metric.startswith(RECALL_AT):
        return f"R@{metric.removeprefix(RECALL_AT)}"
    return METRICS[metric][0] if metric in METRICS else metric


def result_tables(frame: pd.DataFrame, derivations: Mapping[str, str] | None = None) -> list[Table]:
    """One table for each protocol digest, data set and split digest of a `runs_frame`, in order of appearance.

    Args:
        frame: what `reports.frame.runs_frame` returns.
        derivations: protocol digest -> the values in which a derived protocol differs, for example
            `schedule.max_steps = 120`.
    """
    return [_table(part, derivations or {}) for _, part in frame.groupby(COMPARISON, sort=False)]


def _table(part: pd.DataFrame, derivations: Mapping[str, str]) -> Table:
    context = {str(name): value for name, value in part.iloc[0].items()}
    metrics = tuple(str(metric) for metric in part["metric"].unique())
    variants = {tuple(map(str, variant)): runs for variant, runs in part.groupby(VARIANT, sort=False)}
    labels = variant_labels(list(variants))
    rows = [
        Row(method=label, baseline=variant[0] in BASELINES, cells=_cells(variants[variant]))
        for variant, label in labels.items()
    ]
    primary: tuple[Setting, str] = ("separated", str(context["primary_metric"]))
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
        metrics=metrics,
        rows=tuple(_with_best(sorted(rows, key=order))),
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


def printable(text: str) -> str:
    """Text on one line without control characters: names come from files and from other people's records."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def _cells(runs: pd.DataFrame) -> dict[tuple[Setting, str], Cell]:
    cells: dict[tuple[Setting, str], Cell] = {}
    for setting in SETTINGS:
        for metric, part in runs[runs["setting"] == setting].groupby("metric", sort=False):
            values = part["value"].dropna()
            reasons: dict[str, list[int]] = {}
            for run, reason in zip(part["run"], part["missing"], strict=True):
                if reason:
                    reasons.setdefault(printable(reason), []).append(int(run))
            interval = mean_interval(values) if len(values) else None
            cells[setting, str(metric)] = Cell(
                mean=interval.mean if interval else None,
                half_width=interval.half_width if interval else None,
                n_runs=len(values),
                expected_runs=len(part),
                missing="; ".join(
                    reason if len(where) == len(part) else f"{numbered('run', where)}: {reason}"
                    for reason, where in reasons.items()
                ),
            )
    return cells


def _with_best(rows: list[Row]) -> list[Row]:
    """Mark each column's highest mean. An incomplete mean that leads leaves the column without a mark."""
    highest: dict[tuple[Setting, str], float] = {}
    for row in rows:
        for column, cell in row.cells.items():
            if not row.baseline and cell.mean is not None:
                highest[column] = max(cell.mean, highest.get(column, cell.mean))

    def marked(row: Row, column: tuple[Setting, str], cell: Cell) -> Cell:
        return replace(cell, best=not row.baseline and cell.complete and cell.mean == highest.get(column))

    return [replace(row, cells={key: marked(row, key, cell) for key, cell in row.cells.items()}) for row in rows]
