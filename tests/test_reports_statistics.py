"""The interval over runs against values worked out by hand and a quantile found by integration."""

import math
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.errors import ReportError
from reports.statistics.intervals import mean_interval


@pytest.mark.parametrize(
    ("values", "mean", "half_width"),
    [
        ([0.2, 0.4], 0.3, 12.706204736 * 0.1),  # t(1) = 12.706; deviation 0.1 * sqrt(2), over sqrt(2)
        ([1.0, 2.0, 3.0], 2.0, 4.302652730 / math.sqrt(3)),  # t(2) = 4.303; deviation 1
        ([0.0, 0.0, 0.0, 0.0, 1.0], 0.2, 2.776445105 * math.sqrt(0.2) / math.sqrt(5)),  # t(4) = 2.776
        ([0.1 * n for n in range(1, 11)], 0.55, 2.262157163 * math.sqrt(0.825 / 9) / math.sqrt(10)),  # t(9) = 2.262
    ],
)
def test_interval_equals_the_hand_computed_one(values: list[float], mean: float, half_width: float) -> None:
    interval = mean_interval(values)
    assert interval.mean == pytest.approx(mean, abs=1e-12)
    assert interval.half_width == pytest.approx(half_width, rel=1e-9)
    assert interval.n == len(values)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_half_width_covers_95_percent_of_the_t_density(n: int) -> None:
    values = [float(value) for value in range(n)]
    deviation = math.sqrt(sum((value - (n - 1) / 2) ** 2 for value in values) / (n - 1))
    half_width = mean_interval(values).half_width
    assert half_width is not None
    quantile, freedom, steps = half_width / (deviation / math.sqrt(n)), n - 1, 200_000
    scale = math.gamma((freedom + 1) / 2) / (math.sqrt(freedom * math.pi) * math.gamma(freedom / 2))
    middles = ((step + 0.5) * quantile / steps for step in range(steps))
    density = sum((1 + t * t / freedom) ** (-(freedom + 1) / 2) for t in middles)
    assert 2 * scale * density * quantile / steps == pytest.approx(0.95, abs=1e-7)


def test_one_run_has_a_mean_and_no_interval() -> None:
    interval = mean_interval([0.25])
    assert (interval.mean, interval.half_width, interval.n) == (0.25, None, 1)


@given(value=st.floats(0, 1), n=st.integers(2, 12))
def test_equal_values_give_a_half_width_of_exactly_zero_without_a_warning(value: float, n: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        interval = mean_interval([value] * n)
    assert (interval.mean, interval.half_width) == (value, 0.0)


@pytest.mark.parametrize("values", [[], [0.1, math.nan], [math.inf], [0.1, -math.inf, 0.2]])
def test_no_value_and_values_that_are_no_numbers_are_refused(values: list[float]) -> None:
    with pytest.raises(ReportError, match="run") as refusal:
        mean_interval(values)
    assert "\n" not in str(refusal.value)
