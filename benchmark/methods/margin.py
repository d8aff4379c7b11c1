"""Margin loss with a learned boundary: one for all classes (`margin`), or one a class (`margin-class`).

    sum over triplets of [d(a, p) - beta + margin]+ + [beta - d(a, n) + margin]+,    d = ||x_i - x_j||, not squared
    divided by the number of non-zero hinges among both terms

beta is the boundary, of the anchor's class in `margin-class`; it starts at `init_beta`, learns at `w_lr` and has no
weight decay. PML counts a pair once for every triplet that holds it, where the 2017 paper counts pairs; the paper
also draws negatives by distance, which the reality check did not. PML's MarginLoss is the reference, with a penalty on
beta (nu) of 0. With `ref_emb` and `ref_labels` positives and negatives are these. A pair is in as many triplets as
its anchor has pairs of the other kind, so the sums run over pairs.
"""

from collections.abc import Callable

import torch
from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import W_LR, MethodEntry, Space, own_weights_lr
from benchmark.methods.pairs import pair_masks


class Margin(nn.Module):
    """The loss; `beta` has one number, or one a class."""

    def __init__(self, margin: float, init_beta: float, n_betas: int = 1) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.full((n_betas,), init_beta))
        self.margin = margin
        self.distance = euclidean()

    def forward(
        self, embeddings: Tensor, labels: Tensor, *, ref_emb: Tensor | None = None, ref_labels: Tensor | None = None
    ) -> Tensor:
        """(B, D) float and (B,) int64, and with references (R, D) and (R,) -> scalar."""
        positive, negative = pair_masks(labels, ref_labels)
        too_far, too_near = self.hinges(self.distance(embeddings, ref_emb), labels)
        n_positives, n_negatives = (mask.sum(dim=1, keepdim=True) for mask in (positive, negative))
        return mean_by_count(too_far, positive * n_negatives, too_near, negative * n_positives)

    def hinges(self, distances: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """(B, R) distances and (B,) int64 -> two (B, R): what a positive pair costs, and what a negative one."""
        excess = distances - self.boundaries(labels)
        return (excess + self.margin).relu(), (self.margin - excess).relu()

    def boundaries(self, labels: Tensor) -> Tensor:
        """(B,) int64 -> the anchors' betas, (B, 1) or (1,)."""
        return self.beta if len(self.beta) == 1 else self.beta[labels][:, None]


def mean_by_count(too_far: Tensor, n_far: Tensor, too_near: Tensor, n_near: Tensor) -> Tensor:
    """The mean over the hinges above 0, each as often as its count says; 0 where there is none."""
    n = (n_far * (too_far > 0)).sum() + (n_near * (too_near > 0)).sum()
    return ((n_far * too_far).sum() + (n_near * too_near).sum()) / n.clamp_min(1)


def _builder(*, per_class: bool) -> Callable[..., nn.Module]:
    def build(*, n_classes: int, embedding_dim: int, margin: float, init_beta: float) -> nn.Module:
        return Margin(margin, init_beta, n_classes if per_class else 1)

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
