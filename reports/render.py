"""A result table for people and programs: terminal, Markdown, CSV and JSON values.

Percent exists only in the two forms for people; CSV and JSON hold fractions. A mean that lacks runs carries a dagger
in both, and the reasons stand below the table. Names are shown as they are: markup inside one is never interpreted.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from reports.frame import Setting
from reports.statistics import CONFIDENCE
from reports.tables import Cell, Row, Table, metric_heading

LACKS_RUNS = "†"
NOTE = f"{LACKS_RUNS} Runs are missing:"


def percent(cell: Cell) -> str:
    """`12.34 ± 0.56`, `12.34` for one run, `12.34 ± 0.56†` where runs are missing, `missing†` where all are."""
    dagger = "" if cell.complete else LACKS_RUNS
    if cell.mean is None:
        return f"missing{dagger}"
    half_width = "" if cell.half_width is None else f" ± {100 * cell.half_width:.2f}"
    return f"{100 * cell.mean:.2f}{half_width}{dagger}"


def _runs(row: Row, settings: Sequence[Setting]) -> str:
    """`9/10`: the fewest runs behind a number of the row, and the runs that the protocol asks for."""
    fewest = min((cell for key, cell in row.cells.items() if key[0] in settings), key=lambda cell: cell.n_runs)
    return f"{fewest.n_runs}/{fewest.expected_runs}"


def to_terminal(table: Table) -> RenderableType:
    """A rich renderable: all blocks side by side where the console is wide enough, below each other elsewhere."""
    return _Terminal(table)


class _Terminal:
    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from (Text(line, style="bold") for line in self.table.title())
        yield ""
        blocks = self.table.blocks
        beside = RichTable.grid(padding=(0, 2, 0, 0))
        beside.add_row(
            *(
                _block(self.table, *block, methods=place == 0, runs=self.table.settings if block is blocks[-1] else ())
                for place, block in enumerate(blocks)
            )
        )
        if Measurement.get(console, options.update(max_width=1000), beside).maximum <= options.max_width:
            yield from (beside, "")
        else:
            for setting, metrics in blocks:
                yield from (_block(self.table, setting, metrics, methods=True, runs=(setting,)), "")
        missing = self.table.missing()
        yield from (Text(line, style="yellow") for line in ([NOTE, *missing, ""] if missing else []))
        yield from (Text(line, style="dim") for line in self.table.footer())


def _block(
    table: Table, setting: Setting, metrics: Sequence[str], *, methods: bool, runs: Sequence[Setting]
) -> RichTable:
    """One block: baselines, a gap, trained methods. `runs`: the settings that the last column counts runs of."""
    block = RichTable(
        title=Text(table.heading(setting)),
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    if methods:
        block.add_column("Method", overflow="fold")
    for metric in metrics:
        block.add_column(Text(metric_heading(metric)), no_wrap=True)
    if runs:
        block.add_column("Runs", no_wrap=True)
    for row, following in zip(table.rows, [*table.rows[1:], None], strict=True):
        cells = [row.cells[setting, metric] for metric in metrics]
        block.add_row(
            *([Text(row.method)] if methods else []),
            *(Text(_aligned(percent(cell)), style="bold" if cell.best else "") for cell in cells),
            *([_runs(row, runs)] if runs else []),
            end_section=row.baseline and following is not None and not following.baseline,
        )
    return block


def _aligned(number: str) -> str:
    """Below 10 percent a space in front puts the decimal points of a column below each other."""
    return f" {number}" if number[1:2] == "." else number


def to_markdown(table: Table) -> str:
    """A GitHub-flavoured table between its title and its notes, ending with one line break."""
    columns = [(setting, metric) for setting, metrics in table.blocks for metric in metrics]
    headings = [
        f"{setting.capitalize()} {metric_heading(metric)}" if len(table.settings) > 1 else metric_heading(metric)
        for setting, metric in columns
    ]
    lines = [["Method", *headings, "Runs"], ["---"] * (len(columns) + 2)]
    for row in table.rows:
        cells = [row.cells[column] for column in columns]
        numbers = [f"**{percent(cell)}**" if cell.best else percent(cell) for cell in cells]
        lines.append([_escaped(row.method), *numbers, _runs(row, table.settings)])
    missing = [_escaped(line) for line in table.missing()]
    blocks = [
        "\n".join(f"**{_escaped(line)}**  " for line in table.title()),
        "; ".join(table.heading(setting) for setting in table.settings) + ".",
        "\n".join(f"| {' | '.join(line)} |" for line in lines),
        *(["\n".join([NOTE, "", *(f"- {line}" for line in missing)])] if missing else []),
        "\n".join(f"- {_escaped(line)}" for line in table.footer()),
    ]
    return "\n\n".join(blocks) + "\n"


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#~&$])", r"\\\1", text)


def as_dict(table: Table) -> dict[str, Any]:
    """The table as strict JSON values, in fractions; what does not exist is null."""
    return {
        "protocol": {"title": table.protocol_title, "digest": table.protocol_digest, "note": table.protocol_note},
        "dataset": {"name": table.dataset_name, "content_hash": table.dataset_hash},
        "split": {"kind": table.split_kind, "digest": table.split_digest},
        "dimensions": {
            setting: table.embedding_dim * (table.n_folds if setting == "concatenated" else 1)
            for setting in table.settings
        },
        "confidence": CONFIDENCE,
        "metrics_version": table.metrics_version,
        "differing_origins": list(table.origins),
        "rows": [
            {
                "method": row.method,
                "baseline": row.baseline,
                "results": [_result(setting, metric, cell) for (setting, metric), cell in row.cells.items()],
            }
            for row in table.rows
        ],
    }


def to_csv(tables: Iterable[Table]) -> str:
    """All tables as tidy CSV, one line for each cell, in fractions; what does not exist is empty."""
    lines = [
        {
            "protocol": table.protocol_title,
            "protocol_digest": table.protocol_digest,
            "dataset": table.dataset_name,
            "dataset_hash": table.dataset_hash,
            "split": table.split_kind,
            "split_digest": table.split_digest,
            "method": row.method,
            "baseline": row.baseline,
            **_result(setting, metric, cell),
        }
        for table in tables
        for row in table.rows
        for (setting, metric), cell in row.cells.items()
    ]
    return pd.DataFrame(lines).to_csv(index=False, lineterminator="\n")


def _result(setting: Setting, metric: str, cell: Cell) -> dict[str, Any]:
    return {
        "setting": setting,
        "metric": metric,
        "mean": cell.mean,
        "ci95_half_width": cell.half_width,
        "n_runs": cell.n_runs,
        "expected_runs": cell.expected_runs,
        "missing": cell.missing,
    }
