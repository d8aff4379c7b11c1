"""How a class becomes a method as it is: an `nn.Module` with `forward(embeddings, labels) -> scalar`.

Its constructor is given the class count and the embedding width under the names of `_N_CLASSES` and `_EMBEDDING_DIM`
that it takes, and the hyper-parameters of its `search_space`: a dict of Optuna distributions, or a function of the
class count that returns one. `family` is "pair" or "class"; without it, a class that takes the class count is "class".
A class that owns weights gets `w_lr` in its space; whether it does is found out by building it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, isclass, signature
from math import isfinite, sqrt
from typing import Any, TypeGuard

import numpy as np
import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from torch import nn

from benchmark.errors import BenchmarkError
from benchmark.methods.entry import W_LR, Family, MethodEntry, Space, Value, own_weights_lr
from benchmark.training.failure import one_line
from protocols.errors import did_you_mean

PROBE_DIM = 128  # width at which a class is built to see whether it owns weights
_N_CLASSES = ("n_classes", "num_classes")
_EMBEDDING_DIM = ("embedding_dim", "embedding_size", "descriptors_dim")


def is_module_class(found: object) -> TypeGuard[type[nn.Module]]:
    """Whether it is a subclass of `torch.nn.Module`."""
    return isclass(found) and issubclass(found, nn.Module)


def class_entry(
    name: str, found: object, *, code: str, source: str, fill_optional: bool = True, formula: str = ""
) -> MethodEntry:
    """The entry of a class.

    Args:
        fill_optional: whether a class count or width that has a default is filled too.
        formula: by default the first line of the class's docstring.

    Raises:
        BenchmarkError: if it is no module, or its family or search space is of a wrong kind.
    """
    if not is_module_class(found):
        raise BenchmarkError(f"{name}: {found!r} is no subclass of torch.nn.Module; a method must be one.")
    taken = _constructor(found)
    build = _Builder(
        name=name,
        found=found,
        filled=frozenset(
            key
            for key in (*_N_CLASSES, *_EMBEDDING_DIM)
            if key in taken and (fill_optional or taken[key] is Parameter.empty)
        ),
        taken=tuple(taken),
    )
    declared = getattr(found, "search_space", {})
    if not callable(declared):
        _checked_space(name, declared)
    first_line = next(iter((found.__doc__ or "").strip().splitlines()), "")
    return MethodEntry(
        name=name,
        family=_family(name, found, "class" if build.filled.intersection(_N_CLASSES) else "pair"),
        build=build,
        space=lambda n_classes: _with_own_weights(build, _declared_space(name, declared, n_classes), n_classes),
        source=source,
        formula=formula or first_line or f"as {found.__name__}.forward computes it",
        code=code,
    )


@dataclass(frozen=True, kw_only=True)
class _Builder:
    """Builds a class; whatever its constructor raises becomes one line."""

    name: str
    found: type[nn.Module]
    filled: frozenset[str]
    taken: tuple[str, ...]

    def __call__(self, *, n_classes: int, embedding_dim: int, **hyperparameters: Value) -> nn.Module:
        offered = dict.fromkeys(_N_CLASSES, n_classes) | dict.fromkeys(_EMBEDDING_DIM, embedding_dim)
        filled = {key: value for key, value in offered.items() if key in self.filled}
        try:
            return self.found(**filled, **hyperparameters)
        except Exception as error:
            given = ", ".join(f"{key}={value!r}" for key, value in {**filled, **hyperparameters}.items())
            raise BenchmarkError(
                f"{self.name}: cannot be built with ({given}): {one_line(error)}.{self._hint(hyperparameters)}"
            ) from error

    def _hint(self, hyperparameters: Mapping[str, Value]) -> str:
        """What the constructor takes, if it was given a name that it does not."""
        misfits = [name for name in hyperparameters if name not in self.taken]
        if not misfits:
            return ""
        allowed = ", ".join(self.taken) or "nothing"
        return (
            f"{did_you_mean(misfits[0], self.taken)} Its constructor takes {allowed}; "
            f"{W_LR}, the learning rate of weights of its own, is searched unasked and never handed on."
        )


def _constructor(found: type[nn.Module]) -> dict[str, Any]:
    """Names that the constructor takes, with their defaults; a `**kwargs` hands the rest to the parent's."""
    taken: dict[str, Any] = {}
    for parent in found.__mro__:
        if "__init__" not in vars(parent):
            continue
        parameters = list(signature(vars(parent)["__init__"]).parameters.values())[1:]
        for item in parameters:
            if item.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
                taken.setdefault(item.name, item.default)
        if not any(item.kind is Parameter.VAR_KEYWORD for item in parameters):
            break
    return taken


