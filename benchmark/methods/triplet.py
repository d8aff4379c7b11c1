"""Triplet loss over all triplets of the batch, as the reality check ran it.

    mean over non-zero of [d(a, p) - d(a, n) + margin]+,    d = ||x_i - x_j||, not squared

No mining: every (anchor, positive, negative) of the batch is a triplet, and those with a zero hinge are left out of the
mean. FaceNet (2015) squares the distances and mines semi-hard negatives; that is another loss. PML's TripletMarginLoss
is the reference. With `ref_emb` and `ref_labels` positives and negatives are these.

No triplet is ever formed: B x R^2 of them would be 37 billion for a batch of 32 and the proxies that CCP published for
SOP. Sorting tells how many violated triplets each pair is in, and the sum of hinges is linear in the distances
with these counts for factors.
"""

import torch
from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.distances import euclidean
from benchmark.methods.entry import MethodEntry
from benchmark.methods.pairs import PairLoss


class Triplet(PairLoss):
    """The mean over violated triplets."""

    def __init__(self, margin: float) -> None:
        super().__init__(euclidean())
        self.margin = margin

    def of_pairs(self, distances: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """As the module says."""
        return mean_hinge(distances, self.margin, n_farther(distances, self.margin, positive, negative))


@torch.no_grad()
def n_farther(
    distances: Tensor, margin: float, positive: Tensor, negative: Tensor, *, or_equal: bool = False
) -> tuple[Tensor, Tensor]:
    """In how many triplets with d(a, p) + margin > d(a, n), or >= if `or_equal`, each pair is.

    Args:
        distances: (B, R); a row's pairs have one anchor.
        margin: in the units of the distances.
        positive: (B, R) boolean, and `negative` likewise.
        or_equal: count triplets with both sides equal, too.

    Returns:
        Two (B, R) int64: for each positive pair the negatives that make a triplet with it, for each negative pair the
        positives; 0 elsewhere.
    """
    reach = distances + margin
    near = distances.masked_fill(~negative, torch.inf).sort(dim=1).values
    far = reach.masked_fill(~positive, -torch.inf).sort(dim=1).values
    of_positive = torch.searchsorted(near, reach, right=or_equal)
    of_negative = distances.shape[1] - torch.searchsorted(far, distances.contiguous(), right=not or_equal)
    return of_positive * positive, of_negative * negative


def mean_hinge(distances: Tensor, margin: float, n_triplets: tuple[Tensor, Tensor]) -> Tensor:
    """The mean of d(a, p) - d(a, n) + margin over the triplets that are counted by pair; 0 where there is none."""
    of_positive, of_negative = n_triplets
    n = of_positive.sum().to(distances.dtype)
    centred = distances - distances.detach().mean(dim=1, keepdim=True)  # a row's factors sum to 0: this rounds less
    return (((of_positive - of_negative) * centred).sum() + n * margin) / n.clamp_min(1)


def build(*, n_classes: int, embedding_dim: int, margin: float) -> nn.Module:
    """A module without weights."""
    return Triplet(margin)


ENTRY = MethodEntry(
    name="triplet",
    family="pair",
    build=build,
    space=lambda n_classes: {"margin": FloatDistribution(-0.2, 2.0)},
    source="Weinberger, Saul, JMLR 2009; Musgrave et al., ECCV 2020, https://arxiv.org/abs/2003.08505",
    formula="mean over non-zero [d(a, p) - d(a, n) + margin]+ of all triplets; d = ||x_i - x_j||, not squared",
    published={
        "mlrc:cub200": {"margin": 0.0961},
        "mlrc:cars196": {"margin": 0.119},
        "mlrc:sop": {"margin": 0.0451},
        "mlrc:cub200-batch256": {"margin": 0.1368},
        "ccp:cub200": {"margin": 0.0961},
        "ccp:cars196": {"margin": 0.119},
        "ccp:sop": {"margin": 0.0451},
        "ccp:inshop": {"margin": 0.0451},
    },
)
