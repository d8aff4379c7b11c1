"""Two sides judged: what differs is told first, other fingerprints are never compared, looks stop when it is clear."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from gate_records import N_RUNS, OLD, PROTOCOL, final, made_with, records, side

from benchmark.training.failure import RESULT_REASONS
from reports.errors import ReportError
from reports.gate.comparability import differences
from reports.gate.judgement import compare, foretold, measure, until_decided
from reports.gate.judgement_text import as_dict, to_lines, verdict_line
from reports.gate.junit import Case, to_junit
from reports.gate.sides import OWN_DOING, Side, paired_values, side_of_records
from reports.gate.verdict import Verdict
from reports.statistics.sequential import boundaries, schedule

WORSE = [value - 0.1 + index / 1000 for index, value in enumerate(OLD)]


def judged(new: Side, old: Side, **given):
    return compare(new, old, "concatenated", "map_at_r", **given)


def test_a_worse_method_is_told_with_its_difference_in_points() -> None:
    found = judged(side(WORSE, "new"), side(OLD))
    assert found.ruling.verdict is Verdict.WORSE
    lines = to_lines(found)
    assert lines[-1] == "verdict  worse"
    assert any(line.startswith("found    -9.80 ± 0.2") for line in lines)
    assert "new      new: 41.20" in lines[0]


def test_separated_values_are_the_means_of_the_folds() -> None:
    found = compare(side(WORSE, "new"), side(OLD), "separated", "map_at_r")
    assert found.runs[1] == pytest.approx(dict(enumerate(OLD, 1)))


def test_two_results_that_differ_in_their_split_alone_are_not_comparable() -> None:
    """H09: the fields that differ stand first, and no number decides."""
    new, old = side(WORSE, "new"), side(OLD)
    other = replace(new, identity=replace(new.identity, split={"kind": "balanced", "digest": "ee"}))
    found = judged(other, old)
    assert found.ruling.verdict is Verdict.NOT_COMPARABLE
    assert to_lines(found)[0] == "differs  split.digest: ee against cd"
    assert found.ruling.reason == "split.digest is ee against cd"
    assert as_dict(found)["passed"] is False


def test_two_results_that_differ_in_their_torch_alone_say_so_first_and_are_judged() -> None:
    """H26."""
    new = side_of_records("new", made_with(records(WORSE, "new"), versions={"torch": "2.9.0"}))
    old = side_of_records("old", made_with(records(OLD), versions={"torch": "2.14.1"}))
    found = judged(new, old)
    assert to_lines(found)[0] == "differs  torch: 2.9.0 against 2.14.1"
    assert found.ruling.verdict is Verdict.WORSE
    assert as_dict(found)["differing"] == [{"field": "torch", "new": "2.9.0", "old": "2.14.1", "decisive": False}]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({**PROTOCOL, "optimiser": {"lr": 0.2}}, "protocol.optimiser.lr: 0.2 against 0.1"),
        ({**PROTOCOL, "finals": {"n_runs": 6}}, "protocol.finals.n_runs: 6 against 5"),
        ({**PROTOCOL, "added": [1]}, "protocol.added: [1] against -"),
    ],
)
def test_another_protocol_is_named_by_the_field_that_differs(values, field) -> None:
    found = differences(side(OLD, "new", protocol=values), side(OLD))
    assert [f"{one.field}: {one.new} against {one.old}" for one in found] == [field]
    assert found[0].is_decisive


def test_prose_of_a_protocol_makes_no_difference() -> None:
    assert differences(side(OLD, "new", protocol={**PROTOCOL, "purpose": "another"}), side(OLD)) == []


def test_other_images_are_not_comparable() -> None:
    new = side(OLD, "new")
    other = replace(new, identity=replace(new.identity, dataset={**new.identity.dataset, "content_hash": "ff"}))
    assert judged(other, side(OLD)).ruling.reason == "dataset.content_hash is ff against ab"


def test_mixed_versions_of_one_side_are_told_together() -> None:
    mixed = made_with(records(OLD[:2]), versions={"torch": "1"}) + made_with(records(OLD)[6:], versions={"torch": "2"})
    new = side_of_records("new", made_with(records(OLD), versions={"torch": "2"}))
    (only,) = differences(new, side_of_records("old", mixed))
    assert (only.new, only.old) == ("2", "1 and 2")


def test_a_method_that_collapses_where_the_old_one_does_not_is_worse() -> None:
    found = judged(side([None, *OLD[1:]], "new"), side(OLD))
    assert found.ruling.verdict is Verdict.WORSE
    assert verdict_line(found) == "worse: run 1 of the new one failed: collapsed (all are the same)"


def test_a_run_that_the_machine_lost_is_missing_and_not_the_methods_doing() -> None:
    lost = [
        replace(one, reason="out-of-memory") if getattr(one, "reason", None) else one
        for one in records([None, *OLD[1:]], "new")
    ]
    found = judged(side_of_records("new", lost), side(OLD))
    assert found.ruling.verdict is Verdict.NO_EVIDENCE
    assert sorted(found.runs[0]) == [2, 3, 4, 5]


def test_a_failed_run_of_the_old_one_is_left_out_and_told() -> None:
    found = judged(side(WORSE, "new"), side([None, None, *OLD[2:]]))
    assert found.ruling.difference is not None
    assert found.ruling.difference.n == 3
    assert found.notes == ("runs 1, 2 of old failed and are left out: collapsed (all are the same)",)


def test_what_a_method_has_done_is_the_same_here_and_where_jobs_run() -> None:
    assert OWN_DOING == RESULT_REASONS


def test_equal_bits_are_told() -> None:
    assert judged(side(OLD, "new"), side(OLD)).notes == ("all 5 runs are equal to the last bit",)


def test_one_run_of_a_method_without_chance_stands_for_every_run() -> None:
    pixels = Side(label="pixels", identity=final(1, "pixels"), values={("concatenated", "map_at_r"): {1: 0.2}})
    new, old = paired_values(side(OLD, "new"), pixels, "concatenated", "map_at_r")
    assert old == dict.fromkeys(new, 0.2)
    assert judged(side(OLD, "new"), pixels).ruling.verdict is Verdict.BETTER
    assert judged(pixels, side(OLD)).ruling.verdict is Verdict.WORSE
    assert judged(pixels, replace(pixels, label="again")).ruling.verdict is Verdict.TOO_FEW_RUNS


def test_too_few_planned_runs_are_told_before_anything_is_run() -> None:
    two = {**PROTOCOL, "finals": {"n_runs": 2}}
    new, old = (Side(label=name, identity=final(1, name, two), values={}) for name in ("new", "old"))
    found = foretold(new, old, "concatenated", "map_at_r")
    assert found is not None
    assert found.ruling.verdict is Verdict.TOO_FEW_RUNS
    assert "Nothing was run" in to_lines(found)[-1]
    enough = [Side(label=name, identity=final(1, name), values={}) for name in ("new", "old")]
    assert "give --set n_runs=3 or more. Nothing was run" in found.ruling.reason
    assert foretold(*enough, "concatenated", "map_at_r") is None


def test_several_variants_of_a_method_are_refused_by_name() -> None:
    both = [*records(OLD[:1], margin=0.1), *records(OLD[:1], margin=0.2)]
    with pytest.raises(ReportError, match=r"2 variants .* 0\.1.*0\.2"):
        side_of_records("old.json", both)
    with pytest.raises(ReportError, match="no final run"):
        side_of_records("old.json", [])


@pytest.mark.parametrize(
    ("setting", "metric", "said"),
    [("concatenated", "recall", "--metric recall: mini@1 measures map_at_r"), ("apart", None, "--setting apart")],
)
def test_a_metric_or_setting_that_the_protocol_lacks_is_refused(setting, metric, said) -> None:
    with pytest.raises(ReportError, match=said):
        measure(final(1), setting, metric)
    with pytest.raises(ReportError, match="has separated"):
        measure(final(1, protocol={**PROTOCOL, "folds": {"n_folds": 1, "kind": "holdout"}}), "concatenated", None)
    assert measure(final(1), None, None) == ("concatenated", "map_at_r")


# --- looks


def looks_at(new: list[float | None], **given):
    asked: list[int] = []

    def sides(n_runs: int) -> tuple[Side, Side]:
        asked.append(n_runs)
        return side(new, "new"), side(OLD)

    looks = schedule(N_RUNS)
    return until_decided(sides, looks, boundaries(looks), "concatenated", "map_at_r", **given), asked


def test_looks_stop_at_a_clear_difference() -> None:
    found, asked = looks_at(WORSE)
    assert asked == [3]
    assert found.ruling.verdict is Verdict.WORSE
    assert sorted(found.runs[0]) == [1, 2, 3]
    assert found.ruling.level == boundaries([3, 5])[0]
    assert found.max_runs == 5


def test_looks_go_on_to_the_last_where_nothing_is_clear() -> None:
    noise = (0.02, -0.02, 0.01, -0.01, 0.005)
    found, asked = looks_at([value + error for value, error in zip(OLD, noise, strict=True)])
    assert asked == [3, 5]
    assert found.ruling.verdict is Verdict.NO_EVIDENCE
    assert [look.n_runs for look in found.looks] == [3, 5]
    assert any("5 runs: p " in line for line in to_lines(found))


def test_looks_stop_at_a_failure_and_at_equivalence() -> None:
    assert looks_at([None, *OLD[1:]])[1] == [3]
    assert looks_at(list(OLD), margin=0.01)[1] == [3]
    assert looks_at(list(OLD))[1] == [3, 5]


# --- for programs


def test_json_is_strict_and_has_every_run() -> None:
    found = as_dict(judged(side(WORSE, "new"), side(OLD)), "better")
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again["verdict"] == "worse"
    assert again["passed"] is False
    assert again["old"]["runs"] == {str(run): value for run, value in enumerate(OLD, 1)}
    assert again["difference"]["n_runs"] == 5
    pairs = [(new > old) + (new == old) / 2 for new in WORSE for old in OLD]
    assert again["probability_of_improvement"] == pytest.approx(sum(pairs) / 25)


def test_a_hostile_name_stays_text_in_every_form() -> None:
    name = "<script>&\"'\x1b[31m\x00\ud800"
    found = judged(replace(side(WORSE, "new"), label=name), side(OLD))
    assert "\x1b" not in "\n".join(to_lines(found))
    text = to_junit([Case(name=name, outcome="failure", message=verdict_line(found), text="\n".join(to_lines(found)))])
    (case,) = ElementTree.fromstring(text.encode()).iter("testcase")
    assert case.get("name") == "<script>&\"'�[31m��"


def test_junit_counts_its_cases_and_says_why() -> None:
    cases = [
        Case(name="a", outcome="passed", message="better", text="line"),
        Case(name="b", outcome="failure", message="worse: it collapsed", text="lines"),
        Case(name="c", outcome="error", message="not comparable", text=""),
    ]
    suite = ElementTree.fromstring(to_junit(cases).encode()).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    passed, failed, wrong = suite.iter("testcase")
    assert passed.find("failure") is None
    failure, error = failed.find("failure"), wrong.find("error")
    assert failure is not None
    assert error is not None
    assert (failure.get("type"), failure.get("message"), failure.text) == ("worse", "worse: it collapsed", "lines")
