"""ProxyNCA: each image is pulled to the one learned proxy of its class and away from all others.

    mean over the batch of  -log e^(-scale d^2(x_i, p_y)) / sum over all classes c of e^(-scale d^2(x_i, p_c))

Proxies have unit length in the formula, not in memory. The own proxy stands in the denominator, as in PML and the
reality check; the 2017 paper leaves it out and has no scale. PML's ProxyNCALoss takes the logarithm of a softmax, which
gives gradients that are not numbers at the scales near 100 that are searched; the cross entropy here is the same
formula and does not.
"""

import torch
from optuna.distributions import FloatDistribution
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmark.methods.distances import EuclideanToUnit
from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr


class ProxySoftmax(nn.Module):
    """Cross entropy over -scale x squared distances to `proxies`, (n_classes, embedding_dim).

    These start as normal draws of deviation `spread`.
    """

    def __init__(self, n_classes: int, embedding_dim: int, scale: float, spread: float = 1.0) -> None:
        super().__init__()
        self.proxies = nn.Parameter(spread * torch.randn(n_classes, embedding_dim))
        self.scale = scale
        self.distance = EuclideanToUnit(power=2)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 -> scalar."""
        return cross_entropy(-self.scale * self.distance(embeddings, self.proxies), labels)


def build(*, n_classes: int, embedding_dim: int, softmax_scale: float) -> nn.Module:
    """Proxies start as PML's do."""
    return ProxySoftmax(n_classes, embedding_dim, softmax_scale)


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
