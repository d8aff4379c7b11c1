"""The four forms of a table: percent for people, fractions for programs, names shown as they are."""

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from reports.grid import percent
from reports.rehearsal import rehearse
from reports.render import as_dict, to_csv, to_markdown, to_terminal
from reports.tables import Cell, Row, Table

METRICS = ("precision_at_1", "r_precision", "map_at_r")
HOLE = "run 4: fold 2 failed: collapsed"


def cell(mean: float | None, half_width: float | None = 0.0056, n_runs: int = 10, missing: str = "") -> Cell:
    return Cell(mean=mean, half_width=half_width, n_runs=n_runs, expected_runs=10, missing=missing)


def row(method: str, found: Cell, *, baseline: bool = False) -> Row:
    return Row(
        method=method,
        baseline=baseline,
        cells={(setting, metric): found for setting in ("concatenated", "separated") for metric in METRICS},
    )


ROWS = (
    row("pixels", Cell(mean=0.054, half_width=None, n_runs=1, expected_runs=1, missing=""), baseline=True),
    row("untrained", cell(0.1101, 0.0026), baseline=True),
    row("contrastive", cell(0.2653, 0.0029)),
    row("triplet", cell(0.1234)),
    row("ms", cell(0.3, n_runs=9, missing=HOLE)),
    row("norm-softmax", cell(0.25)),
    row("[red]x|y*", replace(cell(0.31), best=True)),
    row("arcface", Cell(mean=None, half_width=None, n_runs=0, expected_runs=10, missing="no trial finished")),
)
TABLE = Table(
    protocol_title="demo@1",
    protocol_digest="4beca8181092",
    protocol_note="a demonstration, not a measurement",
    dataset_name="shapes",
    dataset_hash="ab" * 32,
    split_kind="wrapped",
    split_digest="cd" * 8,
    n_folds=4,
    n_runs=10,
    embedding_dim=128,
    primary_metric="map_at_r",
    metrics=METRICS,
    rows=ROWS,
)


def printed(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(to_terminal(table))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (cell(0.2653, 0.0029), "26.53 ± 0.29"),
        (cell(0.0549996, 0.0), "5.50 ± 0.00"),
        (cell(1.0, None), "100.00"),
        (cell(0.3, 0.01, n_runs=9), "30.00 ± 1.00†"),
        (cell(None, None, n_runs=0), "missing†"),
    ],
)
def test_numbers_are_percent_with_two_digits_and_a_dagger_where_runs_are_missing(found: Cell, text: str) -> None:
    assert percent(found) == text


@pytest.mark.parametrize("width", [110, 120, 200])
def test_eight_methods_stand_side_by_side_on_a_wide_terminal(width: int) -> None:
    lines = printed(TABLE, width).splitlines()
    assert max(map(len, lines)) <= width
    (contrastive,) = [line for line in lines if line.startswith("contrastive")]
    assert contrastive.split() == ["contrastive", *(["26.53", "±", "0.29"] * 6), "10/10"]
    (heading,) = [line for line in lines if "Concatenated (4 x 128 = 512-D)" in line]
    assert "Separated (128-D)" in heading


@pytest.mark.parametrize("width", [66, 80, 100])
def test_a_narrow_terminal_shows_two_tables_and_no_number_is_cut(width: int) -> None:
    lines = printed(TABLE, width).splitlines()
    assert max(map(len, lines)) <= width
    found = [line for line in lines if line.startswith("contrastive")]
    assert [line.split()[1:] for line in found] == [[*(["26.53", "±", "0.29"] * 3), "10/10"]] * 2
    assert [line.split("(")[0].strip() for line in lines if line.startswith(("Conc", "Separated (1"))] == [
        "Concatenated",
        "Separated",
    ]


def test_the_terminal_shows_markup_in_a_name_as_text_and_every_missing_run_with_its_reason() -> None:
    text = printed(TABLE, 120)
    assert "[red]x|y*" in text
    assert "demo@1 (4beca8181092): a demonstration, not a measurement" in text
    assert f"ms: 9 of 10 runs; {HOLE}" in text
    assert "arcface: 0 of 10 runs; no trial finished" in text
    assert "†" not in printed(replace(TABLE, rows=ROWS[:4]), 120)


