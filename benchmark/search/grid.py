"""The points of a finite search space, in an order that is the same everywhere and shows no side of it first."""

import json
from hashlib import sha256
from itertools import product
from math import prod

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from benchmark.errors import BenchmarkError
from benchmark.methods.entry import Space, Value

LARGEST = 10_000  # points; a larger space is no grid that anybody would walk


def grid_points(method: str, space: Space) -> list[dict[str, Value]]:
    """All points of the space, in the order of their hashes: a budget that ends early has tried some of everywhere.

    Raises:
        BenchmarkError: if an axis is continuous, or there are too many points.
    """
    continuous = [name for name, axis in space.items() if isinstance(axis, FloatDistribution) and axis.step is None]
    if continuous:
        raise BenchmarkError(
            f"{method}: --sampler grid wants a finite search space; {', '.join(continuous)} is continuous. "
            "Leave --sampler out, or choose gp, tpe or random."
        )
    size = prod(map(_n_values, space.values()))
    if size > LARGEST:
        raise BenchmarkError(
            f"{method}: --sampler grid: its search space has {size:,} points; at most {LARGEST:,} can be a grid. "
            "Choose gp, tpe or random."
        )
    values = product(*map(_values, space.values()))
    return sorted((dict(zip(space, point, strict=True)) for point in values), key=_hash)


def _n_values(axis: BaseDistribution) -> int:
    if isinstance(axis, CategoricalDistribution):
        return len(axis.choices)
    assert isinstance(axis, IntDistribution | FloatDistribution)
    assert axis.step is not None
    return round((axis.high - axis.low) / axis.step) + 1


def _values(axis: BaseDistribution) -> list[Value]:
    if isinstance(axis, CategoricalDistribution):
        return [choice for choice in axis.choices if choice is not None]
    assert isinstance(axis, IntDistribution | FloatDistribution)
    assert axis.step is not None
    steps = (axis.low + place * axis.step for place in range(_n_values(axis)))
    return [min(value, axis.high) for value in steps]  # 0.1 + 2 * 0.1 is more than 0.3


def _hash(point: dict[str, Value]) -> str:
    return sha256(json.dumps(point, sort_keys=True).encode()).hexdigest()
