"""A result table as lines of text, the same for every form that people read: percent begins here.

A mean that lacks runs carries a dagger; a paper's number that does not exist is a dash. What bold, a gap or italics
look like is the form's own affair.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from reports.frame import Column, Setting
from reports.headings import metric_heading
from reports.tables import Cell, QuotedRow, Row, Table

LACKS_RUNS = "†"
NOTE = f"{LACKS_RUNS} Runs are missing:"
ELSEWHERE = "Not in this table, as the fingerprint is another:"
ABSENT = "–"

Kind = Literal["baseline", "trained", "quoted"]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One row, with a text for each column and whether it is bold."""

    kind: Kind
    section: str  # rows of one section stand together
    label: str
    numbers: tuple[tuple[str, bool], ...]
    runs: str


def lines(table: Table, columns: Sequence[Column], counted: Sequence[Setting]) -> list[Line]:
    """The rows with these columns; `counted` are the settings whose fewest runs the last text tells.

    A paper's row without a number in any of them is left out.
    """
    own = [
        Line(
            kind="baseline" if row.baseline else "trained",
            section="baselines" if row.baseline else "ours",
            label=row.method,
            numbers=tuple((percent(row.cells[column]), row.cells[column].best) for column in columns),
            runs=_runs(row, counted) if counted else "",
        )
        for row in table.rows
    ]
    quoted = [
        Line(
            kind="quoted",
            section=f"{row.source}, {row.protocol}",
            label=row.label,
            numbers=tuple((_quoted_percent(row, column), False) for column in columns),
            runs=str(row.n_runs or "?"),
        )
        for row in table.quoted
        if any(column in row.cells for column in columns)
    ]
    return [*own, *quoted]


def columns_of(table: Table) -> list[Column]:
    """All columns, block by block."""
    return [(setting, metric) for setting, metrics in table.blocks for metric in metrics]


def headings(table: Table) -> list[str]:
    """`Separated MAP@R`, or `MAP@R` where there is one setting."""
    return [
        f"{setting.capitalize()} {metric_heading(metric)}" if len(table.settings) > 1 else metric_heading(metric)
        for setting, metric in columns_of(table)
    ]


def remarks(table: Table) -> Iterator[tuple[str, list[str]]]:
    """What is missing and where it is, each under a heading; nothing where nothing is."""
    for heading, found in ((NOTE, table.missing()), (ELSEWHERE, list(table.elsewhere))):
        if found:
            yield heading, found


def ends_section(line: Line, following: Line | None) -> bool:
    """Whether rows of another section follow."""
    return following is not None and following.section != line.section


def percent(cell: Cell) -> str:
    """`12.34 ± 0.56`, `12.34` for one run, `12.34 ± 0.56†` where runs are missing, `missing†` where all are."""
    dagger = "" if cell.complete else LACKS_RUNS
    return f"{'missing' if cell.mean is None else percent_text(cell.mean, cell.half_width)}{dagger}"


def percent_text(mean: float, half_width: float | None, sign: Literal["", "+"] = "") -> str:
    """`12.34 ± 0.56`, or `12.34` without an interval; `sign` for differences, which may be above or below 0."""
    return f"{100 * mean:{sign}.2f}" + ("" if half_width is None else f" ± {100 * half_width:.2f}")


def _quoted_percent(row: QuotedRow, column: Column) -> str:
    value = row.cells.get(column)
    return ABSENT if value is None else percent_text(value.mean, value.ci95_half_width)


def _runs(row: Row, settings: Sequence[Setting]) -> str:
    """`9/10`: the fewest runs behind a number of the row, and the runs that the protocol asks for."""
    fewest = min((cell for key, cell in row.cells.items() if key[0] in settings), key=lambda cell: cell.n_runs)
    return f"{fewest.n_runs}/{fewest.expected_runs}"
