"""`mlrc report` on stores that papers can be held against: published rows, reproduction, files, and refusals."""

import csv
from pathlib import Path

import pytest
from conftest import Command
from published_runs import runs
from test_reports_tables import runs_of

from protocols.catalogue import MLRC_V1
from results.store import Store


@pytest.fixture
def filled(store: Path) -> Path:
    """A store with two methods under a protocol that a paper followed."""
    with Store.open(str(store)) as opened:
        for record in [*runs("contrastive", 0.2653), *runs("triplet", 0.3)]:
            opened.add(record)
    return store


def test_published_rows_stand_below_ours_on_request_alone(mlrc: Command, filled: Path) -> None:
    plain, beside = mlrc("report", "--store", filled), mlrc("report", "--store", filled, "--with-published")
    assert (plain.code, beside.code, beside.err) == (0, 0, "")
    assert "[musgrave2020]" not in plain.out
    assert "contrastive [musgrave2020]" in beside.out
    assert "mlrc@1, this protocol" in beside.out.replace("\n", " ")
    (table,) = mlrc("report", "--store", filled, "--with-published", "--json").json
    assert {value["source"] for value in table["published"]} == {"musgrave2020", "gurbuz2024", "yang2022"}


def test_without_published_numbers_of_the_data_one_line_says_so(mlrc: Command, store: Path) -> None:
    with Store.open(str(store)) as opened:
        for record in runs_of("ms"):
            opened.add(record)
    told = mlrc("report", "--store", store, "--with-published")
    assert told.code == 0
    assert told.err.splitlines() == [
        "shapes, Separated (128-D): no published number of this data set in this kind of table is at hand."
    ]


def test_the_reproduction_ends_with_its_counts_and_json_holds_every_figure(mlrc: Command, filled: Path) -> None:
    told = mlrc("report", "--store", filled, "--reproduction")
    values = mlrc("report", "--store", filled, "--reproduction", "--json").json
    assert told.code == 0
    assert told.out.splitlines()[-1] == values["summary"]
    assert sum(values["counts"].values()) == 90
    (found,) = [
        figure
        for figure in values["reproductions"][0]["figures"]
        if (figure["method"], figure["setting"], figure["metric"]) == ("contrastive", "concatenated", "map_at_r")
    ]
    assert (found["verdict"], found["published_mean"]) == ("agrees", 0.2653)
    assert values["reproductions"][0]["protocol"] == {"title": "mlrc@1", "digest": MLRC_V1.digest()}


def test_out_writes_every_form(mlrc: Command, filled: Path, tmp_path: Path) -> None:
    assert mlrc("report", "--store", filled, "--with-published", "--out", tmp_path / "out").code == 0
    assert mlrc("report", "--store", filled, "--reproduction", "--out", tmp_path / "out").code == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"results.md", "results.csv", "results.tex", "results.html"} <= names
    assert {"reproduction.md", "reproduction.csv"} <= names
    assert len([name for name in names if name.endswith("-years.svg")]) == 1
    with (tmp_path / "out" / "reproduction.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 90


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--reproduction", "--with-published"], "--reproduction goes alone"),
        (["--reproduction", "--hierarchy"], "--reproduction goes alone"),
        (["--hierarchy", "--with-published"], "--with-published goes with tables"),
        (["ms", "--reproduction"], "goes with --hierarchy"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    mlrc: Command, store: Path, arguments: list[str], words: str
) -> None:
    assert words in mlrc("report", *arguments, "--store", store).refusal()


def test_a_store_that_no_paper_can_be_held_against_is_refused_with_what_papers_have(mlrc: Command, store: Path) -> None:
    with Store.open(str(store)) as opened:
        for record in runs_of("ms"):
            opened.add(record)
    refusal = mlrc("report", "--store", store, "--reproduction").refusal()
    assert "found demo@1 on shapes; papers have" in refusal


def test_eighty_columns_are_enough_for_every_table(
    mlrc: Command, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmark.commands.report.console._width", 80)
    told = mlrc("report", "--store", filled, "--with-published")
    assert max(len(line) for line in told.out.splitlines()) <= 80
    assert "missing" not in told.out