def test_only_the_best_mean_is_bold_on_a_terminal() -> None:
    console = Console(width=120, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(to_terminal(TABLE))
    assert isinstance(console.file, io.StringIO)
    numbers = [line for line in console.file.getvalue().splitlines() if " ± 0." in line and "half" not in line]
    assert [line.split()[0] for line in numbers if "\x1b[1m" in line] == ["[red]x|y*"]


def test_markdown_escapes_names_and_every_line_has_all_columns() -> None:
    text = to_markdown(TABLE)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(ROWS)
    assert {line.replace("\\|", "").count("|") for line in lines} == {9}  # 8 columns
    assert r"| \[red\]x\|y\* | **31.00 ± 0.56** |" in text
    assert "| ms | 30.00 ± 0.56† |" in text
    assert f"- ms: 9 of 10 runs; {HOLE}" in text
    assert "Concatenated (4 x 128 = 512-D); Separated (128-D)." in text


def test_csv_is_tidy_in_fractions_with_missing_reasons() -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv([TABLE, replace(TABLE, protocol_digest="0" * 12)]))))
    assert len(lines) == 2 * len(ROWS) * 6
    (found,) = [
        line
        for line in lines
        if (line["protocol_digest"], line["method"], line["setting"], line["metric"])
        == ("4beca8181092", "ms", "separated", "map_at_r")
    ]
    assert (float(found["mean"]), float(found["ci95_half_width"])) == (0.3, 0.0056)
    assert (found["n_runs"], found["expected_runs"], found["missing"]) == ("9", "10", HOLE)
    (absent, *_) = [line for line in lines if line["method"] == "arcface"]
    assert (absent["mean"], absent["ci95_half_width"], absent["n_runs"]) == ("", "", "0")
    assert lines[-1]["method"] == "arcface"
    assert "[red]x|y*" in {line["method"] for line in lines}


def test_the_dictionary_is_strict_json_in_fractions_with_null_for_what_is_missing() -> None:
    found = json.loads(json.dumps(as_dict(TABLE), allow_nan=False))
    assert found["dimensions"] == {"concatenated": 512, "separated": 128}
    assert found["protocol"]["note"] == "a demonstration, not a measurement"
    methods = {line["method"]: line["results"] for line in found["rows"]}
    assert methods["contrastive"][0] == {
        "setting": "concatenated",
        "metric": "precision_at_1",
        "mean": 0.2653,
        "ci95_half_width": 0.0029,
        "n_runs": 10,
        "expected_runs": 10,
        "missing": "",
        "same_as_best": False,
    }
    assert methods["arcface"][0]["mean"] is None


RECALLS = ("recall_at_1", "recall_at_10", "recall_at_100", "recall_at_1000")
ONE_MODEL = replace(
    TABLE,
    n_folds=1,
    embedding_dim=512,
    split_kind="holdout",
    metrics=(*METRICS, *RECALLS),
    rows=tuple(
        replace(row, cells={("separated", metric): row.cells["separated", "map_at_r"] for metric in METRICS + RECALLS})
        for row in ROWS
    ),
)


def test_one_model_stands_in_one_table_where_it_fits_and_in_two_elsewhere() -> None:
    number = ["26.53", "±", "0.29"]
    wide, narrow = (printed(ONE_MODEL, width).splitlines() for width in (140, 80))
    (found,) = [line for line in wide if line.startswith("contrastive")]
    assert found.split() == ["contrastive", *(number * 7), "10/10"]
    (headings,) = [line for line in wide if line.startswith("Method")]
    assert headings.split() == ["Method", "R@1", "R@10", "R@100", "R@1000", "P@1", "R-precision", "MAP@R", "Runs"]
    found_twice = [line.split()[1:] for line in narrow if line.startswith("contrastive")]
    assert found_twice == [[*(number * 4), "10/10"], [*(number * 3), "10/10"]]
    assert max(map(len, narrow)) <= 80
    for lines in (wide, narrow):
        text = "\n".join(lines)
        assert "One model (512-D)" in text
        assert "Concatenated" not in text
        assert "Separated" not in text


def test_the_other_forms_of_one_model_have_its_one_setting() -> None:
    markdown = to_markdown(ONE_MODEL)
    assert "| Method | R@1 | R@10 | R@100 | R@1000 | P@1 | R-precision | MAP@R | Runs |" in markdown
    assert "One model (512-D)." in markdown
    found = as_dict(ONE_MODEL)
    assert found["dimensions"] == {"separated": 512}
    assert {cell["setting"] for row in found["rows"] for cell in row["results"]} == {"separated"}
    lines = list(csv.DictReader(io.StringIO(to_csv([ONE_MODEL]))))
    assert len(lines) == len(ROWS) * 7
    assert {line["metric"] for line in lines} == {*METRICS, *RECALLS}


def test_the_rehearsal_makes_every_form_where_torch_is_not_installed() -> None:
    blocked = "import sys; sys.modules['torch'] = None; from reports.rehearsal import rehearse; rehearse()"
    command = [sys.executable, "-W", "error::UserWarning", "-c", blocked]
    subprocess.run(command, check=True, timeout=60, cwd=Path(__file__).parents[1])


def test_the_rehearsal_fails_when_a_renderer_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reports.headings.METRICS", {"map_at_r": ()})
    with pytest.raises(IndexError):
        rehearse()


def test_no_text_of_the_csv_is_a_formula_and_every_number_stays_one() -> None:
    names = ("=1+1.py:Loss", "+cmd", "-2+3", "@SUM(A1)", "-5", "plain")
    rows = tuple(row(name, cell(-0.25)) for name in names)
    found = list(csv.DictReader(io.StringIO(to_csv([replace(TABLE, rows=rows, dataset_name="=cmd")]))))
    assert list(dict.fromkeys(line["method"] for line in found)) == [*(f"'{name}" for name in names[:4]), *names[4:]]
    assert {(line["dataset"], line["mean"], line["n_runs"]) for line in found} == {("'=cmd", "-0.25", "10")}
