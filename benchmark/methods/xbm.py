"""Cross-batch memory, xbm(NAME): a pair loss that also compares the batch with the embeddings of the last batches.

    base(batch, batch) + base(batch, memory),    memory = the embeddings of the last `memory_batches` batches

The memory holds embeddings as the network made them then, without gradient; it is never embedded again. The batch
itself is not in it, so no image is compared with itself. The second term begins when START_STEP steps have passed and
the memory has filled once more: after START_STEP + memory_batches steps, whatever the protocol's length, so in a
protocol of fewer steps (`mini`, `demo`) xbm(NAME) is NAME; `summary()` tells how many steps had it. PML's
CrossBatchMemory stores the batch first and compares it with a memory that holds it, has no term of the batch alone, and
begins at once; the authors' code stores first too, and leaves out a pair of an image with itself by its similarity.

CCP writes XBM-S and XBM-L for a memory as large as the proxies of the compared CCP: 3 and 25 batches of 32 on CUB200
and Cars196, 400 and 1400 on SOP, 100 and 400 on In-shop (published values "ccp:cub200-s", "ccp:cub200-l", ...). The two
bases that it ran have short names, xbm-contrastive (C2) and xbm-contrastive-cosine (C1).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from optuna.distributions import IntDistribution
from torch import Tensor, nn

from benchmark.methods import contrastive, contrastive_cosine
from benchmark.methods.entry import MethodEntry, Value
from benchmark.methods.references import refuse_without_references
from benchmark.training.context import Context

START_STEP = 1000  # the authors' and CCP's
CCP_MEMORY_BATCHES = {
    "ccp:cub200": {"s": 3, "l": 25},
    "ccp:cars196": {"s": 3, "l": 25},
    "ccp:sop": {"s": 400, "l": 1400},
    "ccp:inshop": {"s": 100, "l": 400},
}


class CrossBatchMemory(nn.Module):
    """A pair loss with a ring of past batches.

    The ring is made when the first batch has come, which tells its size. It is written in `after_step`, when the
    gradients that needed it are computed. The step count stays on the host: nothing waits for the device.
    """

    def __init__(self, base: nn.Module, memory_batches: int) -> None:
        super().__init__()
        self.base = base
        self.memory_batches = memory_batches
        self.n_steps = 0
        self.memory: Tensor
        self.memory_labels: Tensor
        self.register_buffer("memory", torch.empty(0, 0))
        self.register_buffer("memory_labels", torch.empty(0, dtype=torch.int64))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 -> scalar."""
        loss: Tensor = self.base(embeddings, labels)
        if self.n_steps >= START_STEP + self.memory_batches:
            loss = loss + self.base(embeddings, labels, ref_emb=self.memory, ref_labels=self.memory_labels)
        self._batch = embeddings.detach(), labels
        return loss

    def after_step(self, step: int, context: Context) -> None:
        """Put the batch in the place of the oldest."""
        embeddings, labels = self._batch
        if not len(self.memory):
            n_images = len(labels) * self.memory_batches
            self.memory = embeddings.new_zeros(n_images, embeddings.shape[1])
            self.memory_labels = labels.new_zeros(n_images)
        first = self.n_steps % self.memory_batches * len(labels)
        self.memory[first : first + len(labels)] = embeddings
        self.memory_labels[first : first + len(labels)] = labels
        self.n_steps += 1

    def summary(self) -> dict[str, Any]:
        """Size of the memory in images and the steps that were compared with it."""
        steps = max(0, self.n_steps - START_STEP - self.memory_batches)
        return {"memory_images": len(self.memory), "steps_with_memory": steps}

    def get_extra_state(self) -> Tensor:
        """The number of steps."""
        return torch.tensor(self.n_steps)

    def set_extra_state(self, state: Tensor) -> None:
        """As `get_extra_state` gave it."""
        self.n_steps = int(state)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        for name in ("memory", "memory_labels"):
            if prefix + name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[prefix + name], device=getattr(self, name).device))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def compose(base: MethodEntry) -> MethodEntry:
    """The method xbm(base).

    Raises:
        BenchmarkError: if the base is no pair loss, or one that cannot compare a batch with references.
    """
    if base.name in ENTRIES:
        return ENTRIES[base.name]
    refuse_without_references(base, "xbm", "past ones")
    return _entry(base, f"xbm({base.name})")


def _entry(base: MethodEntry, name: str) -> MethodEntry:
    def build(*, n_classes: int, embedding_dim: int, memory_batches: int, **of_base: Value) -> nn.Module:
        loss = base.build(n_classes=n_classes, embedding_dim=embedding_dim, **of_base)
        return CrossBatchMemory(loss, memory_batches)

    return replace(
        base,
        name=name,
        build=build,
        space=lambda n_classes: {**base.space(n_classes), "memory_batches": IntDistribution(1, 2000, log=True)},
        source="Wang et al., CVPR 2020, https://arxiv.org/abs/1912.06798; the range of memory_batches is a choice of "
        f"this project; {base.name}: {base.source}",
        formula="l(batch, batch) + l(batch, memory of the last memory_batches batches), the second after "
        f"{START_STEP} + memory_batches steps; l = {base.name}: {base.formula}",
        published={
            f"{key}-{size}": {**base.published[key], "memory_batches": n_batches}
            for key, sizes in CCP_MEMORY_BATCHES.items()
            for size, n_batches in sizes.items()
            if base.name in _CCP_BASES
        },
    )


_CCP_BASES = {base.name: base for base in (contrastive.ENTRY, contrastive_cosine.ENTRY)}
ENTRIES: dict[str, MethodEntry] = {  # those with a short name, by the name of their base
    name: _entry(base, f"xbm-{name}") for name, base in _CCP_BASES.items()
}
