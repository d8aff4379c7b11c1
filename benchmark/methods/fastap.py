"""FastAP: one minus the average precision of each image's ranking of the batch, made smooth by a histogram.

    mean over images with a positive of  1 - (1 / N+) sum over bins b of  h+_b H+_b / H_b

The squared distances, 0 to 4, fall into `num_bins` + 1 triangular bins; h+ counts an image's positives in a bin, H+ and
H count positives and all images up to it. PML's FastAPLoss is the reference and agrees with the paper. The range holds
because no embedding is longer than 1. The best published value at batch 256, 86, comes from a wider grid (2 to 250)
than the one kept here.
"""

import torch
from optuna.distributions import IntDistribution
from torch import Tensor, nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry
from benchmark.methods.pairs import masked_mean, pair_masks

FARTHEST = 4.0  # the squared distance of two opposite points of the unit sphere


class FastAP(nn.Module):
    """The mean over images with a positive; the histograms of a batch take (num_bins + 1) x B x B numbers."""

    def __init__(self, num_bins: int) -> None:
        super().__init__()
        self.num_bins = int(num_bins)
        self.distance = euclidean(power=2)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 -> scalar."""
        positive, negative = pair_masks(labels)
        shares = self.shares_of_bins(self.distance(embeddings, None))
        of_positives = (shares * positive).sum(dim=2)
        seen_positives = of_positives.cumsum(dim=0)
        seen = seen_positives + (shares * negative).sum(dim=2).cumsum(dim=0)
        found = of_positives * seen_positives
        n_positives = positive.sum(dim=1)
        precisions = (found / seen.masked_fill(found == 0, 1)).sum(dim=0) / n_positives.clamp_min(1)
        return masked_mean(1 - precisions, n_positives > 0)

    def shares_of_bins(self, distances: Tensor) -> Tensor:
        """(B, B) -> (num_bins + 1, B, B): how much of each pair lies in each triangular bin."""
        centres = torch.linspace(0, FARTHEST, self.num_bins + 1, dtype=distances.dtype, device=distances.device)
        return (1 - (distances - centres[:, None, None]).abs() / (FARTHEST / self.num_bins)).relu()


def build(*, n_classes: int, embedding_dim: int, num_bins: int) -> nn.Module:
    """A module without weights."""
    return FastAP(num_bins)


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
