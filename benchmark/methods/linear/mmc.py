"""MMC: similar images near, while dissimilar ones stay apart in sum.

min over M >= 0 of sum_S |x_i - x_j|^2_M, so that sum_D |x_i - x_j|_M >= 1: the second distances are not squared, or the
best M would have rank one. S: all pairs of one class, through their scatter, shrunk by the share `shrinkage` as in
within_class.py (a direction in which no class varies would be free). D: at most `MOST_PAIRS` pairs of two classes,
drawn from the job's stream, of at most `base.MOST_IMAGES` images.

Both sums are homogeneous in M, so with u = S^(-1/2)(x_i - x_j) it is enough to maximise sum_D |L u| over |L|_F = 1.
That function is convex in L, so stepping to the normalised gradient, L <- L G / |L G|_F with G = sum_D u u' / |L u|,
never lowers it (the generalised power method): there is no step size.
Source: Xing et al., NIPS 2002. Choice: the solver above in place of the paper's projections, for the same problem.
"""

from functools import partial

import numpy as np
from optuna.distributions import FloatDistribution
from sklearn.covariance import shrunk_covariance

from benchmark.methods.entry import MethodEntry
from benchmark.methods.linear.base import (
    Labels,
    LinearMap,
    LinearMetric,
    Matrix,
    differences,
    drawn_pairs,
    inverse_root,
    some_classes,
)

MOST_PAIRS = 20_000
MOST_STEPS = 500
TOLERANCE = 1e-8  # relative gain of a step, below which it was the last


def fit(features: Matrix, labels: Labels, random: np.random.Generator, *, shrinkage: float) -> LinearMap:
    """The map whose sum of dissimilar distances is 1."""
    chosen = some_classes(labels, random)
    features, labels = features[chosen], labels[chosen]
    scatter = shrunk_covariance(similar_scatter(features, labels), shrinkage)
    apart = differences(features, drawn_pairs(labels, MOST_PAIRS, False, random))
    root = inverse_root(scatter)
    matrix, n_steps = widest(apart @ root)
    matrix = matrix @ root
    matrix /= np.linalg.norm(apart @ matrix.T, axis=1).sum()
    objective = float(np.trace(matrix @ scatter @ matrix.T))
    return LinearMap(matrix, {"steps": n_steps, "pairs": len(apart), "objective": objective})


def similar_scatter(features: Matrix, labels: Labels) -> Matrix:
    """(D, D): the sum over all pairs i < j of one class of (x_i - x_j)(x_i - x_j)'."""
    total = np.zeros((features.shape[1], features.shape[1]))
    for label in np.unique(labels):
        members = features[labels == label]
        centred = members - members.mean(axis=0)
        total += len(members) * centred.T @ centred
    return total


def widest(apart: Matrix) -> tuple[Matrix, int]:
    """The L (D, D) of Frobenius norm 1 that maximises the sum of |L u| over the rows u of (P, D), and its steps."""
    matrix = np.eye(apart.shape[1]) / np.sqrt(apart.shape[1])
    before = 0.0
    for step in range(1, MOST_STEPS + 1):
        lengths = np.linalg.norm(apart @ matrix.T, axis=1)
        reached = float(lengths.sum())
        if reached - before <= TOLERANCE * reached:
            return matrix, step
        before = reached
        weights = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        matrix = matrix @ (apart.T * weights @ apart)
        matrix /= np.linalg.norm(matrix)
    return matrix, MOST_STEPS


def build(*, n_classes: int, embedding_dim: int, shrinkage: float) -> LinearMetric:
    """The metric."""
    return LinearMetric(partial(fit, shrinkage=shrinkage))


ENTRY = MethodEntry(
    name="mmc",
    family="linear",
    build=build,
    space=lambda n_classes: {"shrinkage": FloatDistribution(1e-4, 1.0, log=True)},
    source="Xing et al., NIPS 2002",
    formula="min over M of sum of |x_i - x_j|^2_M over one class, so that sum of |x_i - x_j|_M over two classes >= 1",
    embeds_with="features",
)
