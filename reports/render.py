"""A result table for people and programs: terminal, Markdown, CSV and JSON values.

The two forms for people hold percent, CSV and JSON fractions. Names are shown as they are: markup inside one is never
interpreted.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from reports.frame import Setting
from reports.grid import columns_of, ends_section, headings, lines, remarks
from reports.headings import metric_heading
from reports.plain_csv import csv_text
from reports.statistics.intervals import CONFIDENCE
from reports.tables import Cell, Row, Table

STAR = "*"  # stands for bold where there is no terminal


def to_terminal(table: Table) -> RenderableType:
    """A rich renderable: all blocks side by side where the console is wide enough, below each other elsewhere."""
    return _Terminal(table)


class _Terminal:
    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from (Text(line, style="bold") for line in self.table.title())
        if self.table.warning():
            yield Text(self.table.warning(), style="yellow")
        yield ""
        blocks, star = self.table.blocks, "" if console.is_terminal else STAR
        beside = RichTable.grid(padding=(0, 2, 0, 0))
        beside.add_row(
            *(
                _block(
                    self.table,
                    *block,
                    methods=place == 0,
                    runs=self.table.settings if block is blocks[-1] else (),
                    star=star,
                )
                for place, block in enumerate(blocks)
            )
        )
        if self._is_one_grid() and Measurement.get(console, options.update(max_width=1000), beside).maximum <= (
            options.max_width
        ):
            yield from (beside, "")
        else:
            for setting, metrics in blocks:
                yield from (_block(self.table, setting, metrics, methods=True, runs=(setting,), star=star), "")
        for heading, found in remarks(self.table):
            yield from (Text(line, style="yellow") for line in (heading, *found, ""))
        for line in self.table.footer():
            yield Text(line if console.is_terminal else line.replace(" Bold: ", f" With {STAR}: "), style="dim")

    def _is_one_grid(self) -> bool:
        """Whether the blocks have the same rows: a paper may have no number in one of them."""
        rows = [
            len(lines(self.table, [(setting, metric) for metric in found], ())) for setting, found in self.table.blocks
        ]
        return len(set(rows)) == 1


def _block(
    table: Table, setting: Setting, metrics: Sequence[str], *, methods: bool, runs: Sequence[Setting], star: str
) -> RichTable:
    """One block: baselines, trained methods, papers' rows, with gaps between; `runs`: settings for the last column.

    `star` stands behind what is bold.
    """
    block = plain_block(table.heading(setting))
    if methods:
        block.add_column("Method", overflow="fold")
    for metric in metrics:
        block.add_column(Text(metric_heading(metric)), no_wrap=True)
    if runs:
        block.add_column("Runs", no_wrap=True)
    found = lines(table, [(setting, metric) for metric in metrics], runs)
    for line, following in zip(found, [*found[1:], None], strict=True):
        style = "italic" if line.kind == "quoted" else ""
        block.add_row(
            *([Text(line.label, style=style)] if methods else []),
            *(Text(_aligned(number) + star * best, style="bold" if best else style) for number, best in line.numbers),
            *([Text(line.runs, style=style)] if runs else []),
            end_section=ends_section(line, following),
        )
    return block


def plain_block(title: str) -> RichTable:
    """A table for terminals with a line below its headings and none around it."""
    return RichTable(
        title=Text(title), title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
    )


def _aligned(number: str) -> str:
    """Below 10 percent a space in front puts the decimal points of a column below each other."""
    return f" {number}" if number[1:2] == "." else number


def to_markdown(table: Table) -> str:
    """A GitHub-flavoured table between its title and its notes, ending with one line break."""
    rows: list[list[str]] = []
    for line in lines(table, columns_of(table), table.settings):
        numbers = [f"**{number}**" if best else number for number, best in line.numbers]
        texts = [escaped(line.label), *numbers, line.runs]
        rows.append([f"*{text}*" for text in texts] if line.kind == "quoted" else texts)
    blocks = [
        "\n".join(f"**{escaped(line)}**  " for line in table.title()),
        *([escaped(table.warning())] if table.warning() else []),
        "; ".join(table.heading(setting) for setting in table.settings) + ".",
        markdown_rows(["Method", *headings(table), "Runs"], rows),
        *("\n".join([heading, "", *(f"- {escaped(line)}" for line in found)]) for heading, found in remarks(table)),
        "\n".join(f"- {escaped(line)}" for line in table.footer()),
    ]
    return "\n\n".join(blocks) + "\n"


def markdown_rows(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The lines of a Markdown table of texts that are escaped already."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (names, ["---"] * len(names), *rows))


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
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
        "evaluated": table.evaluated,
        "differing_origins": list(table.origins),
        "rows": [
            {
                "method": row.method,
                "baseline": row.baseline,
                "results": [_result(setting, metric, cell) for (setting, metric), cell in row.cells.items()],
            }
            for row in table.rows
        ],
        "elsewhere": list(table.elsewhere),
        "published": list(_published(table)),
    }


def to_csv(tables: Iterable[Table]) -> str:
    """All tables as tidy CSV, one line for each cell, in fractions; what does not exist is empty.

    A paper's numbers have a source, its protocol and no fingerprint.
    """
    found = [line for table in tables for line in (*_csv_lines(table), *_published(table))]
    return csv_text(pd.DataFrame(found, dtype=object))


def _csv_lines(table: Table) -> Iterator[dict[str, Any]]:
    context = {
        "protocol": table.protocol_title,
        "protocol_digest": table.protocol_digest,
        "dataset": table.dataset_name,
        "dataset_hash": table.dataset_hash,
        "split": table.split_kind,
        "split_digest": table.split_digest,
        "metrics_version": table.metrics_version,
    }
    for row in table.rows:
        for (setting, metric), cell in row.cells.items():
            yield {**context, **_named(row), **_result(setting, metric, cell), "source": ""}


def _named(row: Row) -> dict[str, Any]:
    return {"method": row.method, "baseline": row.baseline}


def _result(setting: Setting, metric: str, cell: Cell) -> dict[str, Any]:
    return {
        "setting": setting,
        "metric": metric,
        "mean": cell.mean,
        "ci95_half_width": cell.half_width,
        "n_runs": cell.n_runs,
        "expected_runs": cell.expected_runs,
        "missing": cell.missing,
        "same_as_best": cell.best,
    }


def _published(table: Table) -> Iterator[dict[str, Any]]:
    for row in table.quoted:
        for (setting, metric), value in row.cells.items():
            yield {
                "source": row.source,
                "protocol": row.protocol,
                "same_protocol": row.same_protocol,
                "same_images": row.same_images,
                "dataset": table.dataset_name,
                "method": row.method,
                "method_as_printed": value.method_as_printed,
                "setting": setting,
                "metric": metric,
                "mean": value.mean,
                "ci95_half_width": value.ci95_half_width,
                "n_runs": value.n_runs,
                "status": value.status,
            }
