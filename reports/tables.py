"""Result tables as plain values: per method, setting and metric a mean over runs, its interval and what is missing.

One table holds one protocol digest, data set and split digest; there is no way to put two into one. Numbers stay
fractions here; percent begins in `reports.grid`. A mean over fewer runs than the protocol asks for keeps its count
and its reasons, and is never best.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reports.frame import Column, Setting, settings_of
from reports.headings import RECALL_AT
from reports.notes import footer, warning
from results.comparison import Comparison
from results.reference.published import PublishedValue


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

    def for_runs(self, n_runs: int) -> Mapping[int, float]:
        """The values by run; where nothing is random, the one value stands for every run."""
        if self.expected_runs > 1 or not self.values:
            return self.values
        return dict.fromkeys(range(1, n_runs + 1), *self.values.values())


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method; its label tells variants of one name apart and holds printable characters only."""

    method: str
    baseline: bool
    cells: Mapping[Column, Cell]  # by setting and metric
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
    same_protocol: bool  # as that of the table beside which it stands, and on the data set as it was published
    n_runs: int | None  # None: not stated
    cells: Mapping[Column, PublishedValue]
    same_images: bool = True  # False: the table is on a part of the published data set, or on another

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
    n_classes: int = 0  # of the whole data set
    n_images: int = 0
    evaluated: str = ""  # what the metrics are over: queries, left out, R
    elsewhere: tuple[str, ...] = ()  # methods without a number here that have some under another fingerprint
    quoted: tuple[QuotedRow, ...] = ()

    @property
    def comparison(self) -> Comparison:
        """The fingerprints under which all of it was made."""
        return Comparison(self.protocol_digest, self.dataset_hash, self.split_digest)

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
