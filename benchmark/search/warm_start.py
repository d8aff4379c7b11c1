"""`--enqueue published`: the values that papers publish for a method are the first trials of its search."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from benchmark.methods.entry import MethodEntry, Space, Value

Point = dict[str, Value]


@dataclass(frozen=True)
class WarmStart:
    """The trials to begin with, by the key of their source, and what is left out with the reason."""

    points: dict[str, Point] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)


def published_start(entry: MethodEntry, space: Space) -> WarmStart:
    """A method's published values, in the order of the papers; those outside of its space or there already left out."""
    found = WarmStart()
    for key, values in entry.published.items():
        problem = _problem(values, space)
        point = {} if problem else {name: _typed(values[name], space[name]) for name in space}
        same = next((other for other, known in found.points.items() if known == point), None)
        if problem or same:
            found.skipped[key] = problem or f"the same as {same}"
        else:
            found.points[key] = point
    return found


def _problem(values: Mapping[str, Value], space: Space) -> str:
    """Why published values are no point of the space, or ""."""
    missing = [name for name in space if name not in values]
    if missing:
        return f"no {', '.join(missing)}"
    outside = [f"{name} = {values[name]}" for name, axis in space.items() if not _is_inside(values[name], axis)]
    return f"{', '.join(outside)} outside of the search space" if outside else ""


def _is_inside(value: Value, axis: BaseDistribution) -> bool:
    if isinstance(axis, CategoricalDistribution):
        return value in axis.choices
    if isinstance(axis, IntDistribution) and value != int(value):
        return False
    return axis._contains(axis.to_internal_repr(value))


def _typed(value: Value, axis: BaseDistribution) -> Value:
    if isinstance(axis, CategoricalDistribution):
        return value
    return int(value) if isinstance(axis, IntDistribution) else float(value)
