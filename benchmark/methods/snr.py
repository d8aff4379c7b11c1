"""Contrastive loss on the signal-to-noise ratio of two embeddings.

    mean over non-zero of [d(i, j) - pos_margin]+ for pairs of one class
  + mean over non-zero of [neg_margin - d(i, j)]+ for pairs of two classes
  + regularizer_weight x mean over the batch of |sum of the coordinates of x_i|,    d(i, j) = var(x_i - x_j) / var(x_i)

The variances run over the coordinates of one embedding, so d is not symmetric. The last term keeps embeddings at zero
mean, where d is a ratio of squared lengths. PML and the paper agree up to the means over non-zero hinges.
"""

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.distances import SNRDistance
from pytorch_metric_learning.losses import SignalToNoiseRatioContrastiveLoss
from pytorch_metric_learning.regularizers import ZeroMeanRegularizer
from torch import nn

from benchmark.methods.entry import MethodEntry


def build(
    *, n_classes: int, embedding_dim: int, pos_margin: float, neg_margin: float, regularizer_weight: float
) -> nn.Module:
    """PML's loss and its zero-mean regulariser, on the protocol's embeddings."""
    loss: nn.Module = SignalToNoiseRatioContrastiveLoss(
        pos_margin=pos_margin,
        neg_margin=neg_margin,
        distance=SNRDistance(normalize_embeddings=False),
        embedding_regularizer=ZeroMeanRegularizer(),
        embedding_reg_weight=regularizer_weight,
    )
    return loss


ENTRY = MethodEntry(
    name="snr",
    family="pair",
    build=build,
    space=lambda n_classes: {
        "pos_margin": FloatDistribution(0.0, 2.0),
        "neg_margin": FloatDistribution(0.0, 2.0),
        "regularizer_weight": FloatDistribution(0.0, 1.0),
    },
    source="Yuan et al., CVPR 2019, https://arxiv.org/abs/1904.02616",
    formula="mean over non-zero [d - pos_margin]+ of positive pairs + mean over non-zero [neg_margin - d]+ of negative "
    "pairs + regularizer_weight mean |sum of x|; d = var(x_i - x_j) / var(x_i)",
    published={
        "mlrc:cub200": {"pos_margin": 0.3264, "neg_margin": 0.8446, "regularizer_weight": 0.1382},
        "mlrc:cars196": {"pos_margin": 0.167, "neg_margin": 0.9337, "regularizer_weight": 0.0},
        "mlrc:sop": {"pos_margin": 0.3759, "neg_margin": 1.0831, "regularizer_weight": 0.0},
        "mlrc:cub200-batch256": {"pos_margin": 0.1182, "neg_margin": 0.6822, "regularizer_weight": 0.4744},
    },
)
