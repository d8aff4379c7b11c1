"""Contrastive loss on the signal-to-noise ratio of two embeddings.

    mean over non-zero of [d(i, j) - pos_margin]+ for pairs of one class
  + mean over non-zero of [neg_margin - d(i, j)]+ for pairs of two classes
  + regularizer_weight x mean over the batch of |sum of the coordinates of x_i|,    d(i, j) = var(x_i - x_j) / var(x_i)

The variances run over the coordinates of one embedding, so d is not symmetric. The last term keeps embeddings at zero
mean, where d is a ratio of squared lengths. PML's SignalToNoiseRatioContrastiveLoss with its ZeroMeanRegularizer is the
reference, and agrees with the paper up to the means over non-zero hinges; its distance holds B x B x D differences,
this one none. With `ref_emb` and `ref_labels` the batch is compared with these instead of with itself.
"""

import torch
from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.contrastive import Contrastive
from benchmark.methods.entry import MethodEntry


class NoiseToSignal(nn.Module):
    """var(a - b) / var(a): the ratio of the squared lengths of a - b and a, once their means are taken away."""

    def forward(self, embeddings: Tensor, ref_emb: Tensor | None = None) -> Tensor:
        """(B, D), and with references (R, D) -> (B, R)."""
        signals = embeddings - embeddings.mean(dim=1, keepdim=True)
        others = signals if ref_emb is None else ref_emb - ref_emb.mean(dim=1, keepdim=True)
        # Not by a matrix product: the distance of an image to its copy must be exactly 0, or its hinge would count.
        noise = torch.cdist(signals, others, compute_mode="donot_use_mm_for_euclid_dist").square()
        return noise / signals.square().sum(dim=1, keepdim=True)


class SignalToNoise(Contrastive):
    """`Contrastive` on the ratio, and the term of the mean."""

    def __init__(self, pos_margin: float, neg_margin: float, regularizer_weight: float) -> None:
        super().__init__(pos_margin, neg_margin, NoiseToSignal())
        self.regularizer_weight = regularizer_weight

    def forward(
        self, embeddings: Tensor, labels: Tensor, *, ref_emb: Tensor | None = None, ref_labels: Tensor | None = None
    ) -> Tensor:
        """(B, D) float and (B,) int64, and with references (R, D) and (R,) -> scalar."""
        contrastive = super().forward(embeddings, labels, ref_emb=ref_emb, ref_labels=ref_labels)
        return contrastive + self.regularizer_weight * embeddings.sum(dim=1).abs().mean()


def build(
    *, n_classes: int, embedding_dim: int, pos_margin: float, neg_margin: float, regularizer_weight: float
) -> nn.Module:
    """A module without weights."""
    return SignalToNoise(pos_margin, neg_margin, regularizer_weight)


ENTRY = MethodEntry(
    name="snr",
    family="pair",
    build=build,
    space=lambda n_classes: {
        "pos_margin": FloatDistribution(0.0, 2.0),
        "neg_margin": FloatDistribution(0.0, 2.0),
        "regularizer_weight": FloatDistribution(0.0, 1.0),
    },
    source="Yuan et al., CVPR 2019, https://arxiv.org/abs/1904.02616",
    formula="mean over non-zero [d - pos_margin]+ of positive pairs + mean over non-zero [neg_margin - d]+ of negative "
    "pairs + regularizer_weight mean |sum of x|; d = var(x_i - x_j) / var(x_i)",
    published={
        "mlrc:cub200": {"pos_margin": 0.3264, "neg_margin": 0.8446, "regularizer_weight": 0.1382},
        "mlrc:cars196": {"pos_margin": 0.167, "neg_margin": 0.9337, "regularizer_weight": 0.0},
        "mlrc:sop": {"pos_margin": 0.3759, "neg_margin": 1.0831, "regularizer_weight": 0.0},
        "mlrc:cub200-batch256": {"pos_margin": 0.1182, "neg_margin": 0.6822, "regularizer_weight": 0.4744},
    },
)
