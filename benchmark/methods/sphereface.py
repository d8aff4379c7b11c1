"""SphereFace: normalised softmax whose own-class angle is multiplied by a whole number.

    mean over the batch of  -log softmax over classes of scale ||x_i|| f(theta_c)
    f = cos(theta_c) for other classes, (-1)^k cos(margin theta_y) - 2k for the own one, k = floor(margin theta_y / pi)

theta_c is the angle between x_i and w_c. The own-class term falls steadily from 1 at 0 to 1 - 2 margin at pi.
PML's SphereFaceLoss is the reference and agrees with the paper in the formula. The paper has no scale, as the length of
its embeddings is free, and it trains with a mixture of f and cos(theta) that moves towards f; PML and this method do
not.
"""

from math import pi

import torch
from optuna.distributions import FloatDistribution, IntDistribution
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr
from benchmark.methods.large_margin import LargeMarginSoftmax


class SphereFace(LargeMarginSoftmax):
    """A whole number times the angle, and the embedding's length in the scale."""

    def __init__(self, n_classes: int, embedding_dim: int, margin: int, scale: float) -> None:
        super().__init__(n_classes, embedding_dim, scale)
        self.margin = int(margin)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 -> scalar."""
        cosines = self.distance(normalize(embeddings, dim=1), self.W.T)
        lengths = embeddings.norm(dim=1, keepdim=True)
        return cross_entropy(self.scale * lengths * self.hardened(cosines, labels), labels)

    def of_own_class(self, cosines: Tensor) -> Tensor:
        """As the module says; cos(margin theta) as a polynomial in cos(theta), whose slope is finite everywhere."""
        before, multiple = torch.ones_like(cosines), cosines
        for _ in range(self.margin - 1):
            before, multiple = multiple, 2 * cosines * multiple - before
        k = (cosines.detach().clamp(-1, 1).acos() * self.margin / pi).floor()
        return (1 - 2 * k.remainder(2)) * multiple - 2 * k


def build(*, n_classes: int, embedding_dim: int, margin: int, scale: float) -> nn.Module:
    """Class weights start as normal draws."""
    return SphereFace(n_classes, embedding_dim, margin, scale)


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
