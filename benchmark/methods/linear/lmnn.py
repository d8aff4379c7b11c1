"""LMNN: each image's k target neighbours are pulled in, images of other classes that come as near are pushed out.

(1 - mu) sum_(i, j in T_i) d_ij + mu sum_(i, j in T_i, l of another class) [1 + d_ij - d_il]+, over the number of
images; d_ij = |L x_i - L x_j|^2, mu = 0.5. T_i: the k nearest images of i's class before learning (all others where the
class has fewer). L-BFGS on L from the identity, at most `MOST_STEPS` steps; M = L'L is positive semidefinite.
Exact over all triplets; folds larger than `base.MOST_IMAGES` are cut, as the cost is quadratic in the images.
Source: Weinberger and Saul, JMLR 10, 2009. Choice: the map L is learnt, not M (the problem is then not convex).
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import IntDistribution
from scipy.optimize import minimize
from scipy.sparse import csr_array

from benchmark.methods.entry import MethodEntry
from benchmark.methods.linear.base import Labels, LinearMap, LinearMetric, Matrix, some_classes

MU = 0.5
MOST_STEPS = 50
CHUNK = 256  # images whose distances to all others are held at once


def fit(features: Matrix, labels: Labels, random: np.random.Generator, *, n_neighbours: int) -> LinearMap:
    """The learnt L (D, D)."""
    chosen = some_classes(labels, random)
    features, labels = features[chosen], labels[chosen]
    dim = features.shape[1]
    targets = target_neighbours(features, labels, n_neighbours)

    def problem(flat: Matrix) -> tuple[float, Matrix]:
        value, gradient = objective(flat.reshape(dim, dim), features, labels, targets)
        return value, gradient.ravel()

    start = np.eye(dim).ravel()
    found = minimize(problem, start, jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
    summary = {"steps": int(found.nit), "before": problem(start)[0], "after": float(found.fun), "images": len(labels)}
    return LinearMap(found.x.reshape(dim, dim), summary)


def target_neighbours(features: Matrix, labels: Labels, n_neighbours: int) -> NDArray[np.int64]:
    """(N, k) the nearest images of each image's class, nearest first; -1 where the class has no more."""
    targets = np.full((len(labels), n_neighbours), -1)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        distances = squared_distances(features[members], features[members])
        np.fill_diagonal(distances, np.inf)
        nearest = np.argsort(distances, axis=1, kind="stable")[:, : min(n_neighbours, len(members) - 1)]
        targets[members, : nearest.shape[1]] = members[nearest]
    return targets


def squared_distances(left: Matrix, right: Matrix) -> Matrix:
    """(A, D), (B, D) -> (A, B)."""
    squared: Matrix = np.square(left).sum(axis=1)[:, None] + np.square(right).sum(axis=1) - 2 * left @ right.T
    return squared


def objective(matrix: Matrix, features: Matrix, labels: Labels, targets: NDArray[np.int64]) -> tuple[float, Matrix]:
    """The loss of the map (D, D) and its gradient.

    A triplet within its margin weighs mu on its target pair and -mu on its impostor pair, so the gradient is 2 L C with
    C the sum over weighted pairs of w (x_i - x_j)(x_i - x_j)'.
    """
    mapped = features @ matrix.T
    value, degrees, mixed = 0.0, np.zeros(len(features)), np.zeros_like(matrix)
    for start in range(0, len(features), CHUNK):
        rows = slice(start, start + CHUNK)
        part, weights = _weighted_pairs(mapped, labels, targets[rows], rows)
        value += part
        degrees[rows] += weights.sum(axis=1)
        degrees += weights.sum(axis=0)
        mixed += features[rows].T @ (weights @ features)
    spread = features.T * degrees @ features - mixed - mixed.T
    return value / len(features), 2 * matrix @ spread / len(features)


def _weighted_pairs(mapped: Matrix, labels: Labels, targets: NDArray[np.int64], rows: slice) -> tuple[float, csr_array]:
    """The loss of some images and the weight of each of their pairs, (rows, N)."""
    distances = squared_distances(mapped[rows], mapped)
    exists = targets >= 0
    own = np.where(exists, np.take_along_axis(distances, targets, axis=1), -np.inf)  # of no target: never in reach
    reach = 1 + own.max(axis=1, keepdims=True)
    image, other = np.nonzero((distances < reach) & (labels[rows, None] != labels))
    hinges = 1 + own[image] - distances[image, other][:, None]  # (impostor pairs, k)
    within = hinges > 0
    value = (1 - MU) * own[exists].sum() + MU * hinges[within].sum()
    pulls = np.zeros_like(own)
    np.add.at(pulls, image, MU * within)
    pulled, place = np.nonzero(exists)
    weights = np.concatenate([(pulls + 1 - MU)[exists], -MU * within.sum(axis=1)])
    at = np.concatenate([pulled, image]), np.concatenate([targets[pulled, place], other])
    return float(value), csr_array((weights, at), shape=distances.shape)


def build(*, n_classes: int, embedding_dim: int, n_neighbours: int) -> LinearMetric:
    """The metric."""
    return LinearMetric(partial(fit, n_neighbours=n_neighbours))


ENTRY = MethodEntry(
    name="lmnn",
    family="linear",
    build=build,
    space=lambda n_classes: {"n_neighbours": IntDistribution(1, 10)},
    source="Weinberger and Saul, JMLR 10, 2009",
    formula="(d_ij + sum_l [1 + d_ij - d_il]+) / 2 over images i, target neighbours j, images l of other classes",
    embeds_with="features",
)
