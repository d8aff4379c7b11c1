"""Lifted structure: each positive pair against all negatives of both its images at once.

    mean over positive pairs (i, j) of  1/2 [ d(i, j) + log( sum over negatives of i of e^(neg_margin - d(i, k))
                                                           + sum over negatives of j of e^(neg_margin - d(j, l)) ) ]+^2

d = ||x_i - x_j||, not squared. PML and the paper agree up to floating point: the paper writes alpha for `neg_margin`,
1 there, and PML counts a pair in both orders, which leaves the mean as it is. PML forms a matrix of positive by
negative pairs: 86,016 numbers at 8 x 4 images, 50 million at 64 x 4.
"""

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import LiftedStructureLoss
from torch import nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry


def build(*, n_classes: int, embedding_dim: int, neg_margin: float) -> nn.Module:
    """PML's loss with the distance of the protocol's embeddings."""
    loss: nn.Module = LiftedStructureLoss(neg_margin=neg_margin, distance=euclidean())
    return loss


ENTRY = MethodEntry(
    name="lifted",
    family="pair",
    build=build,
    space=lambda n_classes: {"neg_margin": FloatDistribution(0.0, 2.0)},
    source="Oh Song et al., CVPR 2016, https://arxiv.org/abs/1511.06452; the range of neg_margin is a choice of this "
    "project",
    formula="mean over positive pairs of 1/2 [d(i, j) + log(sum_k e^(neg_margin - d(i, k)) + sum_l e^(neg_margin - "
    "d(j, l)))]+^2 over negatives k of i, l of j; d = ||x_i - x_j||",
)
