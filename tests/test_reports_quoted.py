"""Published rows beside ours: which, where they are from, and that they never meet ours in a test or an order."""

import csv
import io
from dataclasses import replace

import pytest
from published_runs import DIGESTS, on_a_part, quoted, runs
from test_reports_tables import fold_record, identity, one_table

from benchmark.methods.registry import method_entry
from protocols.catalogue import CONVENTIONAL_RESNET50_V1, LITE_V1, MLRC_V1
from protocols.derive import derive
from reports.grid import ABSENT, columns_of, lines
from reports.quoted import with_quoted
from reports.render import as_dict, to_csv, to_markdown
from reports.tables import QuotedRow, Table
from reports.years import years_figure
from results.reference.published import published_values


def one(table: Table, method: str, source: str) -> QuotedRow:
    (row,) = [row for row in table.quoted if (row.method, row.source) == (method, source)]
    return row


def test_published_rows_have_our_method_names_and_the_papers_numbers() -> None:
    (table,) = quoted(runs("contrastive", 0.26))
    row = one(table, "contrastive", "musgrave2020")
    value = row.cells["concatenated", "map_at_r"]
    assert (value.mean, value.ci95_half_width, row.n_runs) == (0.2653, 0.0029, 10)
    assert {row.source for row in table.quoted} == {"musgrave2020", "gurbuz2024", "yang2022"}
    assert one(table, "ccp-contrastive", "gurbuz2024").cells["concatenated", "map_at_r"].mean == 0.2802
    assert one(table, "xbm-contrastive", "yang2022").cells["concatenated", "map_at_r"].mean == 0.2685


def test_every_published_level_is_of_a_method_that_can_be_run() -> None:
    names = {value.method for value in published_values() if "difference" not in value.protocol}
    assert len(names) > 20
    for name in names:
        assert method_entry(name).name == name  # as the records of its runs have it


def test_the_protocol_of_a_row_is_this_one_only_by_its_fingerprint() -> None:
    (table,) = quoted(runs("contrastive", 0.26))
    assert {row.source for row in table.quoted if row.same_protocol} == {"musgrave2020"}
    (forged,) = with_quoted([replace(table, protocol_digest="0" * 12)], DIGESTS)
    (unknown,) = with_quoted([table], {})
    (derived,) = quoted(runs("contrastive", 0.26, derive(MLRC_V1, ["max_steps=10"])))
    (other,) = quoted(runs("contrastive", 0.26, LITE_V1))
    for found in (forged, unknown, derived, other):
        assert len(found.quoted) == len(table.quoted)
        assert not [row for row in found.quoted if row.same_protocol]


def test_a_part_of_the_published_data_set_is_held_against_no_row_and_every_form_says_so() -> None:
    (table,) = quoted(on_a_part(runs("contrastive", 0.26)))
    assert {row.source for row in table.quoted} == {"musgrave2020", "gurbuz2024", "yang2022"}
    assert not [row for row in table.quoted if row.same_protocol or row.same_images]
    assert {(value["same_protocol"], value["same_images"]) for value in as_dict(table)["published"]} == {(False, False)}
    markdown = to_markdown(table)
    assert "12 classes and 48 images; CUB-200-2011 has 200 classes and 11,788 images" in markdown
    assert "Table 4; mlrc@1, other images." in markdown
    assert "this protocol." not in markdown
    legend = years_figure(table).legends[0].get_texts()
    assert [text.get_text() for text in legend if "musgrave2020" in text.get_text()] == [
        "musgrave2020, mlrc@1, other images"
    ]


def test_rows_under_this_protocol_come_first_and_each_paper_is_in_ascending_order() -> None:
    (table,) = quoted(runs("contrastive", 0.26))
    papers = list(dict.fromkeys((row.source, row.protocol) for row in table.quoted))
    assert papers[0] == ("musgrave2020", "mlrc@1")
    for paper in papers:
        found = [row for row in table.quoted if (row.source, row.protocol) == paper]
        # HPL prints separated values of its own method alone
        means = [row.cells.get(("separated", "map_at_r"), row.cells["concatenated", "map_at_r"]).mean for row in found]
        assert means == sorted(means) or paper[0] == "yang2022"


def test_a_data_set_that_no_paper_has_and_a_name_that_only_sounds_so_get_no_rows() -> None:
    own = runs("contrastive", 0.26, dataset="my birds")
    renamed = [
        replace(record, identity=replace(record.identity, dataset={**record.identity.dataset, "standard_name": ""}))
        for record in runs("contrastive", 0.26)
    ]
    for records in (own, renamed):
        assert quoted(records)[0].quoted == ()


def test_one_model_stands_beside_no_number_of_four() -> None:
    who = identity("ms", 1, CONVENTIONAL_RESNET50_V1)
    who = replace(who, dataset={**who.dataset, "standard_name": "sop"})
    recalls = dict.fromkeys(who.metrics, 0.5)
    table = one_table([fold_record(who, 0, 0.5, test=recalls)])
    assert with_quoted([table], DIGESTS)[0].quoted == ()


def test_published_rows_change_no_mark_order_or_count_of_ours() -> None:
    records = runs("contrastive", 0.01) + runs("triplet", 0.02)  # far below every published number
    (table,) = quoted(records)
    assert table.rows == one_table(records).rows
    assert [row.method for row in table.rows if row.cells["separated", "map_at_r"].best] == ["triplet"]


def test_every_form_marks_published_rows_with_source_and_protocol_and_none_is_bold() -> None:
    (table,) = quoted(runs("contrastive", 0.26))
    found = [line for line in lines(table, columns_of(table), table.settings) if line.kind == "quoted"]
    assert len(found) == len(table.quoted)
    assert not any(best for line in found for _, best in line.numbers)
    markdown = to_markdown(table)
    assert r"| *contrastive \[musgrave2020\]* | *68.13 ± 0.31* |" in markdown
    assert "neither tested nor ordered among ours" in markdown
    assert "Table 4; mlrc@1, this protocol." in markdown
    assert "ccp@1, not this protocol." in markdown
    assert f"| *{ABSENT}* |" in markdown  # HPL prints no separated number of its baselines
    values = as_dict(table)["published"]
    assert {(value["source"], value["same_protocol"]) for value in values} == {
        ("musgrave2020", True),
        ("gurbuz2024", False),
        ("yang2022", False),
    }


def test_csv_lines_of_papers_have_a_source_and_no_fingerprint() -> None:
    (table,) = quoted(runs("contrastive", 0.26))
    found = list(csv.DictReader(io.StringIO(to_csv([table]))))
    ours = [line for line in found if not line["source"]]
    theirs = [line for line in found if line["source"]]
    assert {line["protocol_digest"] for line in ours} == {MLRC_V1.digest()}
    assert {line["protocol_digest"] for line in theirs} == {""}
    assert {line["n_runs"] for line in ours} == {"10"}  # whole numbers stay whole
    assert len(theirs) == sum(len(row.cells) for row in table.quoted)


@pytest.mark.parametrize("dataset", ["cub200", "cars196", "sop", "inshop"])
def test_no_published_number_of_a_table_is_lost(dataset: str) -> None:
    (table,) = quoted(runs("contrastive", 0.26, dataset=dataset))
    expected = [value for value in published_values(dataset=dataset) if value.setting != "conventional"]
    assert sum(len(row.cells) for row in table.quoted) == len(expected)
