"""Multi-similarity loss over all pairs of the batch (`ms`), or over the pairs that its miner keeps (`ms-miner`).

    mean over images i of  1/alpha log(1 + sum over positives of e^(-alpha (S_ij - base)))
                         + 1/beta  log(1 + sum over negatives of e^( beta  (S_ij - base)))

S is the dot product. The miner keeps a positive with S < hardest negative + epsilon and a negative with S > hardest
positive - epsilon (the hardest positive is the least similar one). PML's MultiSimilarityLoss and MultiSimilarityMiner
are the reference, and agree with the paper, which always mines. Images without a kept pair count as 0 in the mean. With
`ref_emb` and `ref_labels` the batch is compared with these instead of with itself.
"""

import torch
from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.distances import dot_product
from benchmark.methods.entry import MethodEntry
from benchmark.methods.pairs import PairLoss, log_one_plus_sum_exp

_SOURCE = "Wang et al., CVPR 2019, https://arxiv.org/abs/1904.06627"
_FORMULA = (
    "mean over images of 1/alpha log(1 + sum_pos e^(-alpha (S - base))) + 1/beta log(1 + sum_neg e^(beta (S - base))); "
    "S = <x_i, x_j>"
)


class MultiSimilarity(PairLoss):
    """The mean over images; with an `epsilon`, of the pairs that the miner keeps."""

    def __init__(self, alpha: float, beta: float, base: float, epsilon: float | None = None) -> None:
        super().__init__(dot_product())
        self.alpha, self.beta, self.base, self.epsilon = alpha, beta, base, epsilon

    def of_pairs(self, distances: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """As the module says; the distances are similarities."""
        if self.epsilon is not None:
            positive, negative = mined(distances, positive, negative, self.epsilon)
        excess = distances - self.base
        attraction = log_one_plus_sum_exp(-self.alpha * excess, positive) / self.alpha
        repulsion = log_one_plus_sum_exp(self.beta * excess, negative) / self.beta
        return (attraction + repulsion).mean()


@torch.no_grad()
def mined(similarities: Tensor, positive: Tensor, negative: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The masks of the pairs that are not easier than all pairs of the other kind with the same anchor."""
    limits = torch.finfo(similarities.dtype)
    hardest_negative = similarities.masked_fill(~negative, limits.min).amax(dim=1, keepdim=True)
    hardest_positive = similarities.masked_fill(~positive, limits.max).amin(dim=1, keepdim=True)
    return (
        positive & (similarities - epsilon < hardest_negative),
        negative & (similarities + epsilon > hardest_positive),
    )


def build(*, n_classes: int, embedding_dim: int, alpha: float, beta: float, base: float) -> nn.Module:
    """A module without weights."""
    return MultiSimilarity(alpha, beta, base)


def build_mined(
    *, n_classes: int, embedding_dim: int, alpha: float, beta: float, base: float, epsilon: float
) -> nn.Module:
    """The same behind the miner."""
    return MultiSimilarity(alpha, beta, base, epsilon)


MS = MethodEntry(
    name="ms",
    family="pair",
    build=build,
    space=lambda n_classes: {
        "alpha": FloatDistribution(0.01, 100.0),
        "beta": FloatDistribution(0.01, 100.0),
        "base": FloatDistribution(0.0, 1.0),
    },
    source=_SOURCE,
    formula=_FORMULA,
    published={
        "mlrc:cub200": {"alpha": 0.01, "beta": 50.6, "base": 0.56},
        "mlrc:cars196": {"alpha": 14.35, "beta": 75.83, "base": 0.66},
        "mlrc:sop": {"alpha": 8.49, "beta": 57.38, "base": 0.41},
        "mlrc:cub200-batch256": {"alpha": 0.01, "beta": 46.85, "base": 0.82},
        "ccp:cub200": {"alpha": 2.0, "beta": 40.0, "base": 0.5},
        "ccp:cars196": {"alpha": 14.35, "beta": 75.83, "base": 0.66},
        "ccp:sop": {"alpha": 2.0, "beta": 40.0, "base": 0.5},
        "ccp:inshop": {"alpha": 8.49, "beta": 57.38, "base": 0.41},
    },
)

MS_MINER = MethodEntry(
    name="ms-miner",
    family="pair",
    build=build_mined,
    space=lambda n_classes: {
        "alpha": FloatDistribution(0.01, 100.0),
        "beta": FloatDistribution(0.01, 200.0),
        "base": FloatDistribution(0.0, 1.0),
        "epsilon": FloatDistribution(0.0, 1.0),
    },
    source=_SOURCE,
    formula=f"{_FORMULA}; only positives with S < hardest negative + epsilon, negatives with S > hardest positive - "
    "epsilon",
    published={
        "mlrc:cub200": {"alpha": 17.97, "beta": 75.66, "base": 0.77, "epsilon": 0.39},
        "mlrc:cars196": {"alpha": 7.49, "beta": 47.99, "base": 0.63, "epsilon": 0.72},
        "mlrc:sop": {"alpha": 15.94, "beta": 156.61, "base": 0.72, "epsilon": 0.34},
        "mlrc:cub200-batch256": {"alpha": 11.63, "beta": 55.2, "base": 0.85, "epsilon": 0.42},
    },
)
