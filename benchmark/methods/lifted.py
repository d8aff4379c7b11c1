"""Lifted structure: each positive pair against all negatives of both its images at once.

    mean over positive pairs (i, j) of  1/2 [ d(i, j) + log( sum over negatives of i of e^(neg_margin - d(i, k))
                                                           + sum over negatives of j of e^(neg_margin - d(j, l)) ) ]+^2

d = ||x_i - x_j||, not squared. PML's LiftedStructureLoss is the reference, and agrees with the paper up to floating
point: the paper writes alpha for `neg_margin`, 1 there, and PML counts a pair in both orders, which leaves the mean as
it is. With `ref_emb` and `ref_labels` j is a reference, k runs over the references and l over the batch; PML takes for
l's the negatives of the image that has j's number in the batch, whatever that is.
"""

import torch
from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry
from benchmark.methods.pairs import PairLoss, log_sum_exp, masked_mean


class LiftedStructure(PairLoss):
    """The mean over positive pairs."""

    def __init__(self, neg_margin: float) -> None:
        super().__init__(euclidean())
        self.neg_margin = neg_margin

    def of_pairs(self, distances: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """As the module says."""
        of_first, of_second = (log_sum_exp(self.neg_margin - distances, negative, dim) for dim in (1, 0))
        hinges = (distances + torch.logaddexp(of_first, of_second)).relu()
        return masked_mean(hinges.square() / 2, positive)


def build(*, n_classes: int, embedding_dim: int, neg_margin: float) -> nn.Module:
    """A module without weights."""
    return LiftedStructure(neg_margin)


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
