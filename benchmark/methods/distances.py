"""Distances that leave the embeddings as the protocol made them.

pytorch-metric-learning (PML) normalises embeddings inside most of its losses. Here the protocol has done that already
(unit length, or at most unit length), so a loss must compare what it is given. Own weights (proxies, class weights,
centres) have unit length by the formulas of their losses, and only they are normalised here. On unit embeddings values
equal PML's own; the gradient lacks PML's projection, which the protocol's normalisation applies on the way back.
"""

from pytorch_metric_learning.distances import DotProductSimilarity, LpDistance
from torch import Tensor
from torch.nn.functional import normalize


def euclidean(power: int = 1) -> LpDistance:
    """||a - b||^power between embeddings."""
    return LpDistance(normalize_embeddings=False, p=2, power=power)


def dot_product() -> DotProductSimilarity:
    """<a, b> between embeddings: the cosine when they have unit length."""
    return DotProductSimilarity(normalize_embeddings=False)


class EuclideanToUnit(LpDistance):  # type: ignore[misc]  # PML carries no types
    """||a - b / ||b|| ||^power from embeddings to own weights."""

    def __init__(self, power: int) -> None:
        super().__init__(normalize_embeddings=False, p=2, power=power)

    def compute_mat(self, embeddings: Tensor, weights: Tensor) -> Tensor:
        """(B, D) embeddings and (C, D) weights -> (B, C); the base class applies `power`."""
        distances: Tensor = super().compute_mat(embeddings, normalize(weights, dim=1))
        return distances


class DotProductToUnit(DotProductSimilarity):  # type: ignore[misc]  # PML carries no types
    """<a, b / ||b||> from embeddings to own weights."""

    def __init__(self) -> None:
        super().__init__(normalize_embeddings=False)

    def compute_mat(self, embeddings: Tensor, weights: Tensor) -> Tensor:
        """(B, D) embeddings and (C, D) weights -> (B, C)."""
        similarities: Tensor = super().compute_mat(embeddings, normalize(weights, dim=1))
        return similarities
