"""Accuracy over publication year: each method in the order in which papers proposed them, ours beside the papers'.

Methods stand side by side, not on an axis of time, as six of them are of one year; a band groups each year. A paper's
number is of the paper that ran the method under one protocol with others, not of the one that proposed it.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports import style
from reports.frame import Column, Setting
from reports.headings import metric_heading
from reports.tables import Cell, QuotedRow, Row, Table

YEARS = {  # of the paper that the method's entry names first
    "nca": 2004,
    "siamese-chopra": 2005,
    "within-class": 2005,
    "contrastive": 2006,
    "contrastive-hadsell": 2006,
    "itml": 2007,
    "lmnn": 2009,
    "triplet": 2009,
    "triplet-semihard": 2015,
    "lifted": 2016,
    "n-pairs": 2016,
    "ntxent": 2016,
    "margin": 2017,
    "margin-class": 2017,
    "margin-dw": 2017,
    "norm-softmax": 2017,
    "proxy-nca": 2017,
    "sphereface": 2017,
    "cosface": 2018,
    "arcface": 2019,
    "fastap": 2019,
    "ms": 2019,
    "ms-miner": 2019,
    "norm-softmax-sampled": 2019,
    "snr": 2019,
    "soft-triple": 2019,
    "soft-triple-s": 2019,
    "contrastive-cosine": 2020,
    "proxy-anchor": 2020,
    "proxy-nca++": 2020,
    "mmc": 2002,
}
COMPOSED = {"xbm-": 2020, "hpl-": 2022, "ccp-": 2024}  # a base loss with these before its name

OURS = style.COLOURS[0]
MARKERS = "Ds^vP"  # by paper
PAPER_COLOURS = tuple(style.COLOURS[place] for place in (3, 2, 4, 1, 6))
SLOT_IN, FRAME_IN, HEIGHT_IN = 0.36, 1.4, 5.2  # inches: width of a method and of all else, height
CHARACTERS_AN_INCH = 12  # of the title, at most
SPREAD = 0.3  # half a slot's share in which the points of one method stand


@dataclass(frozen=True)
class _Point:
    """A mean in percent with its half width, at a place within the slot of its method."""

    place: float
    mean: float
    half_width: float | None


def year_of(method: str) -> int | None:
    """The year in which a method was proposed; None where it is not known here, as of a user's own loss."""
    return next((year for start, year in COMPOSED.items() if method.startswith(start)), YEARS.get(method))


def years_figure(table: Table, setting: Setting | None = None) -> Figure:
    """The primary metric of a table with its quoted rows; the last setting but separated, where there are two."""
    column = (setting or table.settings[0], table.primary_metric)
    ours = {row.name: row for row in table.rows if year_of(row.name) and _is_whole(row.cells.get(column))}
    theirs = [row for row in table.quoted if year_of(row.method) and column in row.cells]
    methods = sorted(dict.fromkeys([*ours, *(row.method for row in theirs)]), key=lambda name: (year_of(name), name))
    slots = {method: place for place, method in enumerate(methods)}
    figure = Figure(figsize=(max(5.0, FRAME_IN + SLOT_IN * len(slots)), HEIGHT_IN), layout="constrained")
    axes = figure.add_subplot()
    _bands(axes, methods)
    papers = list(dict.fromkeys(row.source for row in theirs))
    _draw(axes, [_own(row, slots, column, bool(papers)) for row in ours.values()], OURS, "o", "ours")
    for number, source in enumerate(papers):
        points = [_quoted(row, slots, column, number, len(papers)) for row in theirs if row.source == source]
        looks = number % len(MARKERS)
        label = f"{source}, {_protocols(theirs, source)}"
        _draw(axes, points, PAPER_COLOURS[looks], MARKERS[looks], label, hollow=True)
    axes.set_xticks(range(len(methods)), methods, rotation=90)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(methods) - 0.4)
    axes.set_ylabel(f"{metric_heading(column[1])}, percent")
    axes.grid(axis="y", color=style.GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    title = [*table.title(), f"{table.heading(column[0])}: ours, and as published with the protocol"]
    lines = [line for part in title for line in textwrap.wrap(part, int(CHARACTERS_AN_INCH * figure.get_figwidth()))]
    figure.suptitle("\n".join(lines), fontsize=9, x=0.01, ha="left")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def years_svg(table: Table) -> bytes:
    """The picture as SVG."""
    return style.svg(lambda: years_figure(table))


def years_png(table: Table) -> bytes:
    """The picture as PNG."""
    return style.png(lambda: years_figure(table))


def _is_whole(cell: Cell | None) -> bool:
    return cell is not None and cell.complete and cell.mean is not None


def _protocols(rows: Iterable[QuotedRow], source: str) -> str:
    found = [row for row in rows if row.source == source]
    named = ("this protocol" if row.same_protocol else row.protocol for row in found)
    return "; ".join(dict.fromkeys(named)) + ("" if all(row.same_images for row in found) else ", other images")


def _bands(axes: Axes, methods: Sequence[str]) -> None:
    """A band for every other year, each with its year on top."""
    start = 0
    for number, (year, found) in enumerate(groupby(methods, key=year_of)):
        end = start + len(list(found))
        if number % 2:
            axes.axvspan(start - 0.5, end - 0.5, color="#F3F3F3", zorder=0)
        axes.text((start + end - 1) / 2, 1.01, str(year), transform=axes.get_xaxis_transform(), ha="center", fontsize=7)
        start = end


def _own(row: Row, slots: dict[str, int], column: Column, beside: bool) -> _Point:
    cell = row.cells[column]
    return _Point(slots[row.name] - (SPREAD if beside else 0.0), cell.mean or 0.0, cell.half_width)


def _quoted(row: QuotedRow, slots: dict[str, int], column: Column, number: int, n_papers: int) -> _Point:
    """The papers share what ours leaves of the slot."""
    value = row.cells[column]
    place = slots[row.method] + 2 * SPREAD * (number + 1) / n_papers - SPREAD
    return _Point(place, value.mean, value.ci95_half_width)


def _draw(axes: Axes, points: Iterable[_Point], colour: str, marker: str, label: str, *, hollow: bool = False) -> None:
    found = list(points)
    if not found:
        return
    axes.errorbar(
        [point.place for point in found],
        [100 * point.mean for point in found],
        yerr=[100 * (point.half_width or 0.0) for point in found],
        fmt=marker,
        markersize=4.5,
        color=colour,
        markerfacecolor="white" if hollow else colour,
        elinewidth=1,
        capsize=1.5,
        label=label,
    )
