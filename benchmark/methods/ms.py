"""Multi-similarity loss over all pairs of the batch (`ms`), or over the pairs that its miner keeps (`ms-miner`).

    mean over images i of  1/alpha log(1 + sum over positives of e^(-alpha (S_ij - base)))
                         + 1/beta  log(1 + sum over negatives of e^( beta  (S_ij - base)))

S is the dot product. The miner keeps a positive with S < hardest negative + epsilon and a negative with S > hardest
positive - epsilon (the hardest positive is the least similar one). PML and the paper agree; the paper always mines.
Images without a kept pair count as 0 in the mean.
"""

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import MultiSimilarityLoss
from pytorch_metric_learning.miners import MultiSimilarityMiner
from torch import Tensor, nn

from benchmark.methods.distances import dot_product
from benchmark.methods.entry import MethodEntry

_SOURCE = "Wang et al., CVPR 2019, https://arxiv.org/abs/1904.06627"
_FORMULA = (
    "mean over images of 1/alpha log(1 + sum_pos e^(-alpha (S - base))) + 1/beta log(1 + sum_neg e^(beta (S - base))); "
    "S = <x_i, x_j>"
)


class Mined(nn.Module):
    """A pair loss over the pairs that a miner keeps in each batch."""

    def __init__(self, loss: nn.Module, miner: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.miner = miner

    def forward(
        self, embeddings: Tensor, labels: Tensor, *, ref_emb: Tensor | None = None, ref_labels: Tensor | None = None
    ) -> Tensor:
        """(B, D) float and (B,) int64, and with references (R, D) and (R,) -> scalar."""
        references = () if ref_emb is None else (ref_emb, ref_labels)
        mined = self.miner(embeddings, labels, *references)
        loss: Tensor = self.loss(embeddings, labels, mined, *references)
        return loss


def build(*, n_classes: int, embedding_dim: int, alpha: float, beta: float, base: float) -> nn.Module:
    """PML's loss with the similarity of the protocol's embeddings."""
    loss: nn.Module = MultiSimilarityLoss(alpha=alpha, beta=beta, base=base, distance=dot_product())
    return loss


def build_mined(
    *, n_classes: int, embedding_dim: int, alpha: float, beta: float, base: float, epsilon: float
) -> nn.Module:
    """The same loss behind PML's miner."""
    loss = build(n_classes=n_classes, embedding_dim=embedding_dim, alpha=alpha, beta=beta, base=base)
    return Mined(loss, MultiSimilarityMiner(epsilon=epsilon, distance=dot_product()))


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
