"""What each method costs by itself: forward and backward on 32 x 128 embeddings, with 75 and with 8,488 classes.

Embeddings are random unit vectors, hyper-parameters the middle of each search space, of 8,488 classes too. CCP and HPL
have begun and XBM's memory is full and counts, as in the middle of a job; other hooks are no part of it, nor are CCP's
penalty and the optimiser's step. Milliseconds are medians on one thread. `share` is that of a step of `lite` (its
network forward and backward, batch 32, without a loss), measured in the same process. `waits` counts the operations
that make the host wait for a device: those that read a value or find out how many there are (a copy to the host is not
seen on a CPU).

Run `python tests/benchmarks/method_overhead.py [METHOD ...]`: a table on standard error, one JSON line on standard
output. About two minutes for all methods.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils._python_dispatch import TorchDispatchMode

from benchmark.memory import prefer_huge_pages
from benchmark.methods.classes import middle
from benchmark.methods.entry import W_LR, MethodEntry
from benchmark.methods.registry import METHODS, build_method, method_entry
from benchmark.methods.xbm import START_STEP, CrossBatchMemory
from benchmark.training.context import Context
from protocols.catalogue import LITE_V1
from protocols.model import build_model

BATCH, DIM = 32, 128
CLASS_COUNTS = (75, 8488)
SECONDS, AT_LEAST = 0.5, 5  # of one measurement, and its repetitions
WAITS = ("nonzero", "_local_scalar_dense", "masked_select", "unique", "equal", "repeat_interleave", "bincount")
BY_INDEX = ("index", "index_put", "index_put_", "_index_put_impl_")  # which count a boolean index first


class Waits(TorchDispatchMode):
    """Notes the operations after which a device's host waits."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        name = function.name().removeprefix("aten::").partition(".")[0]
        by_mask = name in BY_INDEX and any(
            index is not None and index.dtype in (torch.bool, torch.uint8) for index in arguments[1]
        )
        if by_mask or name.lstrip("_").startswith(tuple(word.lstrip("_") for word in WAITS)):
            self.names.append(name)
        return function(*arguments, **(keywords or {}))


@dataclass(frozen=True)
class Cost:
    """Of one method with one class count."""

    milliseconds: float
    waits: int


def method_cost(entry: MethodEntry, n_classes: int) -> Cost:
    """Forward and backward of its module on a batch of its family."""
    module, labels = in_the_middle_of_a_job(entry, n_classes)
    points = normalize(torch.randn(BATCH, DIM, generator=torch.Generator().manual_seed(1)))

    def step() -> None:
        embeddings = points.detach().requires_grad_()
        module(embeddings, labels).backward()

    milliseconds = measured(step)
    with Waits() as waits:
        step()
    return Cost(milliseconds, len(waits.names))


def in_the_middle_of_a_job(entry: MethodEntry, n_classes: int) -> tuple[nn.Module, Tensor]:
    """The module and the labels of its batch: 8 classes x 4 images, or 32 x 1."""
    values = {name: middle(item) for name, item in entry.space(n_classes).items() if name != W_LR}
    torch.manual_seed(0)
    module = build_method(entry, n_classes, DIM, values)
    labels = torch.randperm(n_classes)[: BATCH if entry.family == "class" else BATCH // 4]
    labels = labels.repeat(BATCH // len(labels))
    if hasattr(module, "begin"):
        module.begin(made_up_context(n_classes))
    if isinstance(module, CrossBatchMemory):
        for _ in range(module.memory_batches):
            module(normalize(torch.randn(BATCH, DIM)), torch.randint(n_classes, (BATCH,)))
            module.after_step(module.n_steps + 1, made_up_context(n_classes))
        module.n_steps = START_STEP + module.memory_batches
    return module, labels


def made_up_context(n_classes: int) -> Context:
    """What a job would tell a method, of images that are random points."""
    generator = torch.Generator().manual_seed(2)
    return Context(
        n_classes=n_classes,
        embedding_dim=DIM,
        images_by_class=[np.arange(4 * c, 4 * c + 4) for c in range(n_classes)],
        embed=lambda indices: normalize(torch.randn(len(indices), DIM, generator=generator)),
        trainable_parameters=(),
        generator=generator,
        normalise=normalize,
        reset_optimiser=lambda parameters: None,
        class_names=[f"class {c}" for c in range(n_classes)],
        super_classes=[f"super-class {c % 12}" for c in range(n_classes)],
    )


def lite_step_ms() -> float:
    """A step of the network of `lite`, forward and backward."""
    model = build_model(LITE_V1, torch.Generator().manual_seed(0)).train()
    side = LITE_V1.transforms.crop_px
    images = torch.randn(LITE_V1.batch.size, 3, side, side, generator=torch.Generator().manual_seed(1))
    return measured(lambda: model(images).square().sum().backward())


def measured(step: Callable[[], None]) -> float:
    """Median milliseconds of one call, after two to warm up."""
    step(), step()
    times, ends = list[float](), perf_counter() + SECONDS
    while len(times) < AT_LEAST or perf_counter() < ends:
        began = perf_counter()
        step()
        times.append(1000 * (perf_counter() - began))
    return median(times)


def main(names: list[str]) -> int:
    """Measure and print."""
    torch.set_num_threads(1)
    prefer_huge_pages()
    entries = [method_entry(name) for name in names] or [entry for entry in METHODS.values() if entry.is_trained]
    step_ms = lite_step_ms()
    print(
        f"a step of lite: {step_ms:.0f} ms\n{'method':<24}{'classes':>8}{'ms':>10}{'share':>9}{'waits':>7}",
        file=sys.stderr,
    )
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        for n_classes in CLASS_COUNTS:
            cost = method_cost(entry, n_classes)
            share = cost.milliseconds / step_ms
            row = f"{entry.name:<24}{n_classes:>8,}{cost.milliseconds:>10.2f}{share:>9.2%}{cost.waits:>7}"
            print(row, file=sys.stderr)
            found.setdefault(entry.name, {})[str(n_classes)] = {
                "ms": round(cost.milliseconds, 3),
                "share": round(share, 5),
                "waits": cost.waits,
            }
    print(json.dumps({"benchmark": "method_overhead", "lite_step_ms": round(step_ms, 1), "methods": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
