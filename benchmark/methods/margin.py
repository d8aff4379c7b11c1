"""Margin loss with a learned boundary: one for all classes (`margin`), or one a class (`margin-class`).

    sum over triplets of [d(a, p) - beta + margin]+ + [beta - d(a, n) + margin]+,    d = ||x_i - x_j||, not squared
    divided by the number of non-zero hinges among both terms

beta is the boundary, of the anchor's class in `margin-class`; it starts at `init_beta`, learns at `w_lr` and has no
weight decay. PML counts a pair once for every triplet that holds it, where the 2017 paper counts pairs; the paper
also draws negatives by distance, which the reality check did not. The penalty on beta (nu) is 0.
"""

from collections.abc import Callable

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import MarginLoss
from torch import nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import W_LR, MethodEntry, Space, own_weights_lr


def _builder(*, per_class: bool) -> Callable[..., nn.Module]:
    def build(*, n_classes: int, embedding_dim: int, margin: float, init_beta: float) -> nn.Module:
        loss: nn.Module = MarginLoss(
            margin=margin,
            beta=init_beta,
            nu=0,
            learn_beta=True,
            num_classes=n_classes if per_class else None,
            triplets_per_anchor="all",
            distance=euclidean(),
        )
        return loss

    return build


def _space(n_classes: int) -> Space:
    return {
        W_LR: own_weights_lr(),
        "margin": FloatDistribution(-0.2, 2.0),
        "init_beta": FloatDistribution(-0.2, 2.0),
    }


_FORMULA = (
    "sum over all triplets of [d(a, p) - beta + margin]+ + [beta - d(a, n) + margin]+ over the number of non-zero "
    "hinges; d = ||x_i - x_j||; beta learned"
)
_SOURCE = "Wu et al., ICCV 2017, https://arxiv.org/abs/1706.07567"

MARGIN = MethodEntry(
    name="margin",
    family="pair",
    build=_builder(per_class=False),
    space=_space,
    source=_SOURCE,
    formula=f"{_FORMULA}, one for all classes",
    own_weight_decay=False,
    published={
        "mlrc:cub200": {W_LR: 0.00131, "margin": 0.0878, "init_beta": 0.7838},
        "mlrc:cars196": {W_LR: 0.000111, "margin": 0.0781, "init_beta": 1.3164},
        "mlrc:sop": {W_LR: 0.00182, "margin": 0.0915, "init_beta": 1.1072},
        "mlrc:cub200-batch256": {W_LR: 1e-06, "margin": 0.0674, "init_beta": 0.9762},
    },
)

MARGIN_CLASS = MethodEntry(
    name="margin-class",
    family="pair",
    build=_builder(per_class=True),
    space=_space,
    source=_SOURCE,
    formula=f"{_FORMULA}, one a class",
    own_weight_decay=False,
    published={
        "mlrc:cub200": {W_LR: 0.000265, "margin": 0.0779, "init_beta": 0.9796},
        "mlrc:cars196": {W_LR: 4.76e-05, "margin": 0.0776, "init_beta": 0.9598},
        "mlrc:sop": {W_LR: 7.1e-05, "margin": 0.0518, "init_beta": 0.8424},
        "mlrc:cub200-batch256": {W_LR: 0.0132, "margin": -0.0204, "init_beta": 0.1097},
    },
)
