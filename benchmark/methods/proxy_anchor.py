"""Proxy anchor: each learned proxy is an anchor that pulls the images of its class and pushes all others, hardest most.

    mean over the proxies of classes in the batch of  log(1 + sum over their images of e^(-alpha (S - margin)))
  + mean over all proxies of                          log(1 + sum over other images of e^( alpha (S + margin)))

S = <x_i, p / ||p||>: proxies have unit length in the formula, not in memory. PML and the paper agree; the
paper writes delta for `margin`. Its proxies learn at 100 times the network's rate, here at `w_lr` unless the protocol
fixes it.
"""

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import ProxyAnchorLoss
from torch import nn

from benchmark.methods.distances import DotProductToUnit
from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr


def build(*, n_classes: int, embedding_dim: int, margin: float, alpha: float) -> nn.Module:
    """PML's loss; proxies start as normal draws of variance 2 / n_classes, as in the authors' code."""
    loss: nn.Module = ProxyAnchorLoss(
        num_classes=n_classes, embedding_size=embedding_dim, margin=margin, alpha=alpha, distance=DotProductToUnit()
    )
    return loss


ENTRY = MethodEntry(
    name="proxy-anchor",
    family="class",
    build=build,
    space=lambda n_classes: {
        W_LR: own_weights_lr(),
        "margin": FloatDistribution(0.0, 1.0),
        "alpha": FloatDistribution(1.0, 200.0, log=True),
    },
    source="Kim et al., CVPR 2020, https://arxiv.org/abs/2003.13911; the ranges of margin and alpha are a choice of "
    "this project",
    formula="mean over proxies of classes in the batch of log(1 + sum_own e^(-alpha (S - margin))) + mean over all "
    "proxies of log(1 + sum_other e^(alpha (S + margin))); S = <x, p>, ||p|| = 1",
    published={f"ccp:{dataset}": {"margin": 0.1, "alpha": 32.0} for dataset in ("cub200", "cars196", "sop", "inshop")},
)
