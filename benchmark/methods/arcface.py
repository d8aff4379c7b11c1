"""ArcFace: normalised softmax whose own-class angle is widened by a margin, given in degrees.

    mean over the batch of  -log softmax over classes of scale cos(theta_c + margin [c = y_i]),
    theta_c = acos <x_i, w_c>

Where theta + margin passes 180 degrees the own-class term is cos(theta) - m sin(m) with m in radians, so that it keeps
falling, as in the authors' code; PML's early releases lacked this branch. The weights have unit length in the formula,
not in memory. The paper's margin is in radians (0.5 = 28.6 degrees).
"""

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import ArcFaceLoss
from torch import nn

from benchmark.methods.distances import DotProductToUnit
from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr


def build(*, n_classes: int, embedding_dim: int, margin: float, scale: float) -> nn.Module:
    """PML's loss; `margin` in degrees; class weights start as normal draws."""
    loss: nn.Module = ArcFaceLoss(num_classes=n_classes, embedding_size=embedding_dim, margin=margin, scale=scale)
    loss.distance = DotProductToUnit()  # set afterwards: the constructor insists on PML's own cosine
    return loss


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
