"""Published numbers beside a result table: those of its data set, marked with their paper and protocol.

They are other people's runs, so they are never tested against ours; whether they were made under the table's protocol
is told by its fingerprint, as a title alone may be anything, and whether on the same images by the data set's size.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reports.frame import Column, Setting
from reports.published_sizes import other_images
from reports.tables import QuotedRow, Table
from results.reference.published import PublishedValue, published_values


def with_quoted(tables: Iterable[Table], digests: Mapping[str, str]) -> list[Table]:
    """The tables with the published rows of their data sets, by paper, each by its ascending primary metric.

    Args:
        tables: of any data sets; one that no paper names stays as it is.
        digests: title -> fingerprint of the protocols that papers follow.
    """
    return [replace(table, quoted=_quoted_rows(table, digests)) for table in tables]


def follows(table: Table, protocol: str, digests: Mapping[str, str]) -> bool:
    """Whether a table was made as a published number was: under its protocol, on all of its images."""
    return is_under(table, protocol, digests) and not other_images(table)


def is_under(table: Table, protocol: str, digests: Mapping[str, str]) -> bool:
    """Whether a table was made under the protocol of a published number, on whatever images."""
    return table.protocol_title == protocol and digests.get(protocol) == table.protocol_digest


def quotable(table: Table) -> dict[PublishedValue, Column]:
    """The published values that a table has a column for, each with its setting and metric.

    One model has no fold beside it: only what papers print of one model stands beside it.
    """
    settings: dict[str, Setting] = (
        {"conventional": "separated"} if table.n_folds == 1 else {name: name for name in table.settings}
    )
    return {
        value: (settings[value.setting], value.metric)
        for value in (published_values(dataset=table.standard_name) if table.standard_name else ())
        if value.setting in settings and value.metric in table.metrics
    }


def _quoted_rows(table: Table, digests: Mapping[str, str]) -> tuple[QuotedRow, ...]:
    found: dict[tuple[str, str, str, str], dict[Column, PublishedValue]] = {}
    for value, column in quotable(table).items():
        found.setdefault((value.source, value.protocol, value.table, value.method), {})[column] = value
    rows = [
        QuotedRow(
            method=method,
            source=source,
            table=where,
            protocol=protocol,
            same_protocol=follows(table, protocol, digests),
            n_runs=next(iter(cells.values())).n_runs,
            cells=cells,
            same_images=not other_images(table),
        )
        for (source, protocol, where, method), cells in found.items()
    ]
    papers = list(dict.fromkeys((row.source, row.protocol) for row in rows))

    def order(row: QuotedRow) -> tuple[bool, int, float]:
        primary = [row.cells[column] for column in row.cells if column[1] == table.primary_metric]
        mean = primary[-1].mean if primary else 0.0  # separated, where a paper prints that
        return not row.same_protocol, papers.index((row.source, row.protocol)), mean

    return tuple(sorted(rows, key=order))
