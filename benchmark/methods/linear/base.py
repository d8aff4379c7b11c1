"""What the linear metrics share: a map fitted once, in closed form or by a solver, where a loss would take steps.

Fitted on the training images of a fold, on features of the protocol's trunk as its weight file has it. Under a protocol
whose trunk has random weights ("mini") there is nothing to freeze, and the features are the input tensor, flattened.
They are reduced by PCA to the protocol's width (to fewer directions where images or features have fewer; the embedding
is then filled up with zeros), divided by the root mean square of their length, so that a hyper-parameter means the same
on every trunk, and mapped. The embedding is normalised as the protocol says and evaluated like any other.

What a method computes per pair of images it does for at most `MOST_IMAGES`: of a larger fold, whole classes are drawn
(seeded by the job) until that number is reached; SOP has seven times as many. PCA always sees all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from benchmark.methods.baselines import NoLoss, exact_solver

MOST_IMAGES = 6_000
NEGLIGIBLE = 1e-10  # share of the largest variance below which a direction is rounding

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A fitted map (d, D), d <= D: a feature x is embedded as `matrix @ x`; the metric is M = matrix' matrix.

    `summary` says of the fit what a record should keep, in JSON values.
    """

    matrix: Matrix
    summary: dict[str, Any]


Fit = Callable[[Matrix, Labels, np.random.Generator], LinearMap]


class LinearMetric(NoLoss):
    """A linear method with its hyper-parameters: features (N, D), labels (N,) and a random stream -> its map."""

    def __init__(self, fit: Fit) -> None:
        super().__init__()
        self.fit = fit


@dataclass(frozen=True, eq=False)
class Reduction:
    """Centring, PCA and one scale for all: (N, F) features -> (N, D) float64 of root mean square length 1."""

    mean: Matrix
    components: Matrix  # (D, F)
    scale: float

    @classmethod
    def fitted(cls, features: NDArray[np.float32], dim: int) -> Self:
        """By the (N, F) features of the training images, to at most `dim` directions of their variance."""
        n_images, width = features.shape
        solver = exact_solver(n_images, width)
        pca = PCA(min(dim, n_images - 1, width), svd_solver=solver).fit(features.astype(np.float64))
        kept = pca.explained_variance_ > NEGLIGIBLE * pca.explained_variance_[0]
        total = pca.explained_variance_[kept].sum() * (n_images - 1) / n_images
        return cls(pca.mean_, pca.components_[kept], float(total**-0.5))

    def __call__(self, features: NDArray[np.float32]) -> Matrix:
        """The reduced features of any images."""
        reduced: Matrix = (features.astype(np.float64) - self.mean) @ self.components.T * self.scale
        return reduced


def some_classes(labels: Labels, random: np.random.Generator, most: int = MOST_IMAGES) -> NDArray[np.bool_]:
    """(N,) bool: all images where there are at most `most`, else those of random classes until there would be more."""
    if len(labels) <= most:
        return np.ones(len(labels), bool)
    classes, sizes = np.unique(labels, return_counts=True)
    order = random.permutation(len(classes))
    return np.isin(labels, classes[order[np.cumsum(sizes[order]) <= most]])


def within_class_scatter(features: Matrix, labels: Labels) -> Matrix:
    """(D, D): the mean over the images of (x - m)(x - m)', m the mean of the image's class."""
    _, place, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    means = np.zeros((len(sizes), features.shape[1]))
    np.add.at(means, place, features)
    centred = features - (means / sizes[:, None])[place]
    scatter: Matrix = centred.T @ centred / len(features)
    return scatter


def inverse_root(scatter: Matrix) -> Matrix:
    """The symmetric S^(-1/2) of a positive definite (D, D) matrix."""
    values, vectors = np.linalg.eigh(scatter)
    root: Matrix = vectors / np.sqrt(values) @ vectors.T
    return root


def differences(features: Matrix, pairs: NDArray[np.int64]) -> Matrix:
    """(P, D): x_i - x_j of each of the (P, 2) pairs."""
    result: Matrix = features[pairs[:, 0]] - features[pairs[:, 1]]
    return result


def drawn_pairs(labels: Labels, n_pairs: int, same_class: bool, random: np.random.Generator) -> NDArray[np.int64]:
    """(P, 2) image pairs i < j of one class, or of two: `n_pairs` distinct ones, or all where there are fewer."""
    fitting = np.flatnonzero(np.triu((labels[:, None] == labels) == same_class, 1))
    if len(fitting) > n_pairs:
        fitting = fitting[np.sort(random.choice(len(fitting), n_pairs, replace=False))]
    return np.stack(np.divmod(fitting, len(labels)), axis=1)
