"""Paired differences and Holm's correction against hand-computed values, enumeration and the definition."""

import itertools
import math
import statistics
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.errors import ReportError
from reports.statistics.paired import holm, paired_difference


def numbered(*values: float) -> dict[int, float]:
    return dict(enumerate(values, start=1))


def test_a_difference_equals_the_hand_computed_one() -> None:
    # Differences 1, 2, 3: mean 2, deviation 1, t = 2 * sqrt(3); t(2) at 97.5 % is 4.303 and its tail has a closed form.
    found = paired_difference(numbered(2.0, 4.0, 6.0), numbered(1.0, 2.0, 3.0))
    t = 2 * math.sqrt(3)
    assert (found.mean, found.n) == (2.0, 3)
    assert found.effect_size == pytest.approx(2.0)
    assert found.half_width == pytest.approx(4.302652730 / math.sqrt(3), rel=1e-9)
    assert found.p_value == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-12)


def test_two_runs_have_the_tail_of_the_cauchy_distribution() -> None:
    found = paired_difference(numbered(0.5, 0.7), numbered(0.4, 0.4))  # differences 0.1, 0.3: t = 2
    assert found.p_value == pytest.approx(1 - 2 * math.atan(2) / math.pi)
    assert found.half_width == pytest.approx(12.706204736 * 0.1, rel=1e-9)


@pytest.mark.parametrize(("confidence", "quantile"), [(0.90, 1.833112933), (0.99, 3.249835542)])
def test_the_interval_has_the_confidence_that_was_asked_for(confidence: float, quantile: float) -> None:
    differences = [0.1 * n for n in range(1, 11)]
    found = paired_difference(numbered(*differences), numbered(*[0.0] * 10), confidence)
    assert found.half_width == pytest.approx(quantile * statistics.stdev(differences) / math.sqrt(10), rel=1e-9)


def test_the_p_value_is_near_that_of_all_sign_flips() -> None:
    differences = [0.012, -0.004, 0.009, 0.015, 0.001, -0.007, 0.011, 0.006, 0.003, -0.002, 0.008, 0.005]
    flips = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    permuted = sum(flip >= abs(sum(differences)) - 1e-12 for flip in flips) / len(flips)
    found = paired_difference(numbered(*differences), numbered(*[0.0] * len(differences)))
    assert found.p_value == pytest.approx(permuted, abs=0.01)


def test_only_runs_that_both_have_are_compared_each_with_its_own() -> None:
    new, old = {5: 0.9, 3: 0.6, 1: 0.4}, {3: 0.5, 2: 0.1, 5: 0.6}
    found = paired_difference(new, old)
    assert found.n == 2
    assert found.mean == pytest.approx(0.2)
    assert found == paired_difference({3: 0.6, 5: 0.9}, {5: 0.6, 3: 0.5})


def test_one_run_has_a_difference_and_nothing_else() -> None:
    found = paired_difference({4: 0.5, 1: 0.1}, {4: 0.25, 2: 0.3})
    assert (found.mean, found.half_width, found.effect_size, found.p_value, found.n) == (0.25, None, None, None, 1)


@pytest.mark.parametrize(("shift", "p_value"), [(0.0, 1.0), (0.1, 0.0), (-0.1, 0.0)])
def test_equal_differences_leave_nothing_to_chance(shift: float, p_value: float) -> None:
    old = numbered(0.1, 0.2, 0.3, 0.7)  # 0.1 + 0.1 - 0.1 and 0.3 + 0.1 - 0.3 differ in their last bits
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = paired_difference({run: value + shift for run, value in old.items()}, old)
    assert found.mean == pytest.approx(shift, abs=1e-15)
    assert (found.half_width, found.effect_size, found.p_value) == (0.0, None, p_value)


def test_what_another_order_of_the_folds_changes_is_no_difference() -> None:
    folds = [[0.1, 0.2, 0.3, 0.7], [0.15, 0.21, 0.34, 0.67], [0.11, 0.27, 0.31, 0.73]]
    forward = numbered(*(sum(run) / 4 for run in folds))
    backward = numbered(*(sum(reversed(run)) / 4 for run in folds))
    assert forward != backward
    found = paired_difference(forward, backward)
    assert (found.mean, found.half_width, found.p_value) == (0.0, 0.0, 1.0)


@given(st.dictionaries(st.integers(1, 9), st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2))
def test_swapping_the_methods_swaps_the_sign_alone(pairs: dict[int, tuple[float, float]]) -> None:
    new, old = ({run: pair[side] for run, pair in pairs.items()} for side in (0, 1))
    one, other = paired_difference(new, old), paired_difference(old, new)
    assert one.mean == -other.mean
    assert (one.half_width, one.p_value, one.n) == (other.half_width, other.p_value, other.n)
    assert one.p_value is not None
    assert 0 <= one.p_value <= 1


@pytest.mark.parametrize(
    ("new", "old", "confidence", "words"),
    [
        ({1: 0.1}, {2: 0.1}, 0.95, "no run is shared"),
        ({}, {}, 0.95, "no run is shared"),
        ({1: 0.1, 2: math.nan}, {1: 0.1, 2: 0.2}, 0.95, "run 2"),
        ({1: 0.1, 2: 0.3}, {1: 0.1, 2: math.inf}, 0.95, "run 2"),
        ({1: 0.1, 2: 0.3}, {1: 0.1, 2: 0.2}, 95, "between 0 and 1"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(new, old, confidence: float, words: str) -> None:
    with pytest.raises(ReportError, match=words) as refusal:
        paired_difference(new, old, confidence)
    assert "\n" not in str(refusal.value)


def test_a_value_that_is_missing_in_a_run_of_one_method_alone_does_not_matter() -> None:
    assert paired_difference({1: 0.1, 2: 0.3, 9: math.nan}, {1: 0.1, 2: 0.2}).n == 2


def test_holm_equals_the_hand_computed_values() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.02]) == [0.02]
    assert holm([]) == []
    assert holm([0.6, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=8), st.sampled_from([0.01, 0.05, 0.2]))
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values: list[float], level: float) -> None:
    rejected, order = set(), sorted(range(len(p_values)), key=lambda index: p_values[index])
    for step, index in enumerate(order):
        if p_values[index] * (len(p_values) - step) > level:
            break
        rejected.add(index)
    assert {index for index, adjusted in enumerate(holm(p_values)) if adjusted <= level} == rejected


@pytest.mark.parametrize("p_value", [math.nan, -0.1, 1.5])
def test_holm_refuses_what_is_no_p_value(p_value: float) -> None:
    with pytest.raises(ReportError, match="p-values"):
        holm([0.1, p_value])
