"""Proxy anchor: each learned proxy is an anchor that pulls the images of its class and pushes all others, hardest most.

    mean over the proxies of classes in the batch of  log(1 + sum over their images of e^(-alpha (S - margin)))
  + mean over all proxies of                          log(1 + sum over other images of e^( alpha (S + margin)))

S = <x_i, p / ||p||>: proxies have unit length in the formula, not in memory. PML's ProxyAnchorLoss is the reference and
agrees with the paper, which writes delta for `margin`. Its proxies learn at 100 times the network's rate, here at
`w_lr` unless the protocol fixes it.
"""

import torch
from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.distances import DotProductToUnit
from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr
from benchmark.methods.pairs import log_one_plus_sum_exp


class ProxyAnchor(nn.Module):
    """The loss with its `proxies`, (n_classes, embedding_dim)."""

    def __init__(self, n_classes: int, embedding_dim: int, margin: float, alpha: float) -> None:
        super().__init__()
        self.proxies = nn.Parameter(torch.empty(n_classes, embedding_dim))
        nn.init.kaiming_normal_(self.proxies, mode="fan_out")
        self.margin, self.alpha = margin, alpha
        self.distance = DotProductToUnit()

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 -> scalar."""
        own = labels[:, None] == torch.arange(len(self.proxies), device=labels.device)
        similarities = self.distance(embeddings, self.proxies)
        attraction = log_one_plus_sum_exp(-self.alpha * (similarities - self.margin), own, dim=0)
        repulsion = log_one_plus_sum_exp(self.alpha * (similarities + self.margin), ~own, dim=0)
        return attraction.sum() / own.any(dim=0).sum() + repulsion.mean()


def build(*, n_classes: int, embedding_dim: int, margin: float, alpha: float) -> nn.Module:
    """Proxies start as normal draws of variance 2 / n_classes, as in PML and the authors' code."""
    return ProxyAnchor(n_classes, embedding_dim, margin, alpha)


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
