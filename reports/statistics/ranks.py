"""Many methods at once: which is best, which cannot be told from it, and how sure a rank is.

Values are a mapping method -> run number -> value in which higher is better; run i of all methods shares its seeds. A
missing run is left out by whoever knows that it is missing. A method in which nothing is random may be given the one
value it has for each run: a test against it is then one against a constant.
"""

import itertools
import math
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from reports.errors import ReportError
from reports.statistics.intervals import CONFIDENCE
from reports.statistics.paired import ROUNDING, holm, paired_difference

LEVEL = 0.05  # of all tests of one call together
FEWEST_TESTED = 3  # runs: two have one degree of freedom, so that hardly any difference is told

Values = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True, kw_only=True)
class RankInterval:
    """Rank 1 is the highest mean; low <= rank <= high. Methods of equal means share the better rank."""

    rank: int
    low: int
    high: int


def same_as_best(values: Values) -> frozenset[str]:
    """The methods of the highest mean, and each that a paired test at 5 %, Holm-corrected, does not put below it.

    A method that shares fewer than two runs with the best cannot be tested and is left out.

    Raises:
        ReportError: if a method has no run, or a value is not finite.
    """
    means = _means(values)
    if not means:
        return frozenset()
    top = max(means.values())
    tied = [method for method, mean in means.items() if mean >= top - _rounding(values)]
    best = max(tied, key=lambda method: len(values[method]))
    rivals = [
        method for method in values if method not in tied and len(values[method].keys() & values[best].keys()) > 1
    ]
    tests = [paired_difference(values[best], values[method]) for method in rivals]
    adjusted = holm([test.p_value for test in tests if test.p_value is not None])
    # Over the shared runs alone, a method of fewer runs can be ahead of the best: that does not put it below.
    below = {
        method
        for method, test, p_value in zip(rivals, tests, adjusted, strict=True)
        if p_value <= LEVEL and test.mean > 0
    }
    return frozenset({*tied, *rivals} - below)


def groups(values: Values) -> dict[str, str]:
    """Letters of each method: two methods that share a letter cannot be told apart.

    Paired tests at 5 %, Holm-corrected over all pairs; `a` holds the highest mean. A method of fewer than two runs is
    not tested and has no letter, ""; two methods that share fewer than two runs are not told apart.
    Source: Piepho, "An algorithm for a letter-based representation of all-pairwise comparisons", Journal of
    Computational and Graphical Statistics 13, 2004.

    Raises:
        ReportError: if a method has no run, or a value is not finite.
    """
    means = _means(values)
    ordered = sorted((method for method in values if len(values[method]) > 1), key=lambda method: -means[method])
    pairs = [
        (one, other)
        for one, other in itertools.combinations(ordered, 2)
        if len(values[one].keys() & values[other].keys()) > 1
    ]
    found = [paired_difference(values[one], values[other]).p_value for one, other in pairs]
    adjusted = holm([p_value for p_value in found if p_value is not None])
    apart = [pair for pair, p_value in zip(pairs, adjusted, strict=True) if p_value <= LEVEL]
    alike = _without_redundant(_alike(ordered, apart))
    alike.sort(key=lambda group: sorted(map(ordered.index, group)))
    letters = {method: "".join(_letter(i) for i, group in enumerate(alike) if method in group) for method in ordered}
    return {method: letters.get(method, "") for method in values}


def _alike(methods: Sequence[str], apart: Iterable[tuple[str, str]]) -> list[frozenset[str]]:
    """The largest sets in which no two methods are told apart: split each set at each pair, absorb what others hold."""
    found = [frozenset(methods)] if methods else []
    for pair in apart:
        split = [
            part for group in found for part in ({group - {one} for one in pair} if group >= set(pair) else {group})
        ]
        kept: list[frozenset[str]] = []
        for group in sorted(set(split), key=len, reverse=True):
            if not any(group <= larger for larger in kept):
                kept.append(group)
        found = kept
    return found


def _without_redundant(alike: list[frozenset[str]]) -> list[frozenset[str]]:
    """Fewer letters that say the same: a set goes when the others still hold each of its pairs, and its one method."""
    kept = list(alike)
    for group in sorted(alike, key=lambda group: (len(group), sorted(group))):
        others = [other for other in kept if other != group]
        needed = itertools.combinations_with_replacement(sorted(group), 2)
        if all(any(other >= set(pair) for other in others) for pair in needed):
            kept = others
    return kept


def _letter(index: int) -> str:
    letters = string.ascii_letters + "αβγδεζηθικλμνξοπρστυφχψω"
    return letters[index] if index < len(letters) else f"({index})"


