"""Paired comparison in looks: add runs until a difference is found, or the largest number of runs is reached.

A plain test after each batch of runs finds a difference among equal methods far more often than it says. Here the level
is spent over the looks (Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70, 1983), so
that the chance of a false alarm at any of them is `alpha`. Textbook levels hold for known variances; with three runs
they are wrong, so these are computed for t-statistics.

How: without a difference, the direction of the vector of n normal differences is uniform on the sphere. Its cosine u
with the vector of ones is all that a t-test sees, and given u of n + 1 runs, where it was one run before depends on one
coordinate of a uniform point on a smaller sphere. So the chance of not having stopped before, as a function of the
present p-value, follows run by run with one integral each. `tests/benchmarks/sequential.py` checks it by simulation.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from reports.errors import ReportError

FIRST_LOOKS = (3, 5, 7, 10)
N_P_VALUES, N_DIRECTIONS = 300, 500  # of the numerical integration

Array = NDArray[np.float64]
Spending = Callable[[float, float], float]


def schedule(max_runs: int) -> list[int]:
    """Run counts at which to look: 3, 5, 7, 10, 15, 20, 30, 40, 60, ... and `max_runs`.

    Raises:
        ReportError: for fewer than two runs, of which there is no test.
    """
    if max_runs < 2:
        raise ReportError(f"at most {max_runs} runs were asked for; a paired test needs two runs or more.")
    later = (step * 2**power for power in itertools.count() for step in (15, 20))
    looks = itertools.takewhile(lambda look: look < max_runs, itertools.chain(FIRST_LOOKS, later))
    return [*looks, max_runs]


def cubic(share: float, alpha: float) -> float:
    """What of alpha may be spent when a share of the runs is there: little early, so little power is lost at the end.

    Of the usual spending functions it has nearly the power of O'Brien and Fleming's, and ends sooner where a difference
    is large (docs/compare_power.md).
    Source: Kim and DeMets, "Design and analysis of group sequential tests based on the type I error spending rate
    function", Biometrika 74, 1987
    """
    return alpha * share**3


def boundaries(looks: Sequence[int], alpha: float = 0.05, spending: Spending = cubic) -> list[float]:
    """For each look, what the two-sided p-value of the paired t-test must be at most to stop there.

    Intervals of the confidence 1 - level hold at all looks together with 1 - alpha, so the one at the look that ends a
    comparison may be read although the data chose it; it excludes 0 if and only if the p-value is at most the level.

    Args:
        looks: ascending numbers of runs, the first at least 2, the last the largest.
        alpha: the chance that equal methods are told apart at any look.
        spending: share of the runs and alpha -> what of alpha may be spent by then.

    Raises:
        ReportError: if the looks do not ascend from 2 or more, or alpha is not between 0 and 1.
    """
    if not looks or looks[0] < 2 or any(later <= look for look, later in itertools.pairwise(looks)):
        raise ReportError(f"looks after {list(looks)} runs were asked for; they must ascend, and from 2 runs or more.")
    if not 0 < alpha < 1:
        raise ReportError(f"a level of {alpha} was asked for; it lies between 0 and 1, as 0.05.")
    return list(_boundaries(tuple(looks), alpha, spending))


@lru_cache(maxsize=64)
def _boundaries(looks: tuple[int, ...], alpha: float, spending: Spending) -> tuple[float, ...]:
    p_values = np.linspace(0, 1, N_P_VALUES) ** 3  # dense where levels lie
    going = np.ones(N_P_VALUES)  # the chance of not having stopped before, by the present p-value
    levels: list[float] = []
    before, stop = 0.0, 1.0
    for n in range(looks[0], looks[-1] + 1):
        if n > looks[0]:
            going = _one_run_more(going, p_values, n - 1, stop)
            stop = 1.0
        if n in looks:
            now = spending(n / looks[-1], alpha)
            # p-values of equal methods are uniform: the chance to stop here is the area under `going` up to the level.
            areas = np.diff(p_values) * (going[1:] + going[:-1]) / 2
            levels.append(float(np.interp(now - before, np.concatenate([[0.0], np.cumsum(areas)]), p_values)))
            before, stop = now, float(_cosine(np.array([levels[-1]]), n)[0])
    return tuple(levels)


def _one_run_more(going: Array, p_values: Array, n: int, stop: float) -> Array:
    """`going` at the p-values of n + 1 runs, from that of n runs, where a cosine from `stop` on ended the test."""
    cosine = _cosine(p_values, n + 1)[:, np.newaxis]
    # One coordinate of a uniform point on the sphere in n dimensions, at equally likely places.
    chances = (np.arange(N_DIRECTIONS) + 0.5) / N_DIRECTIONS
    t = stdtrit(n - 1, chances)
    coordinate = t / np.sqrt(n - 1 + t**2)
    across = np.sqrt(1 - cosine**2) * coordinate
    last = (cosine - sqrt(n) * across) / sqrt(n + 1)  # the last run's part of the unit vector
    earlier = np.abs((sqrt(n) * cosine + across) / np.sqrt((n + 1) * (1 - last**2)))
    found = np.interp(earlier, _cosine(p_values, n)[::-1], going[::-1])
    return np.asarray(np.mean(np.where(earlier < stop, found, 0.0), axis=1))


def _cosine(p_values: Array, n: int) -> Array:
    """|u| of a two-sided p-value of the t-test on n runs."""
    t = np.abs(stdtrit(n - 1, np.maximum(p_values, 1e-200) / 2)) + 1e-200  # finite and not 0, for what is divided
    return np.asarray(1 / np.hypot(1, sqrt(n - 1) / t))
