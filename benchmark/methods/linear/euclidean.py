"""Euclidean: the reduced features as they are, M = I; what every other linear metric is compared with."""

import numpy as np

from benchmark.methods.entry import MethodEntry
from benchmark.methods.linear.base import Labels, LinearMap, LinearMetric, Matrix


def fit(features: Matrix, labels: Labels, random: np.random.Generator) -> LinearMap:
    """The identity."""
    del labels, random
    return LinearMap(np.eye(features.shape[1]), {})


def build(*, n_classes: int, embedding_dim: int) -> LinearMetric:
    """The metric."""
    return LinearMetric(fit)


ENTRY = MethodEntry(
    name="euclidean",
    family="linear",
    build=build,
    space=lambda n_classes: {},
    source="choice of this project",
    formula="no loss: features of the frozen trunk, reduced by PCA",
    embeds_with="features",
)