def _family(name: str, found: type[nn.Module], default: Family) -> Family:
    family = getattr(found, "family", default)
    if family == "pair":
        return "pair"
    if family == "class":
        return "class"
    raise BenchmarkError(f"{name}: its family is {family!r}; it must be 'pair' or 'class'.")


def _declared_space(name: str, declared: Mapping[str, Any] | Callable[[int], Any], n_classes: int) -> Space:
    if not callable(declared):
        return _checked_space(name, declared)
    try:
        space = declared(n_classes)
    except Exception as error:
        raise BenchmarkError(f"{name}: its search_space({n_classes}) failed: {one_line(error)}.") from error
    return _checked_space(name, space)


def _checked_space(name: str, space: object) -> Space:
    if isinstance(space, dict) and all(
        isinstance(key, str) and isinstance(value, BaseDistribution) for key, value in space.items()
    ):
        return {key: _plain_values(f"{name}: {key}", distribution) for key, distribution in space.items()}
    raise BenchmarkError(
        f"{name}: its search_space is {space!r}; it must be a dict of Optuna distributions by hyper-parameter, such as "
        '{"margin": FloatDistribution(0.0, 1.0)}, or a function of n_classes that returns one.'
    )


def _plain_values(name: str, distribution: BaseDistribution) -> BaseDistribution:
    """The distribution with Python's own numbers: NumPy's cannot be stored, and nothing can be drawn up to infinity."""
    if isinstance(distribution, CategoricalDistribution):
        choices = [choice.item() if isinstance(choice, np.generic) else choice for choice in distribution.choices]
        if others := [choice for choice in choices if not isinstance(choice, bool | int | float | str)]:
            raise BenchmarkError(f"{name} has the choice {others[0]!r}; choices are numbers, texts, true or false.")
        return CategoricalDistribution(choices)
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    if not (isfinite(distribution.low) and isfinite(distribution.high)):
        raise BenchmarkError(f"{name} is searched from {distribution.low} to {distribution.high}; give finite bounds.")
    return distribution


def _with_own_weights(build: _Builder, space: Space, n_classes: int) -> Space:
    """The space with `w_lr` exactly if the class, built at the middle of the space, owns weights."""
    with torch.random.fork_rng(devices=[]):
        module = build(n_classes=n_classes, embedding_dim=PROBE_DIM, **middle_of(space))
    owns_weights = next(module.parameters(), None) is not None
    if W_LR in space and not owns_weights:
        raise BenchmarkError(f"{build.name}: its search_space has {W_LR!r} but the class owns no weights. Remove it.")
    return {W_LR: own_weights_lr(), **space} if owns_weights and W_LR not in space else space


def middle_of(space: Space) -> dict[str, Value]:
    """What a builder is given in the middle of a space: all but `w_lr`."""
    return {name: middle(distribution) for name, distribution in space.items() if name != W_LR}


def middle(distribution: BaseDistribution) -> Value:
    """The middle of a range, geometric where the scale is; of choices the one in the middle, the earlier of two."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[(len(distribution.choices) - 1) // 2]  # type: ignore[return-value]  # a None is the constructor's to refuse
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    middle = sqrt(low * high) if distribution.log else (low + high) / 2
    if step is not None:
        middle = low + step * ((middle - low) // step)
    return int(middle) if isinstance(distribution, IntDistribution) else middle
