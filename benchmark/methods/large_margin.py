"""Softmax over class weights in which the image's own class is made harder to reach: what `cosface`, `arcface` and
`sphereface` share.

PML's LargeMarginSoftmaxLoss picks the own class by a mask of booleans, and the host waits for the device at each.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmark.methods.distances import DotProductToUnit


class LargeMarginSoftmax(nn.Module):
    """Mean cross entropy over scale x cosines; `W`, (embedding_dim, n_classes), starts as normal draws.

    The weights have unit length in the formula, not in memory; embeddings are taken as they come.
    """

    def __init__(self, n_classes: int, embedding_dim: int, scale: float) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(embedding_dim, n_classes))
        self.scale = scale
        self.distance = DotProductToUnit()

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 -> scalar."""
        return cross_entropy(self.scale * self.hardened(self.distance(embeddings, self.W.T), labels), labels)

    def hardened(self, cosines: Tensor, labels: Tensor) -> Tensor:
        """(B, C) with `of_own_class` applied where the class is the image's."""
        own = cosines[torch.arange(len(labels), device=labels.device), labels]
        is_own = labels[:, None] == torch.arange(cosines.shape[1], device=labels.device)
        return torch.where(is_own, self.of_own_class(own)[:, None], cosines)

    def of_own_class(self, cosines: Tensor) -> Tensor:
        """(B,) cosines of images and their classes -> (B,) what stands for them in the softmax."""
        raise NotImplementedError
