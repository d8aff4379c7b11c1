"""ProxyNCA: each image is pulled to the one learned proxy of its class and away from all others.

    mean over the batch of  -log e^(-scale d^2(x_i, p_y)) / sum over all classes c of e^(-scale d^2(x_i, p_c))

Proxies have unit length in the formula, not in memory. The own proxy stands in the denominator, as in PML and the
reality check; the 2017 paper leaves it out and has no scale. An image whose own softmax share underflows to zero in
float32 is left out of the mean by PML: only far beyond the published scales, with an image on a wrong proxy.
"""

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import ProxyNCALoss
from torch import nn

from benchmark.methods.distances import EuclideanToUnit
from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr


def build(*, n_classes: int, embedding_dim: int, softmax_scale: float) -> nn.Module:
    """PML's loss; proxies start as normal draws."""
    loss: nn.Module = ProxyNCALoss(
        num_classes=n_classes,
        embedding_size=embedding_dim,
        softmax_scale=softmax_scale,
        distance=EuclideanToUnit(power=2),
    )
    return loss


ENTRY = MethodEntry(
    name="proxy-nca",
    family="class",
    build=build,
    space=lambda n_classes: {W_LR: own_weights_lr(), "softmax_scale": FloatDistribution(0.01, 100.0)},
    source="Movshovitz-Attias et al., ICCV 2017, https://arxiv.org/abs/1703.07464",
    formula="mean over images of -log softmax over all proxies (own one included) of -softmax_scale ||x - p||^2; "
    "||p|| = 1",
    published={
        "mlrc:cub200": {W_LR: 0.00604, "softmax_scale": 13.98},
        "mlrc:cars196": {W_LR: 0.00443, "softmax_scale": 7.97},
        "mlrc:sop": {W_LR: 0.000528, "softmax_scale": 10.73},
        "mlrc:cub200-batch256": {W_LR: 0.216, "softmax_scale": 10.03},
    },
)
