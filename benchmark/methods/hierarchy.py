"""Coarse proxies: where they start, which of them is nearest to a proxy, the mean of its members, the loss over them.

The start is scikit-learn's k-means or Gaussian mixture (one variance for each component: most have a few members in
many dimensions). It runs on one thread: several add up in the order in which they finish, and the last bits would
differ between two runs of one job. Means are added up on the CPU for the same reason: a GPU adds in any order.
"""

from typing import Any, Literal

import torch
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from benchmark.methods.proxies import ProxyWeight

Clustering = Literal["kmeans", "gmm"]

_ROWS_AT_ONCE = 1024  # bounds the matrix of distances; a constant, so that it never changes a bit


def cluster_centres(points: Tensor, n_clusters: int, clustering: Clustering, seed: int) -> Tensor:
    """Centres of clusters of (N, D) points, (n_clusters, D) of the same type and device; n_clusters < N."""
    values = points.detach().cpu().double().numpy()
    with threadpool_limits(limits=1):
        if clustering == "gmm":
            mixture = GaussianMixture(n_clusters, covariance_type="spherical", random_state=seed)
            centres = mixture.fit(values).means_
        else:
            centres = KMeans(n_clusters, random_state=seed).fit(values).cluster_centers_
    return torch.from_numpy(centres).to(points)


def nearest(points: Tensor, centres: Tensor) -> Tensor:
    """The nearest centre of each point by squared Euclidean distance, the first of equals.

    Args:
        points: (N, D) float.
        centres: (K, D) float.

    Returns:
        (N,) int64 in 0..K-1.
    """
    lengths = centres.square().sum(dim=1)
    # The point's own length is the same for all centres and left out.
    return torch.cat([(lengths - 2 * some @ centres.T).argmin(dim=1) for some in torch.split(points, _ROWS_AT_ONCE)])


def member_means(points: Tensor, members: Tensor, centres: Tensor) -> Tensor:
    """The mean of each cluster's points, (K, D); a cluster without members keeps its centre.

    Args:
        points: (N, D) float.
        members: (N,) int64, the cluster of each point.
        centres: (K, D) float, the centres so far.
    """
    held, before = members.cpu(), centres.detach().cpu().double()
    sums = torch.zeros_like(before).index_add_(0, held, points.detach().cpu().double())
    sizes = held.bincount(minlength=len(centres))[:, None]
    return torch.where(sizes > 0, sums / sizes.clamp(min=1), before).to(centres)


class CoarseLevel(nn.Module):
    """The base's loss over coarse proxies that no gradient reaches, and the members of each.

    `members[i]` is the coarse proxy of proxy i of the level below; `changes` tells for each update how many moved. The
    coarse proxies are NaN until they have been placed, so that a loss over them cannot be taken for one.
    """

    members: Tensor

    def __init__(self, loss: nn.Module, weight: ProxyWeight, members: Tensor, is_fixed: bool) -> None:
        super().__init__()
        weight.make_buffer(loss)
        self.loss, self._weight, self._is_fixed = loss, weight, is_fixed
        self.proxies.fill_(torch.nan)
        self.register_buffer("members", members)
        self.changes: list[int] = []

    @property
    def proxies(self) -> Tensor:
        """(K, D), as they are in memory."""
        return self._weight.rows(self.loss)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 coarse labels -> scalar."""
        loss: Tensor = self.loss(embeddings, labels)
        return loss

    def place(self, points: Tensor, clustering: Clustering, generator: torch.Generator) -> None:
        """Start from the (n_below, D) points: clusters of them, unless the members are fixed, and their means."""
        if not self._is_fixed:
            seed = int(torch.randint(2**31 - 1, (), generator=generator))
            self.proxies.copy_(cluster_centres(points, len(self.proxies), clustering, seed))
            self.members.copy_(nearest(points, self.proxies))
        self.proxies.copy_(member_means(points, self.members, self.proxies))

    def update(self, points: Tensor) -> None:
        """Each point to its nearest coarse proxy, unless the members are fixed; then the means."""
        members = self.members if self._is_fixed else nearest(points, self.proxies)
        self.changes.append(int((members != self.members).sum()))
        self.members.copy_(members)
        self.proxies.copy_(member_means(points, self.members, self.proxies))

    def summary(self) -> dict[str, Any]:
        """How many coarse proxies, the members, the coarse proxies that have none, and the changes at each update."""
        sizes = self.members.bincount(minlength=len(self.proxies))
        return {
            "n_coarse": len(self.proxies),
            "members": self.members.tolist(),
            "empty": (sizes == 0).nonzero().flatten().tolist(),
            "changes": list(self.changes),
        }

    def get_extra_state(self) -> dict[str, list[int]]:
        """What a state dictionary keeps beside tensors."""
        return {"changes": list(self.changes)}

    def set_extra_state(self, state: dict[str, list[int]]) -> None:
        """Take `get_extra_state`'s."""
        self.changes = list(state["changes"])
