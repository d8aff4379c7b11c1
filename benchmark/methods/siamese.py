"""The two early losses over all pairs of images: `siamese-chopra` (2005) and `contrastive-hadsell` (2006).

    contrastive-hadsell: mean over pairs of  d^2 / 2    for one class, [margin - d]+^2 / 2  for two
    siamese-chopra:      mean over pairs of  2 / Q E^2  for one class, 2 Q e^(-2.77 E / Q)  for two,    Q = energy_bound

d = ||x_i - x_j||; E = sum of |x_i - x_j| over the coordinates (L1). Positive and negative pairs share one mean, so the
many negatives of a batch outweigh the few positives; the authors drew both kinds alike. Q is the largest energy that
can occur, 2 sqrt(D) = 22.6 for unit length at D = 128; here it is searched. PML has neither: its ContrastiveLoss does
not square the hinge. With `ref_emb` and `ref_labels` the batch is compared with these instead of with itself.
"""

import torch
from optuna.distributions import FloatDistribution
from pytorch_metric_learning.distances import LpDistance
from torch import Tensor, nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry


class MeanOverPairs(nn.Module):
    """The mean over all pairs of what `of_pairs` makes of a pair's distance."""

    def __init__(self, distance: LpDistance) -> None:
        super().__init__()
        self.distance = distance

    def forward(
        self, embeddings: Tensor, labels: Tensor, *, ref_emb: Tensor | None = None, ref_labels: Tensor | None = None
    ) -> Tensor:
        """(B, D) float and (B,) int64, and with references (R, D) and (R,) -> scalar."""
        distances = self.distance(embeddings, ref_emb)
        same = labels[:, None] == (labels if ref_labels is None else ref_labels)
        losses = self.of_pairs(distances, same)
        with_itself = len(labels) if ref_emb is None else 0  # no pairs; at distance 0 of one class they add nothing
        return losses.sum() / max(losses.numel() - with_itself, 1)

    def of_pairs(self, distances: Tensor, same: Tensor) -> Tensor:
        """(B, R) distances and whether the two are of one class -> (B, R) losses."""
        raise NotImplementedError


class ContrastiveHadsell(MeanOverPairs):
    """Squared distances within a class, squared hinges between classes."""

    def __init__(self, margin: float) -> None:
        super().__init__(euclidean())
        self.margin = margin

    def of_pairs(self, distances: Tensor, same: Tensor) -> Tensor:
        """As the class says."""
        return torch.where(same, distances, (self.margin - distances).relu()).square() / 2


class SiameseChopra(MeanOverPairs):
    """Squared energies within a class, exponentially falling ones between classes."""

    def __init__(self, energy_bound: float) -> None:
        super().__init__(LpDistance(normalize_embeddings=False, p=1))
        self.energy_bound = energy_bound

    def of_pairs(self, distances: Tensor, same: Tensor) -> Tensor:
        """As the class says."""
        bound = self.energy_bound
        return torch.where(same, 2 / bound * distances.square(), 2 * bound * torch.exp(-2.77 / bound * distances))


def build_hadsell(*, n_classes: int, embedding_dim: int, margin: float) -> nn.Module:
    """A module without weights."""
    return ContrastiveHadsell(margin)


def build_chopra(*, n_classes: int, embedding_dim: int, energy_bound: float) -> nn.Module:
    """A module without weights."""
    return SiameseChopra(energy_bound)


HADSELL = MethodEntry(
    name="contrastive-hadsell",
    family="pair",
    build=build_hadsell,
    space=lambda n_classes: {"margin": FloatDistribution(0.01, 2.0)},
    source="Hadsell, Chopra, LeCun, CVPR 2006; the range of margin, up to the largest distance, is a choice of this "
    "project",
    formula="mean over pairs of d^2 / 2 for one class, [margin - d]+^2 / 2 for two; d = ||x_i - x_j||",
)

CHOPRA = MethodEntry(
    name="siamese-chopra",
    family="pair",
    build=build_chopra,
    space=lambda n_classes: {"energy_bound": FloatDistribution(1.0, 100.0, log=True)},
    source="Chopra, Hadsell, LeCun, CVPR 2005; the range of energy_bound is a choice of this project",
    formula="mean over pairs of 2/Q E^2 for one class, 2 Q e^(-2.77 E / Q) for two; E = L1 distance, Q = energy_bound",
)
