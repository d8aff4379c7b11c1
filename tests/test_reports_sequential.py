"""The test in looks: levels against closed forms, a textbook's table and simulation."""

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from reports.errors import ReportError
from reports.gate.judgement import until_decided
from reports.gate.verdict import Verdict
from reports.statistics.paired import paired_difference
from reports.statistics.sequential import boundaries, cubic, schedule

PAGE = Path(__file__).parents[1] / "docs" / "compare_power.md"


@pytest.fixture(scope="module")
def benchmark():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "benchmarks"))
        import sequential
    return sequential


@pytest.mark.parametrize(
    ("max_runs", "looks"),
    [
        (2, [2]),
        (3, [3]),
        (4, [3, 4]),
        (10, [3, 5, 7, 10]),
        (12, [3, 5, 7, 10, 12]),
        (70, [3, 5, 7, 10, 15, 20, 30, 40, 60, 70]),
    ],
)
def test_looks_grow_by_less_than_double_and_end_with_the_largest_number_of_runs(
    max_runs: int, looks: list[int]
) -> None:
    assert schedule(max_runs) == looks


@pytest.mark.parametrize("n", [2, 5, 30])
def test_a_single_look_is_a_plain_test(n: int) -> None:
    assert boundaries([n]) == [pytest.approx(0.05)]


def test_the_first_look_may_spend_what_its_share_of_the_runs_allows() -> None:
    assert boundaries([3, 5, 7, 10])[0] == pytest.approx(0.05 * 0.3**3)


@pytest.mark.parametrize(
    ("name", "critical"),
    [
        ("O'Brien-Fleming", [4.877, 3.357, 2.680, 2.290, 2.031]),
        ("Pocock", [2.438, 2.427, 2.410, 2.397, 2.386]),
    ],
)
def test_levels_of_many_runs_are_those_of_the_published_tables(benchmark, name: str, critical: list[float]) -> None:
    # Reboussin et al., "Computations for group sequential boundaries using the Lan-DeMets spending function method",
    # Controlled Clinical Trials 21, 2000: five equal looks, known variance. A t-test on 20 to 100 runs comes near.
    levels = boundaries([20, 40, 60, 80, 100], spending=benchmark.SPENDINGS[name])
    assert [NormalDist().inv_cdf(1 - level / 2) for level in levels] == pytest.approx(critical, abs=0.012)


@pytest.mark.parametrize(("looks", "alpha"), [([2, 3, 4], 0.05), ([3, 5, 7, 10], 0.05), ([3, 6, 12], 0.2)])
def test_at_every_look_the_false_alarms_so_far_are_what_may_be_spent(benchmark, looks: list[int], alpha: float) -> None:
    differences = np.random.default_rng(6).normal(size=(200_000, looks[-1]))
    stopped, n_runs = benchmark.comparisons(differences, looks, boundaries(looks, alpha))
    for look in looks:
        allowed = cubic(look / looks[-1], alpha)
        noise = math.sqrt(allowed * (1 - allowed) / len(differences))
        assert np.mean(stopped & (n_runs <= look)) == pytest.approx(allowed, abs=4 * noise)


def test_the_command_stops_where_the_simulation_says(benchmark) -> None:
    looks = schedule(10)
    levels = boundaries(looks)
    values = np.random.default_rng(7).normal(0.3, 0.01, (2, 100, 10))
    values[0] += 0.012
    stopped, n_runs = benchmark.comparisons(values[0] - values[1], looks, levels)
    for new, old, is_decided, n in zip(*values, stopped, n_runs, strict=True):
        sides = benchmark._side("new", new), benchmark._side("old", old)
        found = until_decided(lambda _, sides=sides: sides, looks, levels, "separated", "map_at_r")
        assert (found.ruling.verdict is not Verdict.NO_EVIDENCE) == is_decided
        assert found.looks[-1].n_runs == n
    assert set(n_runs) >= {5, 7, 10}  # the looks are really used


def test_the_interval_of_the_look_that_ends_it_covers_the_truth_as_often_as_it_says(benchmark) -> None:
    looks, true = [3, 5, 7, 10], 1.3
    levels = dict(zip(looks, boundaries(looks), strict=True))
    differences = np.random.default_rng(8).normal(true, 1, (3000, 10))
    _, n_runs = benchmark.comparisons(differences, looks, list(levels.values()))
    missed, missed_at_95 = 0, 0
    for row, n in zip(differences, n_runs, strict=True):
        new, old = dict(enumerate(row[:n])), dict.fromkeys(range(n), 0.0)
        interval, plain = paired_difference(new, old, 1 - levels[n]), paired_difference(new, old)
        missed += abs(interval.mean - true) > interval.half_width
        missed_at_95 += abs(plain.mean - true) > plain.half_width
    noise = 3 * math.sqrt(0.05 * 0.95 / len(differences))
    assert missed / len(differences) <= 0.05 + noise < missed_at_95 / len(differences)


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: schedule(1), "two runs or more"),
        (lambda: boundaries([]), "must ascend"),
        (lambda: boundaries([1, 3]), "from 2 runs"),
        (lambda: boundaries([3, 3]), "must ascend"),
        (lambda: boundaries([5, 3]), "must ascend"),
        (lambda: boundaries([3], alpha=5), "between 0 and 1"),
    ],
)
def test_what_makes_no_test_is_refused_in_one_line(attempt, words: str) -> None:
    with pytest.raises(ReportError, match=words) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)


def test_simulated_power_of_fixed_runs_is_the_exact_one(benchmark) -> None:
    found = benchmark.power([5], [0.05], 20_000)
    for effect, (share, n_runs) in found.items():
        assert share == pytest.approx(benchmark.exact_power(5, effect), abs=0.015)
        assert n_runs == 5


def test_the_page_shows_the_levels_that_are_used(benchmark) -> None:
    assert benchmark.level_table() in PAGE.read_text(encoding="utf-8")
