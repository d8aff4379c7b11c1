"""The pairs of a batch as masks: what the pair losses share.

Every loss over pairs here has pytorch-metric-learning's (PML) as its reference and equals it up to rounding, in value
and gradient. PML writes pairs as lists of indices; how long they are depends on the labels, so the host waits for the
device at each of them. Masks of shape (B, R) need no count: R = B, or the number of references with which the batch is
compared instead of with itself. One thing differs: PML gives 0 where a loss over pairs is left with one pair of either
kind or fewer (one image and two references, or what a miner keeps); here such pairs count like any other.
"""

import torch
from torch import Tensor, nn


class PairLoss(nn.Module):
    """What `of_pairs` makes of the distances between the images of a batch, or from these to references.

    `distance` takes (B, D) and either (R, D) or None, for the batch itself.
    """

    def __init__(self, distance: nn.Module) -> None:
        super().__init__()
        self.distance = distance

    def forward(
        self, embeddings: Tensor, labels: Tensor, *, ref_emb: Tensor | None = None, ref_labels: Tensor | None = None
    ) -> Tensor:
        """(B, D) float and (B,) int64, and with references (R, D) and (R,) -> scalar."""
        distances: Tensor = self.distance(embeddings, ref_emb)
        return self.of_pairs(distances, *pair_masks(labels, ref_labels))

    def of_pairs(self, distances: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """(B, R) distances or similarities and the masks of `pair_masks` -> scalar."""
        raise NotImplementedError


def pair_masks(labels: Tensor, ref_labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Which pairs are of one class, and which of two: two boolean (B, R).

    An image is no pair with itself. References are other images, so all of their pairs count, unless their labels are
    the very tensor of the batch's: then the k-th reference is taken for the k-th image, as PML does.
    """
    same = labels[:, None] == (labels if ref_labels is None else ref_labels)
    negative = ~same
    if ref_labels is None or ref_labels is labels:
        same.fill_diagonal_(False)
    return same, negative


def mean_over_positive(losses: Tensor) -> Tensor:
    """The mean of the entries above 0; 0 where there is none."""
    return losses.sum() / (losses > 0).sum().clamp_min(1)


def masked_mean(losses: Tensor, kept: Tensor) -> Tensor:
    """The mean of the kept entries; 0 where there is none. The others must be finite, and so must their gradient."""
    return (losses * kept).sum() / kept.sum().clamp_min(1)


def log_sum_exp(exponents: Tensor, kept: Tensor, dim: int = 1) -> Tensor:
    """log of the sum of e^exponents over the kept entries along `dim`, which stays.

    Where there is none, the dtype's lowest number stands for the logarithm of 0: unlike an infinity, it lets a gradient
    of 0 pass.
    """
    return exponents.masked_fill(~kept, torch.finfo(exponents.dtype).min).logsumexp(dim, keepdim=True)


def log_one_plus_sum_exp(exponents: Tensor, kept: Tensor, dim: int = 1) -> Tensor:
    """log of 1 + the sum of e^exponents over the kept entries along `dim`, which stays; 0 where there is none."""
    return torch.logaddexp(log_sum_exp(exponents, kept, dim), exponents.new_zeros(()))
