"""Contrastive loss on similarities, summed over pairs: the form that cross-batch memory and CCP ("C1") use.

    mean over images i of  sum over positives j of [1 - S(i, j)]+ + sum over negatives j of [S(i, j) - neg_margin]+

S is the dot product, at most 1, so a positive pair always counts. The sums are not averaged over pairs: what an image
is compared with more often weighs more, so the loss grows with the batch, with a memory and with a set of references.
The cross-batch-memory authors' code adds S itself for a negative beyond the margin, a constant more and the same
gradient. PML's ContrastiveLoss is the reference once its averages are taken away. With `ref_emb` and `ref_labels` the
batch is compared with these instead of with itself.
"""

import torch
from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.distances import dot_product
from benchmark.methods.entry import MethodEntry
from benchmark.methods.pairs import PairLoss


class ContrastiveCosine(PairLoss):
    """Sums of hinges on similarities."""

    def __init__(self, neg_margin: float) -> None:
        super().__init__(dot_product())
        self.neg_margin = neg_margin

    def of_pairs(self, distances: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """As the module says; the distances are similarities."""
        hinges = torch.where(positive, 1 - distances, (distances - self.neg_margin) * negative).relu()
        return hinges.sum() / len(hinges)


def build(*, n_classes: int, embedding_dim: int, neg_margin: float) -> nn.Module:
    """A module without weights."""
    return ContrastiveCosine(neg_margin)


ENTRY = MethodEntry(
    name="contrastive-cosine",
    family="pair",
    build=build,
    space=lambda n_classes: {"neg_margin": FloatDistribution(0.0, 1.0)},
    source="Wang et al., CVPR 2020, https://arxiv.org/abs/1912.06798; Gurbuz, Can, Alatan, WACV 2024 (C1); "
    "the range of neg_margin is a choice of this project",
    formula="mean over images of sum of [1 - S]+ over positives + sum of [S - neg_margin]+ over negatives; "
    "S = <x_i, x_j>",
    published={f"ccp:{dataset}": {"neg_margin": 0.5} for dataset in ("cub200", "cars196", "sop", "inshop")},
)
