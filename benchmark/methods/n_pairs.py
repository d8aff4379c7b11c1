"""N-pairs: one pair of images a class, each first image against the second images of all classes of the batch.

    mean over classes c of the batch of  -log e^<a_c, p_c> / sum over classes k of e^<a_c, p_k>

a_c and p_c are the first two images of class c in the batch, in the sampler's random order; a class's further images
are not used. PML and the paper agree. The paper leaves the embeddings' length free and adds its square to the loss;
here the protocol bounds the length, so that term is left out, and the similarities, which no temperature sharpens, stay
within -1 and 1. Nothing is left to search.
"""

from pytorch_metric_learning.losses import NPairsLoss
from torch import nn

from benchmark.methods.distances import dot_product
from benchmark.methods.entry import MethodEntry


def build(*, n_classes: int, embedding_dim: int) -> nn.Module:
    """PML's loss with the similarity of the protocol's embeddings."""
    loss: nn.Module = NPairsLoss(distance=dot_product())
    return loss


ENTRY = MethodEntry(
    name="n-pairs",
    family="pair",
    build=build,
    space=lambda n_classes: {},
    source="Sohn, NeurIPS 2016, Improved Deep Metric Learning with Multi-class N-pair Loss Objective",
    formula="mean over classes of the batch of -log e^<a_c, p_c> / sum_k e^<a_c, p_k>; a_c, p_c: the class's first two "
    "images",
)
