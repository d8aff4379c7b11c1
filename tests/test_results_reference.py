"""The published numbers against the transcribed tables they were converted from, and against figures known by heart."""

import csv
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from results.reference.published import PublishedValue, published_values

SOURCE_TABLES = Path(__file__).parents[2] / "shared" / "published"
FILES = {"musgrave2020": "mlrc.csv", "gurbuz2024": "ccp.csv", "yang2022": "hpl.csv"}
DATASETS = {"CUB200": "cub200", "Cars196": "cars196", "SOP": "sop", "In-shop": "inshop"}
METRICS = {"P@1": "precision_at_1", "RP": "r_precision", "MAP@R": "map_at_r", "R@1 gain": "recall_at_1_gain"}
REALITY_CHECK_METHODS = {
    *("pretrained", "contrastive", "triplet", "ntxent", "proxy-nca", "margin", "margin-class", "norm-softmax"),
    *("cosface", "arcface", "fastap", "snr", "ms", "ms-miner", "soft-triple"),
}


def only(rows: list[PublishedValue]) -> PublishedValue:
    assert len(rows) == 1
    return rows[0]


def test_each_paper_has_all_its_rows() -> None:
    assert Counter(row.source for row in published_values()) == {"musgrave2020": 270, "gurbuz2024": 330, "yang2022": 71}


@pytest.mark.skipif(not SOURCE_TABLES.is_dir(), reason=f"the transcribed tables are not at {SOURCE_TABLES}")
@pytest.mark.parametrize("source", FILES)
def test_every_value_is_the_printed_percentage_divided_by_a_hundred(source: str) -> None:
    with (SOURCE_TABLES / FILES[source]).open(encoding="utf-8", newline="") as file:
        printed = list(csv.DictReader(file))
    ours = [row for row in published_values() if row.source == source]
    for row, found in zip(printed, ours, strict=True):
        assert found.dataset == DATASETS[row["dataset"]]
        assert found.metric == METRICS[row["metric"]]
        assert (found.method_as_printed, found.setting) == (row["method"], row["setting"])
        assert Decimal(str(found.mean)) == Decimal(row["mean"]) / 100
        width = row.get("ci95") or None
        assert found.ci95_half_width == (None if width is None else float(Decimal(width) / 100))


def test_the_check_figures_of_the_reality_check_are_there() -> None:
    contrastive = only(published_values("mlrc@1", "cub200", "contrastive", "concatenated", "map_at_r"))
    assert (contrastive.mean, contrastive.ci95_half_width, contrastive.n_runs) == (0.2653, 0.0029, 10)
    sop = [
        row.mean
        for row in published_values("mlrc@1", "sop", setting="concatenated", metric="map_at_r")
        if row.method != "pretrained"
    ]
    assert len(sop) == 14
    assert (round(min(sop), 3), round(max(sop), 3)) == (0.418, 0.474)


def test_every_cell_of_the_reality_check_is_named_once_by_our_method_names() -> None:
    rows = published_values("mlrc@1")
    assert {row.method for row in rows} == REALITY_CHECK_METHODS
    assert len({(row.dataset, row.method, row.setting, row.metric) for row in rows}) == len(rows)


def test_levels_are_fractions_and_differences_are_kept_apart_from_them() -> None:
    levels = [row for row in published_values() if "difference" not in row.protocol]
    gains = [row for row in published_values() if "difference" in row.protocol]
    assert all(0.01 < row.mean < 1 for row in levels)  # a percentage left unconverted, or converted twice, falls out
    assert all(0.0005 < row.ci95_half_width < 0.02 for row in levels if row.ci95_half_width is not None)
    assert [(row.metric, row.mean) for row in gains] == [("recall_at_1_gain", 0.0287), ("recall_at_1_gain", 0.025)]


def test_only_numbers_that_a_paper_measured_itself_carry_one_of_our_protocol_titles() -> None:
    owners = {row.protocol: row.source for row in published_values() if "@" in row.protocol}
    assert owners == {"mlrc@1": "musgrave2020", "ccp@1": "gurbuz2024"}
    assert not published_values("ccp@1", method="hpl-proxy-anchor")


def test_intervals_and_runs_are_absent_where_the_paper_gives_none() -> None:
    for row in published_values():
        is_trained_in_reality_check = row.protocol == "mlrc@1" and row.method != "pretrained"
        assert (row.n_runs == 10) is is_trained_in_reality_check
        assert (row.ci95_half_width is not None) is is_trained_in_reality_check


def test_the_status_says_second_hand_where_the_papers_own_table_was_not_seen() -> None:
    assert {row.status for row in published_values() if row.source == "musgrave2020"} == {"verified", "paper"}
    unseen = published_values("mlrc (as printed by HPL)", "cub200", "proxy-anchor")
    assert {row.status for row in unseen} == {"second-hand"}
    quoted = only(published_values("mlrc (as printed by HPL)", "sop", "arcface", metric="map_at_r"))
    assert quoted.mean == only(published_values("mlrc@1", "sop", "arcface", "concatenated", "map_at_r")).mean
