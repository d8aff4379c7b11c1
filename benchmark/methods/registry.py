"""The methods by name, and what is asked of every one: its hyper-parameters checked, its module built, its space named.

A name is a built-in (`METHODS`), `pml:Name`, `path/to/file.py:ClassName`, or an installed plug-in's: see `user.py`; or
one of `COMPOSERS` around any of these, as in `ccp(contrastive)`.
Importing this module imports torch and pytorch-metric-learning, which takes seconds; `entry.py` holds the types alone.
"""

import json
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from inspect import Parameter, signature
from math import isfinite

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution, distribution_to_json
from torch import nn

from benchmark.errors import BenchmarkError
from benchmark.methods import (
    arcface,
    baselines,
    ccp,
    contrastive,
    contrastive_cosine,
    cosface,
    fastap,
    hpl,
    lifted,
    margin,
    margin_dw,
    ms,
    n_pairs,
    norm_softmax,
    norm_softmax_sampled,
    ntxent,
    proxy_anchor,
    proxy_nca,
    proxy_nca_pp,
    siamese,
    snr,
    soft_triple,
    sphereface,
    triplet,
    triplet_semihard,
    xbm,
)
from benchmark.methods.entry import W_LR, MethodEntry, Space, Value
from benchmark.methods.linear import euclidean, itml, lmnn, mmc, nca, whitened, within_class
from benchmark.methods.user import file_entry, installed_entry, installed_names, pml_entry, pml_names
from protocols.errors import did_you_mean

_BUILT_IN = (
    baselines.PIXELS,
    baselines.UNTRAINED,
    baselines.PRETRAINED,
    euclidean.ENTRY,
    whitened.ENTRY,
    within_class.ENTRY,
    nca.ENTRY,
    lmnn.ENTRY,
    itml.ENTRY,
    mmc.ENTRY,
    contrastive.ENTRY,
    contrastive_cosine.ENTRY,
    siamese.HADSELL,
    siamese.CHOPRA,
    triplet.ENTRY,
    triplet_semihard.ENTRY,
    lifted.ENTRY,
    n_pairs.ENTRY,
    ntxent.ENTRY,
    proxy_nca.ENTRY,
    proxy_nca_pp.ENTRY,
    proxy_anchor.ENTRY,
    margin.MARGIN,
    margin.MARGIN_CLASS,
    margin_dw.ENTRY,
    norm_softmax.ENTRY,
    norm_softmax_sampled.ENTRY,
    sphereface.ENTRY,
    cosface.ENTRY,
    arcface.ENTRY,
    fastap.ENTRY,
    snr.ENTRY,
    ms.MS,
    ms.MS_MINER,
    soft_triple.ENTRY,
    soft_triple.ONE_CENTRE,
    *xbm.ENTRIES.values(),
    *ccp.ENTRIES.values(),
    *hpl.ENTRIES,
)
METHODS: dict[str, MethodEntry] = {entry.name: entry for entry in _BUILT_IN}
COMPOSERS: dict[str, Callable[[MethodEntry], MethodEntry]] = {  # "ccp" makes the method ccp(NAME) of the method NAME
    "ccp": ccp.compose,
    "xbm": xbm.compose,
    **hpl.COMPOSERS,
}
_COMPOSED = re.compile(r"([a-z0-9-]+)\((.+)\)")


def method_entry(name: str) -> MethodEntry:
    """The method of this name. A built-in name wins over a plug-in's.

    Raises:
        BenchmarkError: if there is none, or the file, class or plug-in that it names cannot serve.
    """
    if name in METHODS:
        return METHODS[name]
    if parts := parts_of(name):
        composer, base = parts
        if _COMPOSED.fullmatch(base):
            raise BenchmarkError(f"{composer}(...) is made of one plain method; {base[:40]!r} is made of another.")
        return COMPOSERS[composer](method_entry(base))
    if name.startswith("pml:"):
        return pml_entry(name.removeprefix("pml:"))
    path, _, class_name = name.rpartition(":")
    if path.endswith(".py"):
        return file_entry(path, class_name)
    if name.endswith(".py"):
        return file_entry(name, "")
    installed = installed_entry(name)
    if installed is not None:
        return installed
    known = [*METHODS, *installed_names()]
    near = did_you_mean(name, known) or did_you_mean(name, [f"pml:{name}" for name in pml_names()])
    raise BenchmarkError(
        f"no method named {name!r}.{near} mlrc methods lists them; "
        "pml:Name for a loss of pytorch-metric-learning; path/to/file.py:ClassName for your own."
    )


