"""Baseline files: what is written is read again to the bit; one that contradicts itself is refused in one line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from gate_records import OLD, final, side

from reports.errors import ReportError
from reports.gate.judgement import compare
from reports.gate.sides import baseline_method, side_of_baseline
from reports.gate.verdict import Verdict
from results.baseline import Baseline, read_baseline, write_baseline
from results.errors import ResultsError
from results.exchange.fingerprints import protocol_digest


def baseline() -> Baseline:
    identity = final(1)
    return Baseline(
        created_at="2024-01-01T12:00:00+00:00",
        data="things",
        protocol=identity.protocol,
        dataset=identity.dataset,
        split=identity.split,
        methods=(baseline_method(side(OLD)), baseline_method(side(OLD, "other", margin=0.3))),
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_baseline(baseline(), tmp_path / "baseline.json")
    return tmp_path / "baseline.json"


def test_a_baseline_is_read_as_it_was_written_and_the_same_bytes_are_written_again(file: Path) -> None:
    found = read_baseline(file)
    assert found == baseline()
    before = file.read_bytes()
    write_baseline(found, file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_side_out_of_a_baseline_is_the_side_that_went_in(file: Path) -> None:
    found = read_baseline(file)
    again = side_of_baseline(found, found.methods[0], "old")
    assert again.values == side(OLD).values
    assert compare(side(OLD), again, "separated", "map_at_r").ruling.verdict is Verdict.NO_EVIDENCE
    assert found.comparison == final(1).comparison


def test_a_baseline_with_a_hole_is_not_made() -> None:
    with pytest.raises(ReportError, match=r"run 2 is missing \(collapsed"):
        baseline_method(side([OLD[0], None, *OLD[2:]]))
    with pytest.raises(ReportError, match=r"run 5 is missing \(not run\)"):
        baseline_method(side(OLD[:4]))


def first_run(value: dict) -> dict:
    return value["methods"][0]["runs"][0]


CHANGES = {
    "another format": (lambda value: value.update(format="x"), "no baseline: wanted a JSON object"),
    "a newer schema": (lambda value: value.update(schema=2), "baseline schema 2; this code reads up to 1"),
    "no schema": (lambda value: value.pop("schema") and value.update(schema=0), "found schema 0"),
    "no methods": (lambda value: value.update(methods=[]), "there is none"),
    "a method twice": (lambda value: value["methods"].append(value["methods"][0]), "'old' is there 2 times"),
    "a metric above 1": (lambda value: first_run(value)["test"]["separated"].update(map_at_r=1.5), "wanted a fraction"),
    "a text for a metric": (lambda value: first_run(value)["test"]["separated"].update(map_at_r="x"), "a number"),
    "a metric of one run": (lambda value: first_run(value)["test"]["separated"].update(other=0.5), "run 2 has other"),
    "a setting less": (lambda value: first_run(value)["test"].pop("separated"), "run 1 has other settings"),
    "a run less": (lambda value: value["methods"][0]["runs"].pop(), "wanted 1 to 5"),
    "runs out of order": (lambda value: value["methods"][0]["runs"].reverse(), "wanted 1 to 5"),
    "another protocol": (lambda value: value["protocol"]["values"].update(version=2), "that of its values is"),
    "a split without digest": (lambda value: value["split"].pop("digest"), "digest"),
    "an unknown field": (lambda value: value.update(extra=1), "unknown field 'extra'"),
    "a time that is none": (lambda value: value.update(created_at="now"), "a UTC time"),
    "no metric": (
        lambda value: [run["test"].update(separated={}) for run in value["methods"][0]["runs"]],
        "a setting has no metric",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_that_is_not_as_it_should_be_is_refused_in_one_line(file: Path, name: str) -> None:
    change, said = CHANGES[name]
    value = json.loads(file.read_text(encoding="utf-8"))
    change(value)
    file.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(ResultsError) as caught:
        read_baseline(file)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"format": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, "\x00"])
def test_what_is_no_baseline_at_all_is_refused_in_one_line(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError) as caught:
        read_baseline(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n_runs", [10**15, -1, 0, "x", None, [1]])
def test_a_number_of_runs_that_can_be_none_is_refused_at_once(file: Path, n_runs: object) -> None:
    value = json.loads(file.read_text(encoding="utf-8"))
    value["protocol"]["values"]["finals"]["n_runs"] = n_runs
    value["protocol"]["digest"] = protocol_digest(value["protocol"]["values"])
    if n_runs == 0:
        value["methods"][0]["runs"] = []
    file.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(ResultsError, match=r"its runs are|no protocol|has no run"):
        read_baseline(file)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="cannot be written"):
        write_baseline(baseline(), tmp_path / "no folder" / "baseline.json")
    with pytest.raises(ResultsError, match="cannot be written"):
        write_baseline(baseline(), Path(__file__) / "below a file.json")
    with pytest.raises(ResultsError, match="cannot be written"):
        write_baseline(baseline(), tmp_path / "a\0nul.json")
    with pytest.raises(ResultsError, match=r"protocol\.digest"):
        write_baseline(replace(baseline(), protocol={**final(1).protocol, "digest": "x"}), tmp_path / "baseline.json")
    assert list(tmp_path.iterdir()) == []
