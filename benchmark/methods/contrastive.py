"""Contrastive loss over all pairs of the batch, as the reality check ran it.

    mean over non-zero of [d(i, j) - pos_margin]+ for pairs of one class
  + mean over non-zero of [neg_margin - d(i, j)]+ for pairs of two classes,    d = ||x_i - x_j||, not squared

Each side is averaged over its own pairs with a positive hinge, so few violations weigh as much as many. A pair counts
in both orders. The 2006 paper squares both terms, halves them, has no positive margin and averages over all pairs.
PML's ContrastiveLoss is the reference. With `ref_emb` and `ref_labels` the batch is compared with these instead of with
itself.
"""

from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry
from benchmark.methods.pairs import PairLoss, mean_over_positive


class Contrastive(PairLoss):
    """The two hinges on one distance; `snr` has another."""

    def __init__(self, pos_margin: float, neg_margin: float, distance: nn.Module) -> None:
        super().__init__(distance)
        self.pos_margin = pos_margin
        self.neg_margin = neg_margin

    def of_pairs(self, distances: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """As the module says."""
        too_far = (distances - self.pos_margin).relu() * positive
        too_near = (self.neg_margin - distances).relu() * negative
        return mean_over_positive(too_far) + mean_over_positive(too_near)


def build(*, n_classes: int, embedding_dim: int, pos_margin: float, neg_margin: float) -> nn.Module:
    """A module without weights."""
    return Contrastive(pos_margin, neg_margin, euclidean())


ENTRY = MethodEntry(
    name="contrastive",
    family="pair",
    build=build,
    space=lambda n_classes: {
        "pos_margin": FloatDistribution(-0.2, 2.0),
        "neg_margin": FloatDistribution(-0.2, 2.0),
    },
    source="Hadsell, Chopra, LeCun, CVPR 2006; Musgrave et al., ECCV 2020, https://arxiv.org/abs/2003.08505",
    formula="mean over non-zero [d - pos_margin]+ of positive pairs + mean over non-zero [neg_margin - d]+ of negative "
    "pairs; d = ||x_i - x_j||, not squared",
    published={
        "mlrc:cub200": {"pos_margin": -0.2, "neg_margin": 0.3841},
        "mlrc:cars196": {"pos_margin": 0.2652, "neg_margin": 0.5409},
        "mlrc:sop": {"pos_margin": 0.285, "neg_margin": 0.513},
        "mlrc:cub200-batch256": {"pos_margin": 0.2227, "neg_margin": 0.7694},
        "ccp:cub200": {"pos_margin": 0.0, "neg_margin": 0.3841},
        "ccp:cars196": {"pos_margin": 0.2652, "neg_margin": 0.5409},
        "ccp:sop": {"pos_margin": 0.2858, "neg_margin": 0.513},
        "ccp:inshop": {"pos_margin": 0.2858, "neg_margin": 0.513},
    },
)
