"""PCA whitening: every direction of the reduced features is divided by its standard deviation. It sees no labels."""

import numpy as np

from benchmark.methods.entry import MethodEntry
from benchmark.methods.linear.base import Labels, LinearMap, LinearMetric, Matrix, inverse_root


def fit(features: Matrix, labels: Labels, random: np.random.Generator) -> LinearMap:
    """S^(-1/2), S the (biased) covariance of the training features."""
    del labels, random
    centred = features - features.mean(axis=0)
    return LinearMap(inverse_root(centred.T @ centred / len(centred)), {})


def build(*, n_classes: int, embedding_dim: int) -> LinearMetric:
    """The metric."""
    return LinearMetric(fit)


ENTRY = MethodEntry(
    name="whitened",
    family="linear",
    build=build,
    space=lambda n_classes: {},
    source="principal component analysis; no labels",
    formula="no loss: M = S^-1, S the covariance of the reduced features",
    embeds_with="features",
)
