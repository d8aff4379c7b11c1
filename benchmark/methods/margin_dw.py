"""Margin loss with distance-weighted sampling: negatives are drawn so that all distances occur alike.

    the loss of `margin`, over one triplet (a, p, n) for every ordered positive pair (a, p), where
    n is drawn among the negatives of a with a chance proportional to  min(lambda, 1 / q(d(a, n))),
    q(d) = d^(D-2) (1 - d^2/4)^((D-3)/2)

q is the density of the distance between random points of the unit sphere in D dimensions, nearly all of it close to
sqrt(2): drawn without weights, negatives would be of no other distance. lambda = 1 / q(0.5) as in the authors' code,
which also draws none beyond a distance of 1.4; the paper does not say so, and it is not done here. PML's miner clamps
distances instead of weights, has that limit of 1.4 instead of lambda on the far side, and draws positives at random
too. The draws come from torch's global generator, which a job seeds.
"""

from math import log

import torch
from torch import Tensor, nn

from benchmark.methods.entry import MethodEntry
from benchmark.methods.margin import MARGIN, Margin, mean_by_count
from benchmark.methods.pairs import pair_masks

CUTOFF = 0.5  # the distance below which the weight grows no more


def log_density(distances: Tensor, embedding_dim: int) -> Tensor:
    """log q of distances in (0, 2), up to a constant."""
    return (embedding_dim - 2) * distances.log() + (embedding_dim - 3) / 2 * torch.log1p(-distances.square() / 4)


def log_weights(distances: Tensor, embedding_dim: int) -> Tensor:
    """log min(lambda, 1 / q(d)), up to a constant, of distances of any shape; finite from 0 to 2."""
    cap = -((embedding_dim - 2) * log(CUTOFF) + (embedding_dim - 3) / 2 * log(1 - CUTOFF**2 / 4))
    return (-log_density(distances.clamp(1e-4, 2 - 1e-4), embedding_dim)).clamp(max=cap)


class DistanceWeightedMargin(Margin):
    """The loss of `margin` with one drawn negative for every positive pair of the batch."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:  # type: ignore[override]  # no references
        """(B, D) float and (B,) int64 -> scalar."""
        positive, negative = pair_masks(labels)
        distances = self.distance(embeddings, None)
        too_far, too_near = self.hinges(distances, labels)
        anchors = torch.arange(len(labels), device=labels.device)[:, None]
        drawn = too_near[anchors, draw(distances, negative, embeddings.shape[1])]
        counted = positive & negative.any(dim=1, keepdim=True)
        return mean_by_count(too_far, counted, drawn, counted)


@torch.no_grad()
def draw(distances: Tensor, negative: Tensor, embedding_dim: int) -> Tensor:
    """(B, B) distances and mask -> (B, B) int64: for each pair (a, p) a negative of a; any image if a has none."""
    weights = log_weights(distances, embedding_dim).masked_fill(~negative, -torch.inf)
    lonely = ~negative.any(dim=1, keepdim=True)
    return weights.masked_fill(lonely, 0).softmax(dim=1).multinomial(len(negative), replacement=True)


def build(*, n_classes: int, embedding_dim: int, margin: float, init_beta: float) -> nn.Module:
    """One boundary for all classes."""
    return DistanceWeightedMargin(margin, init_beta)


ENTRY = MethodEntry(
    name="margin-dw",
    family="pair",
    build=build,
    space=MARGIN.space,
    source="Wu et al., ICCV 2017, https://arxiv.org/abs/1706.07567; the search space is that of margin",
    formula="as margin, over one triplet for every positive pair, its negative drawn with a chance ~ min(1/q(0.5), "
    "1/q(d)); q(d) = d^(D-2) (1 - d^2/4)^((D-3)/2)",
    own_weight_decay=False,
)
