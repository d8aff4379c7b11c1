"""A reproduction for people and programs: terminal, Markdown, CSV and JSON values."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType
from rich.text import Text

from reports.grid import ABSENT, percent_text
from reports.headings import metric_heading
from reports.plain_csv import csv_text
from reports.render import escaped, markdown_rows, plain_block
from reports.reproduction import Figure, Reproduction, Verdict, summary

HEADINGS = ("Method", "Published", "Ours", "Difference", "In half widths", "Verdict")
STYLES = {Verdict.AGREES: "", Verdict.ABOVE: "yellow", Verdict.BELOW: "yellow", Verdict.NOT_RUN: "dim"}
NOTES = (
    "Percent; difference: ours minus the paper's; in half widths: of the paper's 95 % interval.",
    "Agrees: the difference lies within the root of the sum of both squared half widths; a paper without an interval "
    "counts as exact. A mean that lacks runs has no verdict.",
)


def to_terminal(found: Sequence[Reproduction]) -> RenderableType:
    """For each protocol, data set, setting and metric a table, then why what is not run is not, and the counts."""
    return Group(*(part for one in found for part in _terminal_parts(one)), *_notes(), summary(found))


def _terminal_parts(one: Reproduction) -> Iterator[RenderableType]:
    yield from (Text(line, style="bold") for line in _title(one))
    if one.warning:
        yield Text(one.warning, style="yellow")
    yield ""
    for heading, figures in _by_column(one).items():
        block = plain_block(heading)
        for name in HEADINGS:
            block.add_column(name, overflow="fold", no_wrap=name != "Method" and name != "In half widths")
        for figure in figures:
            style = STYLES[figure.verdict]
            block.add_row(*(Text(text, style=style) for text in _texts(figure)))
        yield from (block, "")
    yield from (Text(line, style="dim") for line in _not_run(one))


def to_markdown(found: Sequence[Reproduction]) -> str:
    """All of them, each as one table for each setting and metric."""
    blocks = [block for one in found for block in _markdown_blocks(one)]
    return "\n\n".join([*blocks, "\n".join(f"- {line}" for line in NOTES), f"**{summary(found)}**"]) + "\n"


def _markdown_blocks(one: Reproduction) -> Iterator[str]:
    yield "\n".join(f"**{escaped(line)}**  " for line in _title(one))
    if one.warning:
        yield escaped(one.warning)
    for heading, figures in _by_column(one).items():
        yield f"{heading}\n\n{markdown_rows(HEADINGS, [[*map(escaped, _texts(figure))] for figure in figures])}"
    if found := list(_not_run(one)):
        yield "\n".join(f"- {escaped(line)}" for line in found)


def as_dict(found: Sequence[Reproduction]) -> dict[str, Any]:
    """Strict JSON values, in fractions; what does not exist is null."""
    return {
        "summary": summary(found),
        "counts": {str(verdict): sum(one.count(verdict) for one in found) for verdict in Verdict},
        "reproductions": [
            {
                "protocol": {"title": one.protocol_title, "digest": one.protocol_digest},
                "dataset": {"name": one.dataset_name, "content_hash": one.dataset_hash},
                "warning": one.warning,
                "figures": [_values(figure) for figure in one.figures],
            }
            for one in found
        ],
    }


def to_csv(found: Iterable[Reproduction]) -> str:
    """One line for each figure, in fractions; what does not exist is empty."""
    lines = [
        {"protocol": one.protocol_title, "protocol_digest": one.protocol_digest, "dataset": one.dataset_name}
        | _values(figure)
        for one in found
        for figure in one.figures
    ]
    return csv_text(pd.DataFrame(lines, dtype=object))


def _values(figure: Figure) -> dict[str, Any]:
    value = figure.published
    return {
        "method": figure.method,
        "setting": figure.setting,
        "metric": figure.metric,
        "source": value.source,
        "table": value.table,
        "status": value.status,
        "method_as_printed": value.method_as_printed,
        "note": value.note,
        "published_mean": value.mean,
        "published_ci95_half_width": value.ci95_half_width,
        "published_n_runs": value.n_runs,
        "mean": figure.mean,
        "ci95_half_width": figure.half_width,
        "n_runs": figure.n_runs,
        "difference": figure.difference,
        "in_published_half_widths": figure.in_half_widths,
        "verdict": str(figure.verdict),
        "reason": figure.reason,
    }


def _title(one: Reproduction) -> tuple[str, str]:
    return (
        f"Protocol {one.protocol_title} ({one.protocol_digest}), data set {one.dataset_name} ({one.dataset_hash[:12]})",
        one.summary(),
    )


def _by_column(one: Reproduction) -> dict[str, list[Figure]]:
    found: dict[str, list[Figure]] = {}
    for figure in one.figures:
        heading = f"{figure.setting.capitalize()} {metric_heading(figure.metric)}, {figure.published.source}"
        found.setdefault(heading, []).append(figure)
    return found


def _texts(figure: Figure) -> list[str]:
    value, difference, units = figure.published, figure.difference, figure.in_half_widths
    return [
        figure.method,
        percent_text(value.mean, value.ci95_half_width),
        ABSENT if figure.mean is None else percent_text(figure.mean, figure.half_width),
        ABSENT if difference is None else f"{100 * difference:+.2f}",
        ABSENT if units is None else f"{units:+.1f}",
        figure.verdict,
    ]


def _not_run(one: Reproduction) -> Iterator[str]:
    """Why, once for each reason; that there is no record at all needs no words for each method."""
    reasons: dict[str, dict[str, None]] = {}
    for figure in one.figures:
        if figure.reason:
            reasons.setdefault(figure.reason, {})[figure.method] = None
    for reason, methods in reasons.items():
        yield f"Not run: {', '.join(methods)}: {reason}."


def _notes() -> Iterator[Text]:
    yield from (Text(line, style="dim") for line in NOTES)
