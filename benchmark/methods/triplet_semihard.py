"""Triplet loss over the semi-hard triplets of the batch, on squared distances (FaceNet).

    mean over triplets with d^2(a, p) < d^2(a, n) < d^2(a, p) + margin  of  d^2(a, p) - d^2(a, n) + margin

A semi-hard negative is farther than the positive, but not by the margin: the hardest negatives, which drew FaceNet's
training to a collapse, are left out. Every semi-hard triplet counts, and none with a loss of exactly 0. FaceNet takes
one semi-hard negative for each positive pair out of batches of thousands, and Google's later code takes the nearest
of them and, where there is none, the farthest negative. A batch without a semi-hard triplet has the loss 0.
PML's TripletMarginLoss behind its TripletMarginMiner is the reference. With `ref_emb` and `ref_labels` positives and
negatives are these.
"""

from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry
from benchmark.methods.pairs import PairLoss
from benchmark.methods.triplet import mean_hinge, n_farther


class SemiHardTriplet(PairLoss):
    """The mean over semi-hard triplets: the violated ones without those whose negative is as near as the positive."""

    def __init__(self, margin: float) -> None:
        super().__init__(euclidean(power=2))
        self.margin = margin

    def of_pairs(self, distances: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """As the module says; the distances are squared."""
        violated = n_farther(distances, self.margin, positive, negative)
        hardest = n_farther(distances, 0.0, positive, negative, or_equal=True)
        n_semi_hard = [(all_of_pair - hard).clamp_min(0) for all_of_pair, hard in zip(violated, hardest, strict=True)]
        return mean_hinge(distances, self.margin, (n_semi_hard[0], n_semi_hard[1]))


def build(*, n_classes: int, embedding_dim: int, margin: float) -> nn.Module:
    """A module without weights."""
    return SemiHardTriplet(margin)


ENTRY = MethodEntry(
    name="triplet-semihard",
    family="pair",
    build=build,
    space=lambda n_classes: {"margin": FloatDistribution(0.01, 2.0)},
    source="Schroff, Kalenichenko, Philbin, CVPR 2015, https://arxiv.org/abs/1503.03832; the range of margin is a "
    "choice of this project",
    formula="mean over triplets with d2(a, p) < d2(a, n) < d2(a, p) + margin of d2(a, p) - d2(a, n) + margin; "
    "d2 = ||x_i - x_j||^2",
)
