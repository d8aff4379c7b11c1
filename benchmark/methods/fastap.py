"""FastAP: one minus the average precision of each image's ranking of the batch, made smooth by a histogram.

    mean over images with a positive of  1 - (1 / N+) sum over bins b of  h+_b H+_b / H_b

The squared distances, 0 to 4, fall into `num_bins` + 1 triangular bins; h+ counts an image's positives in a bin, H+ and
H count positives and all images up to it. PML and the paper agree. The range holds because no embedding is longer
than 1. The best published value at batch 256, 86, comes from a wider grid (2 to 250) than the one kept here.
"""

from optuna.distributions import IntDistribution
from pytorch_metric_learning.losses import FastAPLoss
from torch import nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry


def build(*, n_classes: int, embedding_dim: int, num_bins: int) -> nn.Module:
    """PML's loss with the distance of the protocol's embeddings."""
    loss: nn.Module = FastAPLoss(num_bins=num_bins)
    loss.distance = euclidean(power=2)  # set afterwards: the constructor insists on a distance that normalises
    return loss


ENTRY = MethodEntry(
    name="fastap",
    family="pair",
    build=build,
    space=lambda n_classes: {"num_bins": IntDistribution(2, 32)},
    source="Cakir et al., CVPR 2019, Deep Metric Learning to Rank",
    formula="mean over images of 1 - (1 / N+) sum_b h+_b H+_b / H_b, histograms of ||x_i - x_j||^2 in [0, 4] with "
    "num_bins + 1 triangular bins",
    published={
        "mlrc:cub200": {"num_bins": 17},
        "mlrc:cars196": {"num_bins": 27},
        "mlrc:sop": {"num_bins": 16},
        "mlrc:cub200-batch256": {"num_bins": 86},
    },
)
