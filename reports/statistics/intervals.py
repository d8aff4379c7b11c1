"""The mean of a few runs and its 95 % Student t-interval.

The unit is the run: the fold models of one run share a seed plan and a test set, so they are averaged first and never
counted as observations of their own. One run has a mean and no interval.
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from scipy.special import stdtrit

from reports.errors import ReportError

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Interval:
    """mean - half_width .. mean + half_width, in the unit of the values; `half_width` is None for one value."""

    mean: float
    half_width: float | None
    n: int


def mean_interval(values: Iterable[float]) -> Interval:
    """Mean and 95 % t-interval half width, t(n - 1) * sample deviation / sqrt(n). Equal values give exactly 0.0.

    Raises:
        ReportError: if there is no value, or one of them is not finite: a missing run is left out by whoever
            knows that it is missing, and says so.
    """
    found = [float(value) for value in values]
    if not found:
        raise ReportError("a mean of no run was asked for; at least one value is needed.")
    if not all(map(math.isfinite, found)):
        raise ReportError(f"a mean over {found} was asked for; leave missing runs out before averaging.")
    mean = statistics.mean(found)  # exact sums: ten equal values have a deviation of 0.0, not of 1e-17
    if len(found) == 1:
        return Interval(mean=mean, half_width=None, n=1)
    quantile = float(stdtrit(len(found) - 1, (1 + CONFIDENCE) / 2))
    return Interval(mean=mean, half_width=quantile * statistics.stdev(found) / math.sqrt(len(found)), n=len(found))
