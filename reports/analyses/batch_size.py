"""How a result depends on the batch size: the primary metric of each method over protocols that differ in nothing else.

The one picture in which protocols meet. They must be on one data set and split, and their values must be equal but for
`batch.size` and for what only names them (name, version, purpose, source, whether derived). The classes of a batch
follow from the size, as the samples a class do not. Where hyper-parameters were searched, each size had its own search.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from reports.analyses.drawing import Drawing, Gallery, Subject, by_subject, gallery, line_look, open_axes
from reports.frame import runs_frame
from reports.headings import metric_heading
from reports.tables import Row, Table
from reports.tabulation import result_tables
from results.exchange.fingerprints import PROSE
from results.record import Record

LABELS = ("name", "version", "derived", *PROSE)
NOTES = (
    "The protocols differ in batch.size alone. Mean over runs with its 95 % interval; hollow: runs are missing, the "
    "CSV says which and why.",
)


def batch_size(records: Iterable[Record]) -> Gallery:
    """One picture for each data set and split, and each set of protocols that differ in the batch size alone."""
    groups: dict[str, dict[Subject, list[Record]]] = {}
    for subject, found in by_subject(records, with_method=False).items():
        if any(record.identity.purpose == "final" for record in found):
            key = [_all_but_the_size(found[0].identity.protocol["values"]), subject.dataset_hash, subject.split_digest]
            groups.setdefault(json.dumps(key, sort_keys=True), {})[subject] = found
    return gallery(
        (sizes(_together(group), _frame(group)) for group in groups.values() if len(group) > 1),
        "no two protocols there have final runs and differ in batch.size alone; "
        "mlrc run with another --set batch.size=64 makes one.",
    )


def sizes(subject: Subject, cells: pd.DataFrame) -> Drawing:
    """One picture of `cells`: columns protocol, protocol_digest, batch_size, method, setting, metric, mean,
    ci95_half_width, n_runs, expected_runs and missing, in fractions.
    """
    return Drawing(
        subject=subject,
        data=cells,
        paint=partial(_paint, cells=cells),
        notes=NOTES,
        size_in=(4.2 + 3.8 * (cells["setting"].nunique() - 1), 4.6),
    )


def _all_but_the_size(values: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in values.items() if name not in LABELS}
    return {**kept, "batch": {name: value for name, value in kept["batch"].items() if name != "size"}}


def _size(found: list[Record]) -> int:
    return int(found[0].identity.protocol["values"]["batch"]["size"])


def _together(group: Mapping[Subject, list[Record]]) -> Subject:
    """The subject of all: the protocol that was not made with --set names it, and all fingerprints are listed."""
    by_size = sorted(group, key=lambda subject: _size(group[subject]))
    first = min(by_size, key=lambda subject: (subject.protocol.endswith("+"), _size(group[subject])))
    return first._replace(protocol_digest=", ".join(subject.protocol_digest for subject in by_size))


def _frame(group: Mapping[Subject, list[Record]]) -> pd.DataFrame:
    lines: list[dict[str, Any]] = []
    for subject, found in sorted(group.items(), key=lambda item: _size(item[1])):
        (table,) = result_tables(runs_frame(found))
        for row in table.rows:
            lines += _lines(subject, _size(found), table, row)
    return pd.DataFrame(lines)


def _lines(subject: Subject, size: int, table: Table, row: Row) -> Iterator[dict[str, Any]]:
    for setting in table.settings:
        cell = row.cells[setting, table.primary_metric]
        yield {
            "protocol": subject.protocol,
            "protocol_digest": subject.protocol_digest,
            "batch_size": size,
            "method": row.method,
            "setting": setting,
            "metric": table.primary_metric,
            "mean": cell.mean,
            "ci95_half_width": cell.half_width,
            "n_runs": cell.n_runs,
            "expected_runs": cell.expected_runs,
            "missing": cell.missing,
        }


def _paint(figure: Figure, cells: pd.DataFrame) -> None:
    settings = list(cells["setting"].unique())
    methods = list(cells["method"].unique())
    panels = figure.subplots(1, len(settings), squeeze=False, sharey=True)[0]
    known = cells[cells["n_runs"] > 0]
    for axes, setting in zip(panels, settings, strict=True):
        first = axes is panels[0]
        heading = f"{metric_heading(cells['metric'].iloc[0])} (percent)"
        open_axes(axes, "batch size", heading if first else "")
        axes.set_title(str(setting) if len(settings) > 1 else "", fontsize=9)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(cells["batch_size"].unique()), [str(size) for size in sorted(set(cells["batch_size"]))])
        for place, method in enumerate(methods):
            part = known[(known["setting"] == setting) & (known["method"] == method)]
            if len(part):
                reach = (100 * part["ci95_half_width"].astype(float)).fillna(0.0)
                look = {"label": str(method), "capsize": 2, "linewidth": 1.2, "markersize": 5, **line_look(place)}
                axes.errorbar(part["batch_size"], 100 * part["mean"], yerr=reach, **look)
        lacking = known[(known["setting"] == setting) & (known["n_runs"] < known["expected_runs"])]
        axes.plot(lacking["batch_size"], 100 * lacking["mean"], "o", color="white", markersize=2.5, zorder=3)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False)
