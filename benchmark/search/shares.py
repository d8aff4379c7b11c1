"""Whole numbers of which one is at most half of another: searched as a share of what the other leaves.

The number of coarse proxies of a hierarchy is an example (`benchmark.methods.hpl`). A study's space has fixed ranges,
and of its whole rectangle nearly half would be no pyramid: trials that fail by construction. Ranges of Optuna's that
follow an earlier value would keep the sampler's models from them: what has no fixed range is drawn at random. So the
sampler works on a rectangle in which every point is one, with the number's place between the least and the most that it
may be, 0 to 1 on a log scale. The study, its trials and the records hold the number itself, and its space is the plain
one. A share stands for the whole number whose cell it lies in, as where Optuna draws whole numbers itself; beside the
number a trial keeps the share that was drawn, so that the sampler is shown the point that it proposed.
"""

from collections.abc import Mapping
from math import exp, log

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial

from benchmark.methods.entry import Space, Value
from benchmark.search.trials import SHARES

SHARE = FloatDistribution(0.0, 1.0)


def drawn_space(space: Space, halves: Mapping[str, str]) -> Space:
    """The space as a sampler draws from it; `halves` has for such a number the name of the other."""
    return {name: SHARE if name in halves and not axis.single() else axis for name, axis in space.items()}


def used_values(drawn: Mapping[str, Value], space: Space, halves: Mapping[str, str]) -> dict[str, Value]:
    """What was drawn, with numbers in the place of shares."""
    used: dict[str, Value] = {}
    for name, axis in space.items():
        used[name] = drawn[name]
        if drawn_space(space, halves)[name] is SHARE:
            low, high = _cells(axis, used[halves[name]])
            number = round(exp(log(low) + float(drawn[name]) * (log(high) - log(low))))
            used[name] = max(round(low + 0.5), min(round(high - 0.5), number))  # at an edge of the cells it may be out
    return used


def drawn_values(trial: FrozenTrial, space: Space, halves: Mapping[str, str]) -> dict[str, Value] | None:
    """A trial's values as they were drawn; None where none could be: an older release drew what was no such number."""
    drawn: dict[str, Value] = dict(trial.params)
    for name, axis in drawn_space(space, halves).items():
        if axis is SHARE:
            low, high = _cells(space[name], trial.params[halves[name]])
            if not low < trial.params[name] < high:
                return None
            middle = (log(trial.params[name]) - log(low)) / (log(high) - log(low))
            drawn[name] = trial.user_attrs.get(SHARES, {}).get(name, middle)
    return drawn


def _cells(axis: BaseDistribution, other: Value) -> tuple[float, float]:
    """Half a step below the least and above the most that a number may be beside this value of the other."""
    assert isinstance(axis, IntDistribution)
    return axis.low - 0.5, min(axis.high, int(other) // 2) + 0.5
