"""Whether a pair loss can compare a batch with references, as pytorch-metric-learning's do: found out by trying."""

import torch
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError
from benchmark.methods.classes import middle_of
from benchmark.methods.entry import MethodEntry
from benchmark.training.failure import one_line


def refuse_without_references(base: MethodEntry, composer: str, others: str) -> None:
    """A BenchmarkError, for the method composer(base), if it compares a batch with `others` and `base` cannot."""
    name = f"{composer}({base.name})"
    if base.family != "pair":
        raise BenchmarkError(f"{name}: {base.name} is of the family {base.family!r}; {composer} needs a pair loss.")
    reason = _why_no_references(base)
    if reason:
        raise BenchmarkError(
            f"{name}: {base.name} takes no references: {reason}. {composer} compares a batch with {others}: "
            "forward(embeddings, labels, ref_emb=..., ref_labels=...) must accept them and pass their gradient on."
        )


def _why_no_references(entry: MethodEntry) -> str:
    """Why `forward(embeddings, labels, ref_emb=..., ref_labels=...)` does not serve, without a full stop, or "".

    The loss, built at the middle of its space, must accept six references beside a batch of eight and give them a
    gradient.
    """
    generator = torch.Generator().manual_seed(0)
    batch, references = (normalize(torch.randn(n, 16, generator=generator)).requires_grad_() for n in (8, 6))
    with torch.random.fork_rng(devices=[]):
        try:
            loss = entry.build(n_classes=3, embedding_dim=16, **middle_of(entry.space(3)))
            loss(batch, torch.arange(8) % 3, ref_emb=references, ref_labels=torch.arange(6) % 3).backward()
        except Exception as error:
            return one_line(error)
    return "" if references.grad is not None else "they get no gradient"
