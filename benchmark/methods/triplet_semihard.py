"""Triplet loss over the semi-hard triplets of the batch, on squared distances (FaceNet).

    mean over triplets with d^2(a, p) < d^2(a, n) <= d^2(a, p) + margin  of  d^2(a, p) - d^2(a, n) + margin

A semi-hard negative is farther than the positive, but not by the margin: the hardest negatives, which drew FaceNet's
training to a collapse, are left out. Every semi-hard triplet counts, and none with a loss of exactly 0. FaceNet takes
one semi-hard negative for each positive pair out of batches of thousands, and Google's later code takes the nearest
of them and, where there is none, the farthest negative. A batch without a semi-hard triplet has the loss 0.
"""

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import TripletMarginLoss
from pytorch_metric_learning.miners import TripletMarginMiner
from torch import nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry
from benchmark.methods.ms import Mined


def build(*, n_classes: int, embedding_dim: int, margin: float) -> nn.Module:
    """PML's loss behind PML's miner, both on squared distances of the protocol's embeddings."""
    miner = TripletMarginMiner(margin=margin, type_of_triplets="semihard", distance=euclidean(power=2))
    return Mined(TripletMarginLoss(margin=margin, distance=euclidean(power=2)), miner)


ENTRY = MethodEntry(
    name="triplet-semihard",
    family="pair",
    build=build,
    space=lambda n_classes: {"margin": FloatDistribution(0.01, 2.0)},
    source="Schroff, Kalenichenko, Philbin, CVPR 2015, https://arxiv.org/abs/1503.03832; the range of margin is a "
    "choice of this project",
    formula="mean over triplets with d2(a, p) < d2(a, n) < d2(a, p) + margin of d2(a, p) - d2(a, n) + margin; "
    "d2 = ||x_i - x_j||^2",
)
