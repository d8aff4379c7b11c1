"""The rules that a report prints are those that the code keeps: definitions, lone queries, no limit on neighbours."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from test_reports_tables import fold_record, identity, one_table, run_of, runs_of

from protocols.errors import ProtocolError
from protocols.metrics import METRICS_VERSION, Evaluation, evaluate
from reports.headings import METRICS
from reports.latex import to_latex
from reports.page import to_html
from reports.render import as_dict, to_csv, to_markdown
from reports.tables import Table
from results.record import FoldRecord


def evaluated(points: list[list[float]], labels: list[int]) -> Evaluation:
    return evaluate(torch.tensor(points), torch.tensor(labels))


def table_of(found: Evaluation) -> Table:
    who = identity("ms", 1)
    metrics = {name: found.metrics[name] for name in METRICS}
    folds = [fold_record(who, fold, 0.0, test=metrics, evaluation_audit=asdict(found.audit)) for fold in range(4)]
    return one_table([*folds])


def cell(table: Table, metric: str) -> float | None:
    (row,) = table.rows
    return row.cells["separated", metric].mean


def test_map_at_r_is_divided_by_r_as_the_report_says_and_not_by_the_hits() -> None:
    # The query at 0 has R = 3 and ranks a hit, a miss, a hit: 1/3 x (1 + 2/3); the other reading gives 1/2 x (1 + 2/3)
    points, labels = [[0.0], [1.0], [2.0], [3.0], [9.0]], [0, 0, 1, 0, 0]
    hits = np.array([1, 0, 1])
    precision = hits.cumsum() / np.array([1, 2, 3])
    by_rule = float((precision * hits).sum() / 3)
    assert by_rule == pytest.approx(0.5556, abs=5e-5)
    queries = [(1, 0, 1), (1, 0, 1), (0, 1, 1), (1, 0, 1)]  # ranked by hand from 0, 1, 3 and 9; ties by index
    expected = np.mean([sum(sum(one[: j + 1]) / (j + 1) for j in range(3) if one[j]) / 3 for one in queries])
    found = evaluated(points, labels)
    assert found.audit.left_out == 1
    table = table_of(found)
    assert cell(table, "map_at_r") == pytest.approx(float(expected))
    assert "MAP@R: 1/R x sum over ranks j <= R of the precision at j where the j-th neighbour is a hit." in (
        table.footer()
    )


def test_definition_and_version_stand_in_every_form() -> None:
    table = one_table(runs_of("ms"))
    assert table.metrics_version == METRICS_VERSION
    for text in (to_markdown(table), to_latex([table]), to_html([table])):
        assert f"Metrics version {METRICS_VERSION}." in text
        assert "sum over ranks j" in text
    assert as_dict(table)["metrics_version"] == METRICS_VERSION
    header, first, *_ = to_csv([table]).splitlines()
    values = dict(zip(header.split(","), first.split(","), strict=True))
    assert values["metrics_version"] == str(METRICS_VERSION)


def test_a_class_as_large_as_it_may_be_is_searched_whole_without_any_k() -> None:
    points = [[1.0, 0.0]] * 6 + [[0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [0.6, 0.8]]
    table = table_of(evaluated(points, [0] * 6 + [1, 2, 3, 4]))
    assert cell(table, "map_at_r") == 1.0
    assert table.evaluated == "6 queries, 4 left out, R = 5"


def test_lone_queries_are_counted_in_the_report_and_all_lone_ones_are_an_error() -> None:
    points = [[0.0], [1.0], [10.0], [11.0], [50.0]]
    table = table_of(evaluated(points, [0, 0, 1, 1, 2]))
    assert [cell(table, metric) for metric in METRICS] == [1.0] * 3
    assert "4 queries, 1 left out, R = 1" in to_markdown(table)
    with pytest.raises(ProtocolError):
        evaluated(points, [0, 1, 2, 3, 4])


def test_two_records_that_are_equal_but_for_the_version_of_torch_are_told_before_the_numbers() -> None:
    new, old = (
        [
            replace(record, provenance=replace(record.provenance, versions={"torch": version}))
            for record in run_of(method, 1)
        ]
        for method, version in (("ms", "2.14.1"), ("triplet", "2.9.0"))
    )
    table = one_table([*new, *old])
    line = "Not made alike, which can move numbers: torch 2.14.1 (ms) or 2.9.0 (triplet)."
    assert table.warning() == line
    for text in (to_markdown(table), to_html([table])):
        assert line in text
        assert text.index(line) < text.index("triplet</th>" if "<html" in text else "| triplet |")
    assert line in to_latex([table]).replace("{-}", "-")


def test_the_record_of_another_version_of_a_metric_says_so() -> None:
    (first, *_) = run_of("ms", 1)
    assert isinstance(first, FoldRecord)
    values = dict(first.identity.protocol["values"])
    values["evaluation"] = {**values["evaluation"], "metrics_version": 2}
    who = replace(first.identity, protocol={**first.identity.protocol, "values": values})
    assert "Metrics version 2." in one_table([replace(first, identity=who)]).footer()