def rank_intervals(values: Values, seed: int = 0, n_resamples: int = 2000) -> dict[str, RankInterval]:
    """The rank of each method by its mean, with a 95 % interval: a percentile bootstrap over runs.

    A resample draws the same runs for all methods, so that what a seed does to all of them moves no rank. A few runs
    resampled spread less than new runs would: their means are moved away from the mean by what makes a normal interval
    a t-interval. Equal means share the better rank (1, 2, 2, 4), in the resamples too. The interval is widened to hold
    the rank where the resamples disagree with the data. One run says nothing of the spread: every rank is possible.
    Source of the correction: Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician
    69, 2015, there of the percentiles.

    Raises:
        ReportError: if the methods have different runs: ranks by means over different runs are not comparable.
    """
    _means(values)
    runs = sorted({run for found in values.values() for run in found})
    short = {method: sorted(set(runs) - found.keys()) for method, found in values.items() if len(found) < len(runs)}
    if short:
        lacking = "; ".join(f"{method} lacks {', '.join(map(str, missing))}" for method, missing in short.items())
        raise ReportError(f"ranks need the same runs of all methods, and of runs {runs} {lacking}; leave those out.")
    if not values:
        return {}
    table = np.array([[values[method][run] for run in runs] for method in values])
    means, tolerance = table.mean(axis=1), _rounding(values)
    ranks = _ranks(means[np.newaxis], tolerance)[0]
    if len(runs) == 1:
        low, high = np.ones_like(ranks), np.full_like(ranks, len(ranks))
    else:
        draws = np.random.default_rng(seed).multinomial(len(runs), [1 / len(runs)] * len(runs), size=n_resamples)
        factor = _widening(len(runs))
        resampled = _ranks(means + factor * (draws @ table.T / len(runs) - means), factor * tolerance)
        low = np.quantile(resampled, (1 - CONFIDENCE) / 2, axis=0, method="lower")
        high = np.quantile(resampled, (1 + CONFIDENCE) / 2, axis=0, method="higher")
    return {
        method: RankInterval(rank=int(ranks[i]), low=int(min(low[i], ranks[i])), high=int(max(high[i], ranks[i])))
        for i, method in enumerate(values)
    }


def _widening(n: int) -> float:
    upper = (1 + CONFIDENCE) / 2
    return float(stdtrit(n - 1, upper) / ndtri(upper)) * math.sqrt(n / (n - 1))


def _ranks(means: NDArray[np.float64], tolerance: float) -> NDArray[np.int64]:
    """(resamples, methods) means -> ranks: one more than the number of methods with a higher mean."""
    ranks: NDArray[np.int64] = 1 + np.sum(means[:, np.newaxis, :] > means[:, :, np.newaxis] + tolerance, axis=2)
    return ranks


def probability_of_improvement(new: Mapping[int, float], old: Mapping[int, float]) -> float:
    """The chance that a run of `new` is above a run of `old`, over all pairs of their runs; a tie counts one half.

    All pairs, not those of equal seeds: it is asked of a run to come, whose seed nobody has tried with both. It is the
    Mann-Whitney U over its largest value.
    Source: Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021,
    https://arxiv.org/abs/2108.13264

    Raises:
        ReportError: if one of them has no run, or a value is not finite.
    """
    _means({"new": new, "old": old})
    differences = np.subtract.outer(np.array(list(new.values())), np.array(list(old.values())))
    tolerance = _rounding({"new": new, "old": old})
    return float(np.mean(np.where(np.abs(differences) <= tolerance, 0.5, differences > 0)))


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half of the values, for example one for each data set: no single one decides it.

    A value that the quarter cuts through counts with the part inside, so that three values are not their plain mean.
    Source: Agarwal et al., 2021, as above.

    Raises:
        ReportError: if there is no value, or one of them is not finite.
    """
    found = np.sort(np.array([float(value) for value in values]))
    if not len(found) or not np.isfinite(found).all():
        raise ReportError(f"an interquartile mean over {list(values)} was asked for; leave missing values out before.")
    edges = np.arange(len(found) + 1) / len(found)  # value i stands for the part from edge i to edge i + 1
    weights = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0, None)
    return float(weights @ found / weights.sum())


def _means(values: Values) -> dict[str, float]:
    """The mean of each method over the runs it has."""
    for method, runs in values.items():
        if not runs:
            raise ReportError(f"{method!r} has no run; leave methods without a value out.")
        if missing := [run for run, value in runs.items() if not math.isfinite(value)]:
            raise ReportError(f"{method!r} has no finite value in runs {missing}; leave missing runs out.")
    return {method: math.fsum(runs.values()) / len(runs) for method, runs in values.items()}


def _rounding(values: Values) -> float:
    return ROUNDING * max((abs(value) for runs in values.values() for value in runs.values()), default=0.0)
