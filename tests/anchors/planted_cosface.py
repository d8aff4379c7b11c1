"""CosFace, the same one written another way, and three slips of the kind that a review lets through.

    cross-entropy of SCALE (cos(x, w_c) - MARGIN [c is the class of x]),    cos = <x, w_c / ||w_c||>

`planted_faults.py` runs them, with class weights that learn at the learning rate of the network.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, one_hot

SCALE, MARGIN = 16.0, 0.2


class CosFace(nn.Module):
    """As the formula above."""

    def __init__(self, n_classes: int, embedding_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_classes, embedding_dim))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) and (B,) -> scalar."""
        return cross_entropy(SCALE * (self.cosines(embeddings) - self.margins(labels)), labels)

    def cosines(self, embeddings: Tensor) -> Tensor:
        """(B, D) -> (B, C)."""
        return embeddings @ normalize(self.weight, dim=1).T

    def margins(self, labels: Tensor) -> Tensor:
        """What is taken off the cosines, (B,) -> (B, C)."""
        return MARGIN * one_hot(labels, len(self.weight))


class Refactored(CosFace):
    """The same loss by its logarithm of a sum, without a cross-entropy."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) and (B,) -> scalar."""
        lengths = self.weight.square().sum(dim=1).sqrt()
        logits = SCALE * (embeddings @ self.weight.T / lengths)
        logits = logits.scatter_add(1, labels[:, None], torch.full_like(logits[:, :1], -SCALE * MARGIN))
        return (logits.logsumexp(dim=1) - logits.gather(1, labels[:, None]).squeeze(1)).mean()


class SignError(CosFace):
    """The margin helps the class of the image instead of holding it back."""

    def margins(self, labels: Tensor) -> Tensor:
        """The slip: the sign."""
        return -super().margins(labels)


class DoubledMargin(CosFace):
    """The margin is twice what it should be."""

    def margins(self, labels: Tensor) -> Tensor:
        """The slip: the factor."""
        return 2 * super().margins(labels)


class NotNormalised(CosFace):
    """Class weights keep their lengths, so what was a cosine is a product."""

    def cosines(self, embeddings: Tensor) -> Tensor:
        """The slip: no division by the length."""
        return embeddings @ self.weight.T
