"""How much slower a training step is under CCP than under its base: at most 1.10 times, on `lite` at batch 32.

Both sides have the same trunk with its weights, the same images, labels and optimiser, and contrastive with the values
that CCP published for CUB-200-2011: 75 classes, 8 proxies a class, lambda 2e-4. CCP is in its second problem, so every
step has the projection term. Each side has a process of its own with the heap of a worker; they take turns, and the
ratio is the median over the rounds. For `lite` and for BN-Inception (random weights) it also gives the projection term
alone, forward and backward (`penalty_ms`, about nine passes over the weights), and the memory that CCP adds, in MiB:
on the device between steps (theta_prev, proxies and their optimiser's state), on the host (the problem's best network),
and for the length of the backward pass (theta - theta_prev).

Run `python tests/benchmarks/ccp_step.py` on an idle machine: one JSON line, exit code 1 if the bound is missed. About
a minute.
"""

import json
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from statistics import median
from time import perf_counter

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmark.memory import retain_heap
from benchmark.methods.ccp import PATIENCE
from benchmark.methods.registry import METHODS, build_method
from benchmark.training.context import Context
from benchmark.training.optimisers import build_optimiser
from protocols.catalogue import LITE_V1, MLRC_V1
from protocols.model import EmbeddingModel, build_model, normalised

BOUND = 1.10  # seconds of a step of CCP / of its base
ROUNDS, STEPS = 11, 2
N_CLASSES = 75  # of a fold of CUB-200-2011
VALUES = METHODS["ccp-contrastive"].published["ccp:cub200"]
MARGINS = {name: VALUES[name] for name in ("pos_margin", "neg_margin")}


class Side:
    """A network and a loss with all that a step needs."""

    def __init__(self, name: str) -> None:
        retain_heap()
        generator = torch.Generator().manual_seed(0)
        self.model = build_model(LITE_V1, generator)
        self.model.train()
        self.images = torch.randn(LITE_V1.batch.size, 3, 227, 227, generator=generator)
        self.labels = torch.arange(LITE_V1.batch.size) // 4
        self.method, self.context = chain(name, self.model, generator)
        values = VALUES if name != "contrastive" else MARGINS
        self.optimiser = build_optimiser(LITE_V1.optimiser, self.model, self.method, METHODS[name], dict(values))

    def step(self) -> Tensor:
        """One step; the loss."""
        loss = self.method(self.model(self.images), self.labels)
        if hasattr(self.method, "penalty"):
            loss = loss + self.method.penalty(self.context)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return loss.detach()


def chain(name: str, model: EmbeddingModel, generator: torch.Generator) -> tuple[torch.nn.Module, Context]:
    """The method, in its second problem if it has problems, and its context."""
    context = Context(
        n_classes=N_CLASSES,
        embedding_dim=LITE_V1.embedding.dim,
        images_by_class=[np.arange(c * 40, c * 40 + 40) for c in range(N_CLASSES)],
        embed=lambda indices: normalize(torch.randn(len(indices), LITE_V1.embedding.dim, generator=generator)),
        trainable_parameters=tuple(model.trainable_parameters()),
        generator=generator,
        normalise=partial(normalised, rule="l2"),
        reset_optimiser=lambda weights: None,
    )
    method = build_method(METHODS[name], N_CLASSES, context.embedding_dim, MARGINS if name == "contrastive" else VALUES)
    if name != "contrastive":
        method.begin(context)
        for _ in range(1 + PATIENCE):
            method.after_validation(0.5, context)
        assert method.summary()["n_problems"] == 2
        method.after_validation(0.5, context)  # the second problem's first best
    return method, context


side: Side


def start(name: str) -> None:
    """Make this process one of the two sides, warmed up."""
    global side
    side = Side(name)
    assert all(bool(side.step().isfinite()) for _ in range(2))


def seconds() -> float:
    """Seconds of one step."""
    began = perf_counter()
    for _ in range(STEPS):
        side.step()
    return (perf_counter() - began) / STEPS


def cost(trunk: str) -> dict[str, object]:
    """The projection term alone and the memory of CCP with the weights of a trunk."""
    protocol = LITE_V1 if trunk == "lite" else replace(MLRC_V1, trunk=replace(MLRC_V1.trunk, weights="random"))
    generator = torch.Generator().manual_seed(0)
    model = build_model(protocol, generator)
    method, context = chain("ccp-contrastive", model, generator)
    for weight in context.trainable_parameters:
        weight.grad = torch.zeros_like(weight)  # a step adds to what the loss has left there
    times = []
    for _ in range(ROUNDS):
        began = perf_counter()
        method.penalty(context).backward()
        times.append(perf_counter() - began)
    state, network = method.get_extra_state(), context.trainable_parameters
    on_device = [*state["previous_network"], state["best_proxies"], *[method.proxies] * 3]  # itself, Adam's two
    return {
        "penalty_ms": round(1000 * median(times), 1),
        "device_mib": mib(on_device),
        "host_mib": mib(state["best_network"]),
        "backward_mib": mib(network),
    }


def mib(tensors: Iterable[Tensor]) -> float:
    """Their size."""
    return round(sum(tensor.nbytes for tensor in tensors) / 2**20, 1)


def main() -> int:
    """Measure, print, and say whether the bound holds."""
    spawn = get_context("spawn")
    pools = {
        name: ProcessPoolExecutor(1, mp_context=spawn, initializer=start, initargs=(name,))
        for name in ("contrastive", "ccp-contrastive")
    }
    rounds = [{name: pool.submit(seconds).result() for name, pool in pools.items()} for _ in range(ROUNDS)]
    ratio = median(found["ccp-contrastive"] / found["contrastive"] for found in rounds)
    report = {
        "benchmark": "ccp_step",
        "ratio": round(ratio, 3),
        "at_most": BOUND,
        **{f"{name}_s": [round(found[name], 3) for found in rounds] for name in pools},
        **{trunk: pools["ccp-contrastive"].submit(cost, trunk).result() for trunk in ("lite", "bn-inception")},
    }
    for pool in pools.values():
        pool.shutdown()
    print(json.dumps(report))
    return int(ratio > BOUND)


if __name__ == "__main__":
    sys.exit(main())
