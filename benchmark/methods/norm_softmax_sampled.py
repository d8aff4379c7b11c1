"""Normalised softmax over a random share of the classes at each step: what a large class count costs less.

    mean over the batch of  -log softmax over the step's classes of <x_i, w_c> / temperature

The step's classes are those of the batch and others drawn at random without replacement, together `share` x all
classes, but never fewer than the batch has images: with 75 classes and 32 x 1 images, both shares are the batch's own
classes and nothing else. A share of 10 % or 1 % is the paper's; a search chooses between the two, and the record says
which won. The weights have unit length in the formula, not in memory. PML has no such loss. The draws come from torch's
global generator, which a job seeds.
"""

import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr


class SampledSoftmax(nn.Module):
    """Cross entropy over some of the rows of `weights`, (n_classes, embedding_dim)."""

    def __init__(self, n_classes: int, embedding_dim: int, temperature: float, share: float) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(n_classes, embedding_dim))
        self.temperature = temperature
        self.n_sampled = round(share * n_classes)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 -> scalar."""
        classes = self.draw(labels)
        places = torch.zeros(len(self.weights), dtype=torch.int64, device=labels.device)
        places[classes] = torch.arange(len(classes), device=labels.device)
        logits = embeddings @ normalize(self.weights[classes], dim=1).T / self.temperature
        return cross_entropy(logits, places[labels])

    def draw(self, labels: Tensor) -> Tensor:
        """(B,) labels -> the step's classes, each once, the labels among them; how many does not depend on values."""
        n_classes = len(self.weights)
        chances = torch.rand(n_classes, device=labels.device).index_fill(0, labels, 2)  # above all others
        return chances.topk(min(max(self.n_sampled, len(labels)), n_classes)).indices


def build(*, n_classes: int, embedding_dim: int, temperature: float, share: float) -> nn.Module:
    """Class weights start as normal draws, as those of `norm-softmax` do."""
    return SampledSoftmax(n_classes, embedding_dim, temperature, share)


ENTRY = MethodEntry(
    name="norm-softmax-sampled",
    family="class",
    build=build,
    space=lambda n_classes: {
        W_LR: own_weights_lr(),
        "temperature": FloatDistribution(0.01, 100.0, log=True),
        "share": CategoricalDistribution([0.1, 0.01]),
    },
    source="Zhai, Wu, BMVC 2019, https://arxiv.org/abs/1811.12649; the range of temperature is that of norm-softmax",
    formula="mean over images of -log softmax over the batch's and random other classes, share x all, of <x, w_c> / "
    "temperature; ||w_c|| = 1, no bias",
)
