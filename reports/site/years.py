"""Accuracy over publication year as geometry: methods in the order in which papers proposed them, ours beside theirs.

The picture of `reports.years` at a tenth of its size and in the colours of the page: a slot for each method, a band for
every other year. A paper's number is of the paper that ran the method, not of the one that proposed it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from reports.headings import metric_heading
from reports.site.boards import Board
from reports.site.charts import Path, Tick, ticks
from reports.years import year_of

FEWEST = 4  # methods of ours: fewer show no course of years
SLOT, LEFT, TOP, BOTTOM, LETTER = 30, 46, 40, 210, 7  # pixels; LETTER: of a name written upwards
SHAPES = ("m-3-3h6v6h-6z", "m0-4l4 4l-4 4l-4-4z", "m0-4l4 7h-8z", "m0 4l4-7h-8z")  # of papers, around a point

Interval = tuple[float, float | None]


@dataclass(frozen=True, kw_only=True)
class Years:
    """A drawn chart."""

    says: str
    y_label: str
    width: int
    height: int
    bottom: int
    names: tuple[Tick, ...]
    years: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bands: str
    paths: tuple[Path, ...]
    papers: tuple[str, ...]  # in the order of their shapes


def years(board: Board) -> Years | None:
    """The chart of a board's primary metric; None where too few of its methods have a known year."""
    column = board.primary
    ours = {
        row.name: (cell.mean, cell.half_width)
        for row in board.table.rows
        if year_of(row.name) and (cell := row.cells[column]).complete and cell.mean is not None
    }
    papers: dict[str, dict[str, Interval]] = {}
    for row in board.table.quoted:
        if year_of(row.method) and column in row.cells:
            value = row.cells[column]
            papers.setdefault(row.source, {}).setdefault(row.method, (value.mean, value.ci95_half_width))
    if len(ours) < FEWEST:
        return None
    everything = {**dict.fromkeys(ours), **{name: None for found in papers.values() for name in found}}
    methods = sorted(everything, key=lambda name: (year_of(name) or 0, name))
    return _drawn(board, methods, [("ours", ours), *papers.items()])


def _drawn(board: Board, methods: Sequence[str], series: Sequence[tuple[str, dict[str, Interval]]]) -> Years:
    ends = [
        mean + side * (half_width or 0.0)
        for _, found in series
        for mean, half_width in found.values()
        for side in (-1, 1)
    ]
    low, high = min(ends), max(ends)
    air = 0.05 * (high - low or 0.1)
    low, high = low - air, high + air

    def y(value: float) -> int:
        return round(BOTTOM - (value - low) / (high - low) * (BOTTOM - TOP))

    paths = []
    for number, (_, found) in enumerate(series):
        offset = round((number - (len(series) - 1) / 2) * 7)
        at = {name: LEFT + SLOT * methods.index(name) + SLOT // 2 + offset for name in found}
        known = [(at[name], mean, half_width) for name, (mean, half_width) in found.items()]
        spread = "".join(f"M{x} {y(mean - reach)}V{y(mean + reach)}" for x, mean, reach in known if reach)
        shape = "h0" if number == 0 else SHAPES[(number - 1) % len(SHAPES)]
        look = "ours" if number == 0 else f"paper-{(number - 1) % len(SHAPES)}"
        paths += [Path(d=spread, look=f"{look} spread")] if spread else []
        paths.append(Path(d="".join(f"M{x} {y(mean)}{shape}" for x, mean, _ in known), look=look))
    return Years(
        says=f"{len(methods)} methods by the year in which they were published, ours and {len(series) - 1} papers'",
        y_label=f"{metric_heading(board.primary[1])}, {board.table.heading(board.primary[0])}, percent",
        width=LEFT + SLOT * len(methods) + 8,
        height=BOTTOM + 14 + LETTER * max(map(len, methods)),
        bottom=BOTTOM,
        names=tuple(Tick(at=LEFT + SLOT * n + SLOT // 2 + 4, label=name) for n, name in enumerate(methods)),
        years=tuple(
            Tick(at=LEFT + (first + last + 1) * SLOT // 2, label=str(year) if last > first else f"'{year % 100:02}")
            for year, first, last in _spans(methods)
        ),
        y_ticks=tuple(Tick(at=y(value / 100), label=text) for value, text in ticks(100 * low, 100 * high, 5)),
        bands="".join(
            f"M{LEFT + first * SLOT} {TOP}h{(last + 1 - first) * SLOT}V{BOTTOM}h-{(last + 1 - first) * SLOT}z"
            for _, first, last in _spans(methods)[::2]
        ),
        paths=tuple(paths),
        papers=tuple(source for source, _ in series[1:]),
    )


def _spans(methods: Sequence[str]) -> list[tuple[int, int, int]]:
    """Each year with its first and last slot."""
    found = groupby(enumerate(methods), key=lambda item: year_of(item[1]) or 0)
    places = [(year, [place for place, _ in group]) for year, group in found]
    return [(year, slots[0], slots[-1]) for year, slots in places]
