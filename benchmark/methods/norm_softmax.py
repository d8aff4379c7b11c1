"""Normalised softmax: a classifier without bias whose class weights have unit length.

    mean over the batch of  -log softmax over classes of <x_i, w_c> / temperature

The weights have unit length in the formula, not in memory. PML and the papers agree.
"""

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import NormalizedSoftmaxLoss
from torch import nn

from benchmark.methods.distances import dot_product
from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr


def build(*, n_classes: int, embedding_dim: int, temperature: float) -> nn.Module:
    """PML's loss, which gives its weights unit length itself; they start as normal draws."""
    loss: nn.Module = NormalizedSoftmaxLoss(
        num_classes=n_classes, embedding_size=embedding_dim, temperature=temperature, distance=dot_product()
    )
    return loss


ENTRY = MethodEntry(
    name="norm-softmax",
    family="class",
    build=build,
    space=lambda n_classes: {W_LR: own_weights_lr(), "temperature": FloatDistribution(0.01, 100.0, log=True)},
    source="Wang et al. (NormFace), ACM MM 2017, https://arxiv.org/abs/1704.06369; "
    "Zhai, Wu, BMVC 2019, https://arxiv.org/abs/1811.12649",
    formula="mean over images of -log softmax over classes of <x, w_c> / temperature; ||w_c|| = 1, no bias",
    published={
        "mlrc:cub200": {W_LR: 0.00446, "temperature": 0.1087},
        "mlrc:cars196": {W_LR: 0.011, "temperature": 0.0886},
        "mlrc:sop": {W_LR: 0.000546, "temperature": 0.063},
        "mlrc:cub200-batch256": {W_LR: 0.072, "temperature": 0.0707},
    },
)
