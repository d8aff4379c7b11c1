"""Greedy k-center: few of a class's points that lie near all of them, for every class at once.

The covering radius of centres is the largest distance of a point of the class to the nearest of them. Greedy takes the
point farthest from the centres so far, again and again; its radius is at most twice that of the best choice. Distances
are Euclidean, never by way of a matrix product, so that a point lies at distance 0 from itself.
Source: Gonzalez, Theoretical Computer Science 1985; Sener, Savarese, ICLR 2018, https://arxiv.org/abs/1708.00489
"""

import torch
from torch import Tensor

_EXACT = "donot_use_mm_for_euclid_dist"


def greedy_k_center(points: Tensor, k: int, centres: Tensor | None, generator: torch.Generator) -> Tensor:
    """The k points of each class that greedy takes, in its order; of points equally far the first.

    Args:
        points: (C, N, D) float, N points of each class; once all are taken, the first is taken again.
        k: how many to take.
        centres: (C, M, D) that cover already, or None: then the first point is drawn at random.
        generator: a CPU generator for that draw.

    Returns:
        (C, k) int64 indices into the N points.
    """
    n_classes, n_points = points.shape[:2]
    classes = torch.arange(n_classes, device=points.device)
    if centres is None:
        chosen = [torch.randint(n_points, (n_classes,), generator=generator).to(points.device)]
        uncovered = _distances(points, points[classes, chosen[0]][:, None])[:, :, 0]
    else:
        chosen = []
        uncovered = _distances(points, centres).amin(dim=2)
    while len(chosen) < k:
        chosen.append(uncovered.argmax(dim=1))
        nearer = _distances(points, points[classes, chosen[-1]][:, None])[:, :, 0]
        uncovered = torch.minimum(uncovered, nearer)
    return torch.stack(chosen, dim=1)


def covering_radii(points: Tensor, centres: Tensor) -> Tensor:
    """The covering radius of a class's first 1, 2, .. P centres.

    Args:
        points: (C, N, D) float.
        centres: (C, P, D) float.

    Returns:
        (C, P) float, falling along each row; the last column is the covering radius of all centres.
    """
    return _distances(points, centres).cummin(dim=2).values.amax(dim=1)


def spread(centres: Tensor) -> Tensor:
    """The mean distance between two centres of a class, over the classes: (C, P, D) float with P >= 2 -> scalar."""
    n_classes, n_centres = centres.shape[:2]
    return _distances(centres, centres).sum() / (n_classes * n_centres * (n_centres - 1))


def _distances(points: Tensor, others: Tensor) -> Tensor:
    """(C, N, D) and (C, M, D) -> (C, N, M)."""
    return torch.cdist(points, others, compute_mode=_EXACT)
