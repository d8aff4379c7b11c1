"""Contrastive loss over all pairs of the batch, as the reality check ran it.

    mean over non-zero of [d(i, j) - pos_margin]+ for pairs of one class
  + mean over non-zero of [neg_margin - d(i, j)]+ for pairs of two classes,    d = ||x_i - x_j||, not squared

Each side is averaged over its own pairs with a positive hinge, so few violations weigh as much as many. A pair counts
in both orders. The 2006 paper squares both terms, halves them, has no positive margin and averages over all pairs.
"""

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import ContrastiveLoss
from torch import nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry


def build(*, n_classes: int, embedding_dim: int, pos_margin: float, neg_margin: float) -> nn.Module:
    """PML's loss with the distance of the protocol's embeddings."""
    loss: nn.Module = ContrastiveLoss(pos_margin=pos_margin, neg_margin=neg_margin, distance=euclidean())
    return loss


ENTRY = MethodEntry(
    name="contrastive",
    family="pair",
    build=build,
    space=lambda n_classes: {
        "pos_margin": FloatDistribution(-0.2, 2.0),
        "neg_margin": FloatDistribution(-0.2, 2.0),
    },
    source="Hadsell, Chopra, LeCun, CVPR 2006; Musgrave et al., ECCV 2020, https://arxiv.org/abs/2003.08505",
    formula="mean over non-zero [d - pos_margin]+ of positive pairs + mean over non-zero [neg_margin - d]+ of negative "
    "pairs; d = ||x_i - x_j||, not squared",
    published={
        "mlrc:cub200": {"pos_margin": -0.2, "neg_margin": 0.3841},
        "mlrc:cars196": {"pos_margin": 0.2652, "neg_margin": 0.5409},
        "mlrc:sop": {"pos_margin": 0.285, "neg_margin": 0.513},
        "mlrc:cub200-batch256": {"pos_margin": 0.2227, "neg_margin": 0.7694},
        "ccp:cub200": {"pos_margin": 0.0, "neg_margin": 0.3841},
        "ccp:cars196": {"pos_margin": 0.2652, "neg_margin": 0.5409},
        "ccp:sop": {"pos_margin": 0.2858, "neg_margin": 0.513},
        "ccp:inshop": {"pos_margin": 0.2858, "neg_margin": 0.513},
    },
)