def parts_of(name: str) -> tuple[str, str] | None:
    """The composer and the method of a name such as `ccp(contrastive)`; None for any other name."""
    found = _COMPOSED.fullmatch(name)
    return (found[1], found[2]) if found and found[1] in COMPOSERS else None


def check_hyperparameters(entry: MethodEntry, n_classes: int, hyperparameters: Mapping[str, Value]) -> None:
    """Refuse names that the method lacks, values of a wrong kind, and values left out that its builder needs.

    A value outside the search space passes: published ones may come from another. `w_lr` may be left out, because a
    protocol may fix it.

    Raises:
        BenchmarkError: with the nearest name and the allowed ones.
    """
    space = entry.space(n_classes)
    allowed = f"Allowed: {', '.join(space) or 'none'}."
    for name, value in hyperparameters.items():
        if name not in space:
            raise BenchmarkError(f"{entry.name}: no hyper-parameter named {name!r}.{_hint(name, space)} {allowed}")
        wanted = _wanted(space[name])
        if not _fits(value, space[name]):
            raise BenchmarkError(f"{entry.name}: hyper-parameter {name!r} is {value!r}; it must be {wanted}.")
    builder = signature(entry.build).parameters.values()
    needed = {item.name for item in builder if item.default is Parameter.empty and item.kind is Parameter.KEYWORD_ONLY}
    missing = sorted(needed - {"n_classes", "embedding_dim"} - hyperparameters.keys())
    if missing:
        raise BenchmarkError(f"{entry.name}: no value for {', '.join(missing)}. {allowed}")


def build_method(
    entry: MethodEntry, n_classes: int, embedding_dim: int, hyperparameters: Mapping[str, Value]
) -> nn.Module:
    """The method's module, on the CPU; own weights are drawn from torch's global generator, which the caller seeds.

    Args:
        n_classes: classes of the fold; labels will be 0..n_classes-1.
        embedding_dim: width of the embeddings that it will be given.
        hyperparameters: by name; `w_lr` is for the optimiser and is not handed on.

    Raises:
        BenchmarkError: as `check_hyperparameters`, or if a user's class cannot be built.
    """
    check_hyperparameters(entry, n_classes, hyperparameters)
    handed_on = {name: value for name, value in hyperparameters.items() if name != W_LR}
    return entry.build(n_classes=n_classes, embedding_dim=embedding_dim, **handed_on)


def space_json(space: Space) -> str:
    """The space as canonical JSON: sorted by name, no spaces."""
    plain = {name: json.loads(distribution_to_json(distribution)) for name, distribution in space.items()}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def space_hash(space: Space) -> str:
    """First 12 hex digits of the SHA-256 of `space_json`."""
    return sha256(space_json(space).encode()).hexdigest()[:12]


def _hint(name: str, space: Space) -> str:
    if not name.endswith(("lr", "learning_rate")):
        return did_you_mean(name, space)
    if W_LR in space:
        return f" Did you mean {W_LR!r}, the learning rate of the method's own weights?"
    return " The method has no weights of its own, and the protocol fixes the learning rate of trunk and embedder."


def _fits(value: Value, distribution: BaseDistribution) -> bool:
    if isinstance(distribution, CategoricalDistribution):
        return value in distribution.choices
    if isinstance(value, bool | str) or not isfinite(value):
        return False
    return not isinstance(distribution, IntDistribution) or value == int(value)


def _wanted(distribution: BaseDistribution) -> str:
    if isinstance(distribution, CategoricalDistribution):
        return f"one of {', '.join(map(repr, distribution.choices))}"
    return "a whole number" if isinstance(distribution, IntDistribution) else "a finite number"
