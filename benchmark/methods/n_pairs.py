"""N-pairs: one pair of images a class, each first image against the second images of all classes of the batch.

    mean over classes c of the batch of  -log e^<a_c, p_c> / sum over classes k of e^<a_c, p_k>

a_c and p_c are the first two images of class c in the batch, in the sampler's random order; a class's further images
are not used. PML's NPairsLoss is the reference and agrees with the paper. The paper leaves the embeddings' length free
and adds its square to the loss; here the protocol bounds the length, so that term is left out, and the similarities,
which no temperature sharpens, stay within -1 and 1. Nothing is left to search.
"""

from torch import Tensor, nn

from benchmark.methods.distances import dot_product
from benchmark.methods.entry import MethodEntry
from benchmark.methods.pairs import log_sum_exp, masked_mean


class NPairs(nn.Module):
    """The mean over classes with two images or more."""

    def __init__(self) -> None:
        super().__init__()
        self.distance = dot_product()

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 -> scalar."""
        same = labels[:, None] == labels
        place = same.tril(diagonal=-1).sum(dim=1)  # of an image among those of its class, from 0
        is_second = place == 1
        similarities = self.distance(embeddings, None)
        costs = log_sum_exp(similarities, is_second.expand_as(same)) - similarities
        return masked_mean(costs, same & (place == 0)[:, None] & is_second)


def build(*, n_classes: int, embedding_dim: int) -> nn.Module:
    """A module without weights."""
    return NPairs()


ENTRY = MethodEntry(
    name="n-pairs",
    family="pair",
    build=build,
    space=lambda n_classes: {},
    source="Sohn, NeurIPS 2016, Improved Deep Metric Learning with Multi-class N-pair Loss Objective",
    formula="mean over classes of the batch of -log e^<a_c, p_c> / sum_k e^<a_c, p_k>; a_c, p_c: the class's first two "
    "images",
)
