"""Ranks, groups and aggregates against enumeration, hand-computed values and planted differences."""

import itertools
import math
import statistics
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reports.errors import ReportError
from reports.statistics.paired import holm, paired_difference
from reports.statistics.ranks import (
    RankInterval,
    groups,
    interquartile_mean,
    probability_of_improvement,
    rank_intervals,
    same_as_best,
)


def methods(**means: float) -> dict[str, dict[int, float]]:
    """Five runs of each method: a common effect of the seed, and noise of 0.01 of its own."""
    random = np.random.default_rng(5)
    seeds = random.normal(0, 0.05, 5)
    return {name: dict(enumerate(mean + seeds + random.normal(0, 0.01, 5), start=1)) for name, mean in means.items()}


CLEAR = methods(worst=0.1, middle=0.3, good=0.5)
CLEAR["also_good"] = {run: CLEAR["good"][run] + change for run, change in enumerate((0.02, -0.02, 0.01, -0.02, 0), 1)}


def test_only_methods_that_are_told_from_the_best_are_not_the_same_as_it() -> None:
    assert same_as_best(CLEAR) == {"good", "also_good"}


def test_the_noise_that_all_runs_of_a_seed_share_does_not_hide_a_difference() -> None:
    assert same_as_best(methods(one=0.50, other=0.46)) == {"one"}  # the runs overlap: the seeds move them by 0.05


def test_holm_makes_more_rivals_need_a_smaller_p_value() -> None:
    best, rival = {1: 0.5, 2: 0.5, 3: 0.5}, {1: 0.44, 2: 0.42, 3: 0.46}
    assert 0.01 < (paired_difference(best, rival).p_value or 0) < 0.05
    assert same_as_best({"best": best, "rival": rival}) == {"best"}
    several = {f"rival {i}": rival for i in range(6)}
    assert same_as_best({"best": best, **several}) == {"best", *several}


def test_a_method_of_one_run_is_with_the_best_only_if_it_is_the_best() -> None:
    many = {1: 0.5, 2: 0.6, 3: 0.4}
    assert same_as_best({"many": many, "one": {1: 0.49}}) == {"many"}
    assert same_as_best({"many": many, "one": {1: 0.7}}) == {"one"}
    assert same_as_best({"many": many, "one": {7: 0.5}}) == {"many", "one"}  # equal means are both the best
    assert same_as_best({"alone": {1: 0.1}}) == {"alone"}
    assert same_as_best({}) == frozenset()


def test_a_method_ahead_over_the_shared_runs_is_not_put_below_the_best() -> None:
    best = {1: 0.3, 2: 0.3, 3: 0.9, 4: 0.9, 5: 0.9}
    assert same_as_best({"best": best, "ahead": {1: 0.401, 2: 0.4}}) == {"best", "ahead"}


def test_equal_methods_share_everything() -> None:
    equal = {name: {1: 0.1, 2: 0.3, 3: 0.2} for name in "xyz"}
    assert same_as_best(equal) == {"x", "y", "z"}
    assert groups(equal) == dict.fromkeys("xyz", "a")
    assert rank_intervals(equal) == dict.fromkeys("xyz", RankInterval(rank=1, low=1, high=1))


def test_groups_have_letters_from_the_best_down() -> None:
    assert groups(CLEAR) == {"worst": "c", "middle": "b", "good": "a", "also_good": "a"}


def test_a_method_between_two_groups_has_the_letters_of_both() -> None:
    high, low = {1: 0.50, 2: 0.51, 3: 0.52, 4: 0.50}, {1: 0.40, 2: 0.41, 3: 0.41, 4: 0.39}
    between = {1: 0.55, 2: 0.35, 3: 0.50, 4: 0.40}
    assert groups({"low": low, "between": between, "high": high}) == {"low": "b", "between": "ab", "high": "a"}


def test_a_method_of_one_run_has_no_letter_and_spoils_no_other() -> None:
    assert groups({**CLEAR, "once": {1: 0.3}}) == {**groups(CLEAR), "once": ""}
    assert groups({"once": {1: 0.3}}) == {"once": ""}
    assert groups({}) == {}


def test_methods_that_share_no_runs_are_not_told_apart() -> None:
    early, late = {1: 0.1, 2: 0.11, 3: 0.1}, {4: 0.9, 5: 0.91, 6: 0.9}
    assert groups({"early": early, "late": late}) == {"early": "a", "late": "a"}


