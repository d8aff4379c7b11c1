"""Published numbers, 671 rows in `published.csv`, as fractions in [0, 1] and in our names; `SOURCES.md` says whence.

They stand beside our own results, never in the same row: a paper's number has no protocol digest. `protocol` is a
protocol's title where ours follows that paper (`mlrc@1`, `ccp@1`) and plain words elsewhere. `status` says how
far a value was checked: "verified" (two public texts agree), "paper" (read in the paper alone), "second-hand" (read in
one text that quotes the paper). An interval is over runs, 95 %, as half its width; most papers print none.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Status = Literal["verified", "paper", "second-hand"]
PAPERS = {  # by source
    "musgrave2020": "Musgrave, Belongie, Lim: A Metric Learning Reality Check, ECCV 2020",
    "gurbuz2024": "Gurbuz, Can, Alatan: Deep Metric Learning with Chance Constraints, WACV 2024",
    "yang2022": "Yang et al.: Hierarchical Proxy-based Loss for Deep Metric Learning, WACV 2022",
}
STATUSES: dict[str, Status] = {"verified": "verified", "paper": "paper", "second-hand": "second-hand"}


@dataclass(frozen=True, kw_only=True)
class PublishedValue:
    """One number of one table."""

    source: str  # first author and year: musgrave2020, gurbuz2024, yang2022
    table: str
    protocol: str
    dataset: str
    method: str  # our name, as records have it; two of the rows are a difference, written "a - b"
    method_as_printed: str
    setting: str  # concatenated, separated or conventional
    metric: str
    mean: float
    ci95_half_width: float | None
    n_runs: int | None  # None: not stated
    status: Status
    note: str


def published_values(
    protocol: str | None = None,
    dataset: str | None = None,
    method: str | None = None,
    setting: str | None = None,
    metric: str | None = None,
) -> list[PublishedValue]:
    """The published values that match what is given, in the order of the papers and their tables."""
    wanted = {"protocol": protocol, "dataset": dataset, "method": method, "setting": setting, "metric": metric}
    chosen = {name: value for name, value in wanted.items() if value is not None}
    return [row for row in _rows() if all(getattr(row, name) == value for name, value in chosen.items())]


@cache
def _rows() -> tuple[PublishedValue, ...]:
    text = files(__package__).joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(_value(row) for row in csv.DictReader(text.splitlines()))


def _value(row: dict[str, str]) -> PublishedValue:
    return PublishedValue(
        source=row["source"],
        table=row["table"],
        protocol=row["protocol"],
        dataset=row["dataset"],
        method=row["method"],
        method_as_printed=row["method_as_printed"],
        setting=row["setting"],
        metric=row["metric"],
        mean=float(row["mean"]),
        ci95_half_width=float(row["ci95_half_width"]) if row["ci95_half_width"] else None,
        n_runs=int(row["n_runs"]) if row["n_runs"] else None,
        status=STATUSES[row["status"]],
        note=row["note"],
    )
