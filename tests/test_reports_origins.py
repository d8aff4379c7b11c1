"""Records that were not made alike: their table says in what, and of which methods."""

import json
from dataclasses import replace

import pytest
from test_reports_tables import PROVENANCE, fold_record, identity, one_table, run_of, runs_of

from reports.origins import differing_origins
from reports.render import as_dict, to_markdown
from results.record import FoldRecord, Record

MADE = replace(PROVENANCE, versions={"torch": "2.14.1", "numpy": "2.4.6"}, trunk_weights="ab" * 32)


def made(records: list[Record], **changes: object) -> list[Record]:
    return [replace(record, provenance=replace(MADE, **changes)) for record in records]


def test_two_runs_that_are_equal_but_for_the_version_of_torch_are_told_above_their_table() -> None:
    old = made(runs_of("triplet"), versions={"torch": "2.9.0", "numpy": "2.4.6"})
    table = one_table([*made(runs_of("ms")), *old])
    line = "Not made alike, which can move numbers: torch 2.14.1 (ms) or 2.9.0 (triplet)."
    markdown = to_markdown(table)
    assert table.warning() == line
    assert 0 < markdown.index("torch 2.14.1 (ms) or 2.9.0 (triplet)") < markdown.index("| ms |")
    assert json.loads(json.dumps(as_dict(table)))["differing_origins"] == ["torch 2.14.1 (ms) or 2.9.0 (triplet)"]


def test_a_table_of_records_that_were_made_alike_says_nothing_of_it() -> None:
    later = made(runs_of("triplet"), created_at="2026-02-02T00:00:00Z", code_revision="1")
    table = one_table([*made(runs_of("ms")), *later])
    assert table.origins == ()
    assert "alike" not in to_markdown(table)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"device": "NVIDIA H200"}, "device NVIDIA H200 (b) or cpu (a)"),
        ({"threads": 4}, "threads 1 (a) or 4 (b)"),
        ({"trunk_weights": "cd" * 32}, "trunk weights abababababab (a) or cdcdcdcdcdcd (b)"),
    ],
)
def test_device_threads_and_trunk_weights_count_too(change: dict[str, object], line: str) -> None:
    table = one_table([*made(runs_of("a")), *made(runs_of("b"), **change)])
    assert table.origins == (line,)


def test_the_flags_of_cudnn_count_too() -> None:
    def flagged(name: str, value: object) -> list[Record]:
        folds = [record for record in made(runs_of(name)) if isinstance(record, FoldRecord)]
        return [replace(record, in_force={"numerics": value}) for record in folds]

    off, on = flagged("a", {"cudnn_benchmark": False}), flagged("b", {"cudnn_benchmark": True})
    assert one_table([*off, *on]).origins == ("cudnn_benchmark False (a) or True (b)",)
    assert one_table([*off, *flagged("b", "of another release")]).origins == ()


def test_what_only_some_records_tell_and_what_pixels_have_no_use_for_are_no_difference() -> None:
    pixels = made(runs_of("pixels"), trunk_weights="none", versions={**MADE.versions, "faiss-cpu": "1.15.1"})
    assert one_table([*made(runs_of("ms")), *pixels]).origins == ()


def test_failed_folds_stand_behind_no_number() -> None:
    failed = made([fold_record(identity("triplet", 1), 0, None)], device="other")
    assert one_table([*made(runs_of("ms")), *failed]).origins == ()


def test_each_comparison_has_its_own() -> None:
    elsewhere = made(run_of("ms", 1, split={"kind": "balanced", "digest": "ef" * 8}), device="other")
    records = [*made(runs_of("ms")), *elsewhere]
    folds = [record for record in records if isinstance(record, FoldRecord)]
    assert differing_origins(folds) == ("device cpu (ms) or other (ms)",)
    with pytest.raises(ValueError, match="too many values"):
        one_table(records)  # two tables
    assert one_table(records[-5:]).origins == ()


def test_many_methods_behind_one_value_are_counted() -> None:
    folds = [fold_record(identity(name, 1), 0, 0.1) for name in "abcdef"]
    other = replace(folds[-1], provenance=replace(PROVENANCE, device="other"))
    assert differing_origins([*folds[:-1], other]) == ("device cpu (a, b, c and 2 more) or other (f)",)
