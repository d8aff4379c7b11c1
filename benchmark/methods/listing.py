"""What `mlrc methods` prints: each method as a line of plain JSON values."""

import json
from inspect import getmodule
from typing import Any

from optuna.distributions import BaseDistribution, distribution_to_json

from benchmark.errors import BenchmarkError
from benchmark.methods.entry import MethodEntry
from benchmark.methods.registry import METHODS, method_entry
from benchmark.methods.user import installed_names

MADE_OF_OTHERS = {  # by the composer's name, in words for a terminal
    "ccp": "chance constraints around a pair loss",
    "xbm": "a pair loss with a memory of past batches",
    "hpl": "a class loss over its proxies and one level of coarse ones",
    "hpl-gmm": "the same, begun by a Gaussian mixture instead of k-means",
    "hpl3": "the same with two coarse levels",
    "hpl-gt": "the same with the data set's super-classes as the coarse level",
}
A_TYPICAL_FOLD = 75  # classes; a space may depend on the number, as CUB's folds have it


def method_line(entry: MethodEntry) -> dict[str, Any]:
    """A method: name, family, formula, search space, source, published values.

    Raises:
        BenchmarkError: if a plug-in's class cannot be built or its search space cannot be.
    """
    return {
        "name": entry.name,
        "family": entry.family,
        "formula": entry.formula,
        "space": {name: _distribution(item) for name, item in entry.space(A_TYPICAL_FOLD).items()},
        "source": entry.source,
        "published": {key: dict(values) for key, values in entry.published.items()},
    }


def method_lines() -> tuple[list[dict[str, Any]], list[str]]:
    """The lines of all built-in methods and installed plug-ins, and a sentence for each plug-in that cannot serve."""
    lines, problems = [], []
    for name in dict.fromkeys([*METHODS, *installed_names()]):
        try:
            lines.append(method_line(method_entry(name)))
        except BenchmarkError as error:
            problems.append(str(error))
    return lines, problems


def composers_text() -> str:
    """What a method can be made of another with, one composer a line."""
    width = max(map(len, MADE_OF_OTHERS)) + len("(NAME)")
    lines = [f"  {f'{name}(NAME)':{width}}  {words}" for name, words in MADE_OF_OTHERS.items()]
    return "\n".join(["Methods are made of others too, and shown in full as any other:", *lines])


def method_notes(entry: MethodEntry) -> str:
    """What the file of a method that ships with the package says of it; "" for anybody else's."""
    module = None if entry.code else getmodule(entry.build)
    return (module.__doc__ or "").strip() if module else ""


def _distribution(distribution: BaseDistribution) -> dict[str, Any]:
    """A distribution as plain values: type, then low, high, log and step, or choices."""
    kind = type(distribution).__name__.removesuffix("Distribution").lower()
    return {"type": kind, **json.loads(distribution_to_json(distribution))["attributes"]}
