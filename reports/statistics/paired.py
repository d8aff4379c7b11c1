"""Two methods compared run by run: run i of both shares its seeds, so their difference has less noise than either.

The unit is the run, as in `reports.statistics.intervals`; differences are new minus old, in the unit of the values.
Several comparisons at once need `holm`: twenty tests at 5 % would find one difference among equal methods.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

from reports.errors import ReportError
from reports.statistics.intervals import CONFIDENCE

ROUNDING = 16 * 2.0**-52  # of the largest value: what averaging a few folds in another order can change


@dataclass(frozen=True, kw_only=True)
class Difference:
    """New minus old over `n` shared runs. One run has a mean and nothing else."""

    mean: float
    half_width: float | None  # of the t-interval
    effect_size: float | None  # Cohen's d_z: mean / deviation of the differences; None where that deviation is 0
    p_value: float | None  # two-sided paired t-test
    n: int


def paired_difference(new: Mapping[int, float], old: Mapping[int, float], confidence: float = CONFIDENCE) -> Difference:
    """Mean of new - old over the runs that both have, its t-interval, effect size and p-value.

    Differences that are all equal leave nothing to chance: half width 0.0, p-value 1.0 if they are 0 and 0.0
    otherwise. What floating point alone can make of equal values counts as 0.

    Args:
        new: run number -> value, a missing run left out.
        old: the same of the method it is compared with.
        confidence: of the interval, between 0 and 1.

    Raises:
        ReportError: if no run is shared, a value is not finite, or the confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ReportError(f"an interval of confidence {confidence} was asked for; it lies between 0 and 1, as 0.95.")
    differences = _differences(new, old)
    n = len(differences)
    mean = math.fsum(differences) / n
    if n == 1:
        return Difference(mean=mean, half_width=None, effect_size=None, p_value=None, n=1)
    deviation = math.sqrt(math.fsum((difference - mean) ** 2 for difference in differences) / (n - 1))
    if deviation <= _rounding(new, old):
        return Difference(mean=mean, half_width=0.0, effect_size=None, p_value=0.0 if mean else 1.0, n=n)
    quantile = float(stdtrit(n - 1, (1 + confidence) / 2))
    effect_size = mean / deviation
    return Difference(
        mean=mean,
        half_width=quantile * deviation / math.sqrt(n),
        effect_size=effect_size,
        p_value=2 * float(stdtr(n - 1, -abs(effect_size) * math.sqrt(n))),
        n=n,
    )


def _differences(new: Mapping[int, float], old: Mapping[int, float]) -> list[float]:
    """New minus old for each shared run, in the order of the runs."""
    shared = sorted(new.keys() & old.keys())
    if not shared:
        raise ReportError(
            f"no run is shared: runs {sorted(new)} against runs {sorted(old)}; pairs need runs that both have."
        )
    for run in shared:
        if not (math.isfinite(new[run]) and math.isfinite(old[run])):
            raise ReportError(
                f"run {run} has the values {new[run]} and {old[run]}; leave missing runs out before comparing."
            )
    rounding = _rounding(new, old)
    differences = [float(new[run]) - float(old[run]) for run in shared]
    return [0.0 if abs(difference) <= rounding else difference for difference in differences]


def _rounding(new: Mapping[int, float], old: Mapping[int, float]) -> float:
    return ROUNDING * max(max(abs(new[run]), abs(old[run])) for run in new.keys() & old.keys())


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given: reject where one is at most the level, and the chance of a single false
    rejection among all of them stays below it, whatever their dependence.

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979

    Raises:
        ReportError: if one of them is not a number between 0 and 1.
    """
    if not all(0 <= p_value <= 1 for p_value in p_values):
        raise ReportError(f"p-values {list(p_values)} were given; each must lie between 0 and 1, none may be missing.")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
