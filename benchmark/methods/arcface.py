"""ArcFace: normalised softmax whose own-class angle is widened by a margin, given in degrees.

    mean over the batch of  -log softmax over classes of scale cos(theta_c + margin [c = y_i]),
    theta_c = acos <x_i, w_c>

Where theta + margin passes 180 degrees the own-class term is cos(theta) - m sin(m) with m in radians, so that it keeps
falling, as in the authors' code; PML's early releases lacked this branch. PML's ArcFaceLoss is the reference. The
weights have unit length in the formula, not in memory. The paper's margin is in radians (0.5 = 28.6 degrees).
"""

from math import pi, radians, sin

import torch
from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr
from benchmark.methods.large_margin import LargeMarginSoftmax


class ArcFace(LargeMarginSoftmax):
    """A margin on the angle, in degrees."""

    def __init__(self, n_classes: int, embedding_dim: int, margin: float, scale: float) -> None:
        super().__init__(n_classes, embedding_dim, scale)
        self.margin = radians(margin)

    def of_own_class(self, cosines: Tensor) -> Tensor:
        """As the module says."""
        angles = cosines.clamp(-1, 1).acos()
        beyond = angles.cos() - self.margin * sin(self.margin)
        return torch.where(angles <= pi - self.margin, (angles + self.margin).cos(), beyond)


def build(*, n_classes: int, embedding_dim: int, margin: float, scale: float) -> nn.Module:
    """`margin` in degrees; class weights start as normal draws."""
    return ArcFace(n_classes, embedding_dim, margin, scale)


ENTRY = MethodEntry(
    name="arcface",
    family="class",
    build=build,
    space=lambda n_classes: {
        W_LR: own_weights_lr(),
        "margin": FloatDistribution(0.0, 90.0),
        "scale": FloatDistribution(0.01, 300.0),
    },
    source="Deng et al., CVPR 2019, https://arxiv.org/abs/1801.07698",
    formula="mean over images of -log softmax over classes of scale cos(theta_c + margin [c = y]); margin in degrees, "
    "theta_c = acos <x, w_c>, ||w_c|| = 1",
    published={
        "mlrc:cub200": {W_LR: 0.00513, "margin": 23.22, "scale": 100.0},
        "mlrc:cars196": {W_LR: 7.39e-06, "margin": 20.52, "scale": 49.5},
        "mlrc:sop": {W_LR: 0.00201, "margin": 18.63, "scale": 220.3},
        "mlrc:cub200-batch256": {W_LR: 0.0395, "margin": 23.14, "scale": 78.86},
    },
)
