"""SphereFace: normalised softmax whose own-class angle is multiplied by a whole number.

    mean over the batch of  -log softmax over classes of scale ||x_i|| f(theta_c)
    f = cos(theta_c) for other classes, (-1)^k cos(margin theta_y) - 2k for the own one, k = floor(margin theta_y / pi)

theta_c is the angle between x_i and w_c. The own-class term falls steadily from 1 at 0 to 1 - 2 margin at pi.
PML and the paper agree in the formula. The paper has no scale, as the length of its embeddings is free, and it trains
with a mixture of f and cos(theta) that moves towards f; PML and this method do not.
"""

from optuna.distributions import FloatDistribution, IntDistribution
from pytorch_metric_learning.losses import SphereFaceLoss
from torch import nn

from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr


def build(*, n_classes: int, embedding_dim: int, margin: int, scale: float) -> nn.Module:
    """PML's loss, which measures angles and multiplies by the embedding's length; weights start as normal draws."""
    loss: nn.Module = SphereFaceLoss(num_classes=n_classes, embedding_size=embedding_dim, margin=margin, scale=scale)
    return loss


ENTRY = MethodEntry(
    name="sphereface",
    family="class",
    build=build,
    space=lambda n_classes: {
        W_LR: own_weights_lr(),
        "margin": IntDistribution(2, 4),
        "scale": FloatDistribution(0.01, 200.0),
    },
    source="Liu et al., CVPR 2017, https://arxiv.org/abs/1704.08063; margin 2 to 4 is the paper's, the range of scale "
    "that of cosface",
    formula="mean over images of -log softmax over classes of scale ||x|| f; f = cos(theta_c), for the own class "
    "(-1)^k cos(margin theta) - 2k; theta_c: angle between x and w_c, k = floor(margin theta / pi)",
)
