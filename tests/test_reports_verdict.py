"""The verdict of the regression gate, against intervals worked out by hand and with SciPy's own test."""

import json

import pytest
from gate_records import OLD
from scipy import stats

from reports.errors import ReportError
from reports.gate.verdict import Verdict, judge

Runs = dict[int, float]


def runs(*values: float) -> Runs:
    return dict(enumerate(values, 1))


def shifted(by: float) -> Runs:
    """The old runs moved by about as much each."""
    return runs(*(value + by + index / 1000 for index, value in enumerate(OLD)))


# Differences .01, .02, .03 have mean .02, deviation .01: the 95 % half width is 4.3027 x .01 / sqrt(3) = .02484, the
# 90 % half width 2.9200 x .01 / sqrt(3) = .01686 (t quantiles of two degrees of freedom, from tables).
BASE = runs(0.5, 0.5, 0.5)
UP = runs(0.51, 0.52, 0.53)


def test_the_interval_is_that_of_the_tables() -> None:
    ruling = judge(UP, BASE)
    assert ruling.difference is not None
    assert ruling.difference.mean == pytest.approx(0.02)
    assert ruling.difference.half_width == pytest.approx(0.02484, abs=1e-5)
    assert ruling.verdict is Verdict.NO_EVIDENCE


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.02, Verdict.BETTER), (-0.02, Verdict.WORSE), (0.0, Verdict.NO_EVIDENCE)]
)
def test_better_and_worse_agree_with_scipys_paired_test(shift: float, verdict: Verdict) -> None:
    noise = (0.003, -0.002, 0.004, -0.004, -0.001)
    new = [value + shift + error for value, error in zip(OLD, noise, strict=True)]
    ruling = judge(runs(*new), runs(*OLD))
    p_value = stats.ttest_rel(new, OLD).pvalue
    assert ruling.difference is not None
    assert ruling.difference.p_value == pytest.approx(p_value)
    assert (p_value <= 0.05) == (verdict is not Verdict.NO_EVIDENCE)
    assert ruling.verdict is verdict


@pytest.mark.parametrize(("margin", "verdict"), [(0.0368, Verdict.NO_EVIDENCE), (0.0369, Verdict.EQUIVALENT)])
def test_equivalence_holds_from_the_end_of_the_90_percent_interval_on(margin: float, verdict: Verdict) -> None:
    """Mean .02 and half width .01686: the interval ends at .03686."""
    assert judge(UP, BASE, margin=margin).verdict is verdict


@pytest.mark.parametrize(("margin", "holds"), [(0.0368, False), (0.0369, True)])
def test_not_inferior_looks_at_the_lower_end_alone(margin: float, holds: bool) -> None:
    assert judge(BASE, UP, margin=margin).is_non_inferior is holds
    assert judge(UP, BASE, margin=1e-9).is_non_inferior is True  # its interval begins at .00314
    assert judge(UP, BASE).is_non_inferior is None


def test_inside_the_margin_a_sure_difference_is_equivalent_and_neither_better_nor_worse() -> None:
    new = runs(*(value + 0.001 for value in OLD))
    assert judge(new, runs(*OLD)).verdict is Verdict.BETTER
    assert judge(new, runs(*OLD), margin=0.002).verdict is Verdict.EQUIVALENT
    assert judge(runs(*OLD), new).verdict is Verdict.WORSE
    assert judge(runs(*OLD), new, margin=0.002).verdict is Verdict.EQUIVALENT


def test_equal_runs_are_no_evidence_and_equivalent_within_any_margin() -> None:
    ruling = judge(runs(*OLD), runs(*OLD))
    assert ruling.verdict is Verdict.NO_EVIDENCE
    assert ruling.difference is not None
    assert (ruling.difference.mean, ruling.difference.half_width, ruling.difference.p_value) == (0.0, 0.0, 1.0)
    assert judge(runs(*OLD), runs(*OLD), margin=1e-6).verdict is Verdict.EQUIVALENT


@pytest.mark.parametrize("new", [{}, runs(0.1), runs(0.1, 0.2), {4: 0.1, 5: 0.1, 6: 0.1}])
def test_fewer_than_three_shared_runs_are_too_few(new: Runs) -> None:
    ruling = judge(new, runs(*OLD[:3]))
    assert ruling.verdict is Verdict.TOO_FEW_RUNS
    assert ruling.difference is None
    assert "3 are the fewest" in ruling.reason


def test_runs_that_only_one_side_has_are_not_compared() -> None:
    ruling = judge({**UP, 4: 0.0, 5: 0.0}, BASE)
    assert ruling.difference is not None
    assert ruling.difference.n == 3


def test_a_run_that_the_new_one_loses_and_the_old_one_does_not_makes_it_worse() -> None:
    better_elsewhere = runs(*(value + 0.2 for value in OLD[:4]))
    ruling = judge(better_elsewhere, runs(*OLD), failed={5: "collapsed"}, margin=0.3)
    assert ruling.verdict is Verdict.WORSE
    assert ruling.reason == "run 5 of the new one failed: collapsed"
    assert ruling.is_non_inferior is False


def test_a_run_that_both_lose_says_nothing() -> None:
    old = runs(*OLD[:4])
    assert judge(dict(old), old, failed={5: "collapsed"}).verdict is Verdict.NO_EVIDENCE


def test_a_smaller_level_asks_for_more() -> None:
    new = runs(*(value + shift for value, shift in zip(OLD, (0.01, 0.02, 0.012, 0.018, 0.015), strict=True)))
    p_value = stats.ttest_rel(list(new.values()), OLD).pvalue
    assert judge(new, runs(*OLD), level=p_value * 1.01).verdict is Verdict.BETTER
    assert judge(new, runs(*OLD), level=p_value * 0.99).verdict is Verdict.NO_EVIDENCE


@pytest.mark.parametrize(
    ("new", "margin", "met"),
    [
        (shifted(0.05), None, {None, "better"}),
        (shifted(0.05), 0.01, {None, "better", "non-inferior"}),
        (shifted(-0.05), 0.01, set()),
        (runs(*OLD), None, {None}),
        (runs(*OLD), 0.01, {None, "non-inferior"}),
        (runs(0.5), 0.01, set()),
    ],
)
def test_what_is_required_is_met_by_no_other_verdict(new: Runs, margin: float | None, met: set[str | None]) -> None:
    ruling = judge(new, runs(*OLD), margin=margin)
    assert {asked for asked in (None, "better", "non-inferior") if ruling.meets(asked)} == met


@pytest.mark.parametrize("margin", [0.0, -0.1, 1.0, float("nan"), float("inf")])
def test_a_margin_that_can_be_none_is_refused(margin: float) -> None:
    with pytest.raises(ReportError, match="margin"):
        judge(UP, BASE, margin=margin)


@pytest.mark.parametrize("level", [0.0, 0.5, float("nan")])
def test_a_level_that_can_be_none_is_refused(level: float) -> None:
    with pytest.raises(ReportError, match="level"):
        judge(UP, BASE, level=level)


def test_a_verdict_is_its_words() -> None:
    assert json.dumps(Verdict.NO_EVIDENCE) == '"no evidence of a difference"'
