"""CosFace: normalised softmax whose own-class cosine is lowered by a margin.

    mean over the batch of  -log softmax over classes of scale (<x_i, w_c> - margin [c = y_i])

The weights have unit length in the formula, not in memory. PML's CosFaceLoss is the reference and agrees with the
paper.
"""

from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr
from benchmark.methods.large_margin import LargeMarginSoftmax


class CosFace(LargeMarginSoftmax):
    """A margin on the cosine."""

    def __init__(self, n_classes: int, embedding_dim: int, margin: float, scale: float) -> None:
        super().__init__(n_classes, embedding_dim, scale)
        self.margin = margin

    def of_own_class(self, cosines: Tensor) -> Tensor:
        """As the module says."""
        return cosines - self.margin


def build(*, n_classes: int, embedding_dim: int, margin: float, scale: float) -> nn.Module:
    """Class weights start as normal draws."""
    return CosFace(n_classes, embedding_dim, margin, scale)


ENTRY = MethodEntry(
    name="cosface",
    family="class",
    build=build,
    space=lambda n_classes: {
        W_LR: own_weights_lr(),
        "margin": FloatDistribution(0.0, 1.0),
        "scale": FloatDistribution(0.01, 200.0),
    },
    source="Wang et al., CVPR 2018, https://arxiv.org/abs/1801.09414",
    formula="mean over images of -log softmax over classes of scale (<x, w_c> - margin [c = y]); ||w_c|| = 1",
    published={
        "mlrc:cub200": {W_LR: 0.00253, "margin": 0.6182, "scale": 100.0},
        "mlrc:cars196": {W_LR: 0.00741, "margin": 0.4324, "scale": 161.5},
        "mlrc:sop": {W_LR: 0.00216, "margin": 0.3364, "scale": 100.0},
        "mlrc:cub200-batch256": {W_LR: 0.00399, "margin": 0.4144, "scale": 88.23},
    },
)
