"""One picture of a result table: its primary metric per method, each setting as a bar with its 95 % interval.

Bars start at zero; a diamond is what a paper found under the same protocol. A method without a value gets the reason in
the bar's place, and a mean that lacks runs says how many it has. `reports.style` says how it is drawn.
"""

import textwrap
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports import style
from reports.frame import Setting
from reports.headings import metric_heading
from reports.tables import Row, Table

TRAINED: dict[Setting, str] = {"concatenated": style.COLOURS[0], "separated": style.COLOURS[1]}
BASELINE: dict[Setting, str] = {"concatenated": "#7F7F7F", "separated": "#BFBFBF"}
PUBLISHED: dict[str, Any] = {
    "marker": "D", "markersize": 4.5, "markerfacecolor": "white", "markeredgecolor": "black", "linestyle": "none"
}  # fmt: skip
BAR = 0.36  # height, in units of the distance between two methods
WIDTH_IN, ROW_IN, FRAME_IN = 8.0, 0.42, 1.7  # inches: width, height for each method, height of all else
LINE_IN = 0.17  # inches: what a line of a name needs at least


def png_bytes(table: Table) -> bytes:
    """The picture as PNG, 1200 pixels wide."""
    return style.png(lambda: _figure(table))


def svg_bytes(table: Table) -> bytes:
    """The picture as SVG, without a date in it."""
    return style.svg(lambda: _figure(table))


def _figure(table: Table) -> Figure:
    labels = ["\n".join(textwrap.wrap(row.method, 34, max_lines=3)) for row in table.rows]
    row_in = max([ROW_IN, *(LINE_IN * (1 + label.count("\n")) for label in labels)])
    figure = Figure(figsize=(WIDTH_IN, FRAME_IN + row_in * len(table.rows)), layout="constrained")
    axes = figure.add_subplot()
    highest = max((_reach(row, setting, table) for row in table.rows for setting in table.settings), default=0.0)
    axes.set_xlim(0, 1.02 * highest or 1.0)
    for place, row in enumerate(table.rows):
        _draw_row(axes, place, row, table)
    axes.set_yticks(range(len(table.rows)), labels)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(table.rows) - 0.4, -0.6)  # the first row on top
    axes.set_xlabel(f"{metric_heading(table.primary_metric)} (percent), mean and 95 % interval over runs")
    axes.grid(axis="x", color=style.GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    title = "\n".join(line for part in table.title() for line in textwrap.wrap(part, 95))
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    handles: list[Artist] = [Patch(color=TRAINED[setting], label=table.heading(setting)) for setting in table.settings]
    if any(row.baseline for row in table.rows):
        handles.append(Patch(color=BASELINE[table.settings[0]], label="Baselines: the same order in gray"))
    if any(row.same_protocol for row in table.quoted):
        handles.append(Line2D([], [], label="As published under this protocol", **PUBLISHED))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _published(row: Row, setting: Setting, table: Table) -> float | None:
    """What a paper found with this method under this very protocol."""
    column = (setting, table.primary_metric)
    found = (one.cells.get(column) for one in table.quoted if one.same_protocol and one.method == row.name)
    return next((value.mean for value in found if value), None)


def _reach(row: Row, setting: Setting, table: Table) -> float:
    """The right end of a bar with its interval, in percent."""
    cell = row.cells[setting, table.primary_metric]
    return 100 * ((cell.mean or 0.0) + (cell.half_width or 0.0))


def _draw_row(axes: Axes, place: int, row: Row, table: Table) -> None:
    cells = {setting: row.cells[setting, table.primary_metric] for setting in table.settings}
    middles = (place - BAR / 2, place + BAR / 2) if len(cells) > 1 else (float(place),)
    reasons = {cell.missing for cell in cells.values() if cell.mean is None}
    if len(reasons) == 1 and all(cell.mean is None for cell in cells.values()):
        _write(axes, 0.0, place, f"missing: {reasons.pop()}")
        return
    for (setting, cell), middle in zip(cells.items(), middles, strict=True):
        end = _reach(row, setting, table)
        if cell.mean is None:
            _write(axes, end, middle, f"missing: {cell.missing}")
            continue
        axes.barh(middle, 100 * cell.mean, height=BAR, color=(BASELINE if row.baseline else TRAINED)[setting])
        if cell.half_width is not None:
            axes.errorbar(100 * cell.mean, middle, xerr=100 * cell.half_width, color="black", linewidth=1, capsize=2)
        published = _published(row, setting, table)
        if published is not None:
            axes.plot(100 * published, middle, **PUBLISHED)
        if not cell.complete:
            _write(axes, max(end, 100 * (published or 0.0)), middle, f"{cell.n_runs} of {cell.expected_runs} runs")


def _write(axes: Axes, x: float, y: float, words: str) -> None:
    axes.annotate(
        textwrap.wrap(words, 90, max_lines=1, placeholder=" ...")[0],
        (x, y),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=7,
        color=style.REMARK,
    )
