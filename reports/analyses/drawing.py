"""What every figure is: a subject, a data frame that becomes its CSV, and a way to draw it; and what figures share.

Fractions in the data frame and percent in the picture, as in tables. One picture holds one protocol, data set and
split; it says so above, and what a reader could get wrong about it below.
"""

import json
import textwrap
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from reports.errors import ReportError
from reports.headings import printable, short
from reports.plain_csv import csv_text
from reports.style import COLOURS, GRID, REMARK
from results.record import Identity, Record

MARKERS = "os^DvPX*"
DASHES = ("-", "--", ":", "-.")


class Subject(NamedTuple):
    """What one picture is of, which is also what every line of its CSV begins with."""

    protocol: str
    protocol_digest: str
    dataset: str
    dataset_hash: str
    split: str
    split_digest: str
    method: str = ""  # "" where one picture holds all methods
    method_code: str = ""
    hyperparameters: str = ""  # sorted JSON, where runs of other values would be another picture

    def title(self) -> tuple[str, ...]:
        """Two lines, or three with a method."""
        values = ", ".join(f"{name}={short(value)}" for name, value in json.loads(self.hyperparameters or "{}").items())
        method = " ".join(
            filter(None, (self.method, self.method_code and f"({self.method_code})", values and f"({values})"))
        )
        lines = (
            method,
            f"Protocol {self.protocol} ({self.protocol_digest})",
            f"Data set {self.dataset} ({self.dataset_hash[:12]}), {self.split} split ({self.split_digest[:12]})",
        )
        return tuple(printable(line) for line in lines if line)

    def stem(self) -> str:
        """A part of a file name that tells subjects apart: names for people, fingerprints for the rest."""
        prints = f"{self.protocol_digest[:6]}-{self.dataset_hash[:6]}-{self.split_digest[:6]}"
        values = self.hyperparameters and sha256(self.hyperparameters.encode()).hexdigest()[:6]
        return "-".join(filter(None, (self.protocol, self.dataset, self.method, self.method_code[:6], values, prints)))


def subject_of(identity: Identity, *, with_method: bool, with_values: bool = False) -> Subject:
    """The subject of a record's picture."""
    return Subject(
        protocol=identity.protocol["title"],
        protocol_digest=identity.protocol["digest"],
        dataset=identity.dataset["name"],
        dataset_hash=identity.dataset["content_hash"],
        split=identity.split["kind"],
        split_digest=identity.split["digest"],
        method=identity.method if with_method else "",
        method_code=identity.method_code if with_method else "",
        hyperparameters=identity.hyperparameters_text if with_values else "",
    )


def by_subject(
    records: Iterable[Record], *, with_method: bool, with_values: bool = False
) -> dict[Subject, list[Record]]:
    """Records of one picture together, in the order of their first one. A renamed data set is the same by its hash."""
    found: dict[Hashable, tuple[Subject, list[Record]]] = {}
    for record in records:
        subject = subject_of(record.identity, with_method=with_method, with_values=with_values)
        key = subject._replace(protocol="", dataset="", split="")
        found.setdefault(key, (subject, []))[1].append(record)
    return dict(found.values())


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One picture and the numbers behind it."""

    subject: Subject
    data: pd.DataFrame
    paint: Callable[[Figure], None]  # onto an empty figure; what is drawn is what `data` holds
    notes: tuple[str, ...]  # below the picture: how to read it
    size_in: tuple[float, float] = (8.0, 5.0)

    def figure(self) -> Figure:
        """The picture, to be made within the style of `reports.style`."""
        figure = Figure(figsize=self.size_in, layout="constrained")
        width = round(12 * self.size_in[0])  # characters
        figure.suptitle(_wrapped(self.subject.title(), width), fontsize=9, x=0.01, ha="left")
        figure.supxlabel(_wrapped(self.notes, round(1.6 * width)), fontsize=7, x=0.01, ha="left", color=REMARK)
        self.paint(figure)
        return figure

    def csv(self) -> str:
        """The numbers, each line with its subject; what does not exist is empty."""
        own = {name: value for name, value in self.subject._asdict().items() if value and name not in self.data}
        return csv_text(pd.concat([pd.DataFrame([own] * len(self.data), index=self.data.index), self.data], axis=1))


def _wrapped(lines: Iterable[str], width: int) -> str:
    return "\n".join(part for line in lines for part in textwrap.wrap(line, width))


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """The pictures of one figure, and the subjects that could not have one, each with the reason."""

    drawings: tuple[Drawing, ...]
    left_out: tuple[str, ...]


def gallery(parts: Iterable[Drawing | str], nothing: str) -> Gallery:
    """What was drawn, and what was left out with the reason.

    Raises:
        ReportError: if nothing was drawn, with the reasons, or with `nothing` where there was no subject at all.
    """
    found = list(parts)
    drawings = tuple(part for part in found if isinstance(part, Drawing))
    left_out = tuple(part for part in found if isinstance(part, str))
    if not drawings:
        raise ReportError("; ".join(left_out) or nothing)
    return Gallery(drawings=drawings, left_out=left_out)


def open_axes(axes: Axes, x_label: str, y_label: str) -> None:
    """Axes with a left side, a pale grid and labels."""
    axes.spines["left"].set_visible(True)
    axes.grid(axis="both", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)


def log_scale(axes: Axes, values: pd.Series) -> None:
    """A logarithmic x axis for positive values, with plain numbers: more of them where it spans few decades."""
    axes.set_xscale("log")
    if values.min() == values.max():  # limits of no width would show nothing, not even the point
        axes.set_xlim(values.min() / 2, values.max() * 2)
    is_narrow = values.max() < 20 * values.min()
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0) if is_narrow else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())


def line_look(place: int) -> dict[str, Any]:
    """Colour, marker and dash of one line among several: no two alike below 32, and no two by colour alone."""
    n = len(COLOURS)
    return {"color": COLOURS[place % n], "marker": MARKERS[place % n], "linestyle": DASHES[place // n % len(DASHES)]}