@pytest.mark.parametrize("seed", range(15))
def test_two_methods_share_a_letter_exactly_if_holm_does_not_tell_them_apart(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = {f"m{i}": dict(enumerate(random.normal(0.3 + 0.01 * random.integers(5), 0.01, 4))) for i in range(8)}
    pairs = list(itertools.combinations(values, 2))
    adjusted = holm([stats.ttest_rel(*(list(values[name].values()) for name in pair)).pvalue for pair in pairs])
    letters = groups(values)
    for (one, other), p_value in zip(pairs, adjusted, strict=True):
        assert bool(set(letters[one]) & set(letters[other])) == (p_value > 0.05)
    assert all(letters.values())


def test_rank_intervals_equal_those_of_all_resamples() -> None:
    values = {"a": {1: 0.5, 2: 0.1, 3: 0.4}, "b": {1: 0.2, 2: 0.35, 3: 0.3}, "c": {1: 0.3, 2: 0.25, 3: 0.29}}
    ranks: dict[str, list[int]] = {name: [] for name in values}
    wider = 4.302652730 / 1.959963985 * math.sqrt(3 / 2)  # t(2) against the normal, n against n - 1
    for drawn in itertools.product((1, 2, 3), repeat=3):
        means = {}
        for name, runs in values.items():
            mean = statistics.fmean(runs.values())
            means[name] = round(mean + wider * (statistics.fmean(runs[run] for run in drawn) - mean), 12)
        for name in values:
            ranks[name].append(1 + sum(mean > means[name] for mean in means.values()))
    for name, found in rank_intervals(values, n_resamples=20_000).items():
        expected = sorted(ranks[name])
        assert (found.low, found.high) == (expected[0], expected[-1])  # each of the 27 has more than 2.5 %
    assert [found.rank for found in rank_intervals(values).values()] == [1, 2, 3]


@pytest.mark.parametrize("n_runs", [2, 3, 10])
def test_equal_methods_are_ranked_as_if_they_differed_about_once_in_twenty_times(n_runs: int) -> None:
    random, n_repeats, told_apart = np.random.default_rng(9), 400, 0
    for _ in range(n_repeats):
        values = {name: dict(enumerate(random.normal(0.3, 0.01, n_runs))) for name in "ab"}
        found = rank_intervals(values, n_resamples=400)
        told_apart += found["a"].low == found["a"].high
    assert told_apart / n_repeats <= 0.10  # 0.5 and 0.25 with 2 and 3 runs, were they resampled as they are


def test_a_clear_order_has_narrow_intervals_and_a_tie_a_wide_one() -> None:
    found = rank_intervals(CLEAR)
    assert found["worst"] == RankInterval(rank=4, low=4, high=4)
    assert found["middle"] == RankInterval(rank=3, low=3, high=3)
    assert {found["good"].rank, found["also_good"].rank} == {1, 2}
    assert (found["good"].low, found["good"].high) == (1, 2)


def test_the_seed_moves_all_methods_and_so_no_rank() -> None:
    found = rank_intervals(methods(one=0.50, other=0.44))
    assert found["one"] == RankInterval(rank=1, low=1, high=1)


def test_equal_means_share_the_better_rank() -> None:
    values = {"a": {1: 0.2, 2: 0.2}, "b": {1: 0.1, 2: 0.3}, "c": {1: 0.1, 2: 0.1}}
    assert [found.rank for found in rank_intervals(values).values()] == [1, 1, 3]


def test_one_run_allows_every_rank() -> None:
    found = rank_intervals({"a": {1: 0.2}, "b": {1: 0.3}, "c": {1: 0.1}})
    assert found["a"] == RankInterval(rank=2, low=1, high=3)
    assert rank_intervals({}) == {}


def test_the_same_seed_gives_the_same_intervals() -> None:
    values = methods(**{f"m{i}": 0.3 + 0.002 * i for i in range(9)})
    assert rank_intervals(values, seed=3) == rank_intervals(values, seed=3)


def test_ranks_of_methods_with_different_runs_are_refused() -> None:
    with pytest.raises(ReportError, match="b lacks 2"):
        rank_intervals({"a": {1: 0.1, 2: 0.2}, "b": {1: 0.1}})


def test_twenty_methods_take_well_under_a_second() -> None:
    values = methods(**{f"m{i}": 0.3 + 0.002 * i for i in range(20)})
    start = time.process_time()
    rank_intervals(values)
    groups(values)
    assert time.process_time() - start < 1


def test_the_probability_of_improvement_counts_all_pairs_and_half_of_the_ties() -> None:
    # 0.3 is above 0.1 and 0.2 and ties with 0.3; 0.2 is above 0.1, ties with 0.2 and is below 0.3: (2.5 + 1.5) / 6
    assert probability_of_improvement({1: 0.3, 2: 0.2}, {1: 0.1, 2: 0.2, 3: 0.3}) == pytest.approx(4 / 6)
    assert probability_of_improvement({1: 0.9}, {1: 0.1}) == 1.0
    assert probability_of_improvement({1: 0.1 + 0.2}, {1: 0.3}) == 0.5


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_it_is_the_mann_whitney_statistic_over_its_largest_value(new: list[int], old: list[int]) -> None:
    found = probability_of_improvement(dict(enumerate(map(float, new))), dict(enumerate(map(float, old))))
    assert found == pytest.approx(stats.mannwhitneyu(new, old).statistic / (len(new) * len(old)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.4], 0.4),
        ([0.2, 0.4], 0.3),
        ([0.1, 0.4, 0.9], (0.25 * 0.1 + 0.4 + 0.25 * 0.9) / 1.5),
        ([0.9, 0.1, 0.4, 0.2], 0.3),
        ([0.0, 0.1, 0.2, 0.3, 1.0], (0.75 * 0.1 + 0.2 + 0.75 * 0.3) / 2.5),
    ],
)
def test_the_interquartile_mean_equals_the_hand_computed_one(values: list[float], expected: float) -> None:
    assert interquartile_mean(values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_the_interquartile_mean_of_a_multiple_of_four_is_the_trimmed_mean(values: list[float]) -> None:
    assert interquartile_mean(4 * values) == pytest.approx(stats.trim_mean(4 * values, 0.25))


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: interquartile_mean([]),
        lambda: interquartile_mean([0.1, math.nan]),
        lambda: same_as_best({"a": {1: 0.1, 2: math.nan}}),
        lambda: groups({"a": {}}),
        lambda: rank_intervals({"a": {1: math.inf, 2: 0.1}}),
        lambda: probability_of_improvement({}, {1: 0.1}),
        lambda: probability_of_improvement({1: math.nan}, {1: 0.1}),
    ],
)
def test_missing_values_are_refused_in_one_line(attempt) -> None:
    with pytest.raises(ReportError) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)
