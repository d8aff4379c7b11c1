"""Triplet loss over all triplets of the batch, as the reality check ran it.

    mean over non-zero of [d(a, p) - d(a, n) + margin]+,    d = ||x_i - x_j||, not squared

No mining: every (anchor, positive, negative) of the batch is formed, and those with a zero hinge are left out of the
mean. FaceNet (2015) squares the distances and mines semi-hard negatives; that is another loss.
"""

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import TripletMarginLoss
from torch import nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry


def build(*, n_classes: int, embedding_dim: int, margin: float) -> nn.Module:
    """PML's loss with the distance of the protocol's embeddings."""
    loss: nn.Module = TripletMarginLoss(margin=margin, triplets_per_anchor="all", distance=euclidean())
    return loss


ENTRY = MethodEntry(
    name="triplet",
    family="pair",
    build=build,
    space=lambda n_classes: {"margin": FloatDistribution(-0.2, 2.0)},
    source="Weinberger, Saul, JMLR 2009; Musgrave et al., ECCV 2020, https://arxiv.org/abs/2003.08505",
    formula="mean over non-zero [d(a, p) - d(a, n) + margin]+ of all triplets; d = ||x_i - x_j||, not squared",
    published={
        "mlrc:cub200": {"margin": 0.0961},
        "mlrc:cars196": {"margin": 0.119},
        "mlrc:sop": {"margin": 0.0451},
        "mlrc:cub200-batch256": {"margin": 0.1368},
        "ccp:cub200": {"margin": 0.0961},
        "ccp:cars196": {"margin": 0.119},
        "ccp:sop": {"margin": 0.0451},
        "ccp:inshop": {"margin": 0.0451},
    },
)
