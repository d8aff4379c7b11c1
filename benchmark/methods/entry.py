"""What a method is to the harness: a name, a batch family, a builder, a search space, published values, a source.

A built method is a `torch.nn.Module` with `forward(embeddings (B, D) float32, labels (B,) int64) -> scalar`. The
embeddings arrive normalised as the protocol says, so a method never normalises them itself; what it owns (proxies,
class weights) it normalises as its formula says. Labels are 0..n_classes-1 of the fold. Optional hooks are called when
present: `begin(context)`, `after_step(step, context)`, `after_validation(map_at_r, context)`, `penalty(context)` (added
to the loss), `finish(context)` after the last step, and `summary()`, a dictionary of JSON values that the record keeps.
`weights_that_learn_as_the_network()` lists own weights that take the network's learning rate and weight decay.

Randomness: a builder draws its weights from torch's global generator and seeds nothing. Whoever calls it forks and
seeds that generator first, so the weights follow from the job and no other stream moves. While a fold trains, the three
global generators (torch, NumPy, random) are seeded from the job too; a hook has a stream of its own in its context.

Interruption: a job that is killed goes on from its last checkpoint, to the same bits. `begin` is called again, then the
method's `state_dict` and the plain attributes of its modules (tensors, numbers, strings, containers of them) are put
back. A method with any other attribute that changes (a generator, a queue) leaves no checkpoint: its jobs start over.
What it keeps outside its modules, in a global or a closure, cannot be seen, and would be lost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from optuna.distributions import BaseDistribution, FloatDistribution
from torch import nn

Family = Literal["pair", "class", "linear", "baseline"]
Embeds = Literal["network", "features", "pixels"]
Space = dict[str, BaseDistribution]
Value = float | int | str | bool

W_LR = "w_lr"  # the one reserved hyper-parameter: learning rate of the method's own weights, never given to its builder


def own_weights_lr() -> FloatDistribution:
    """The reality check's range for the learning rate of a method's own weights."""
    return FloatDistribution(1e-6, 1.0, log=True)


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """One method of the benchmark.

    `build(n_classes=..., embedding_dim=..., **hyperparameters)` returns the module. `space(n_classes)` returns Optuna
    distributions; it depends on nothing but the fold's class count. `published` maps "source:data set" (for example
    "mlrc:cub200") to hyper-parameter values. `own_weight_decay` False keeps the optimiser's weight decay off the
    method's own weights. `code` identifies code that this package does not version: the first 12 hex digits of a
    user's file, or an installed distribution's version; empty for methods that ship with the package. `embeds_with`
    is what an image is embedded with: the network, features of the frozen trunk, or the input tensor itself.
    `needs_super_classes`: it cannot run on a data set without them. `halves`: whole numbers of its space, each of which
    may be at most half of the one that stands for it.
    """

    name: str
    family: Family
    build: Callable[..., nn.Module]
    space: Callable[[int], Space]
    source: str
    formula: str
    published: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    own_weight_decay: bool = True
    code: str = ""
    embeds_with: Embeds = "network"
    needs_super_classes: bool = False
    halves: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_trained(self) -> bool:
        """Whether it is a loss that takes optimiser steps; a linear metric is fitted and a baseline stands as it is."""
        return self.family in ("pair", "class")
