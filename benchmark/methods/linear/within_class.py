"""Within-class whitening (relevant component analysis): what varies inside classes is damped.

M = S_w^-1, S_w the scatter of the images about their class means, shrunk towards a multiple of the identity by the
share `shrinkage`: without it a direction that a few images do not vary in would decide everything.
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
    inverse_root,
    within_class_scatter,
)


def fit(features: Matrix, labels: Labels, random: np.random.Generator, *, shrinkage: float) -> LinearMap:
    """S_w^(-1/2)."""
    del random
    return LinearMap(inverse_root(shrunk_covariance(within_class_scatter(features, labels), shrinkage)), {})


def build(*, n_classes: int, embedding_dim: int, shrinkage: float) -> LinearMetric:
    """The metric."""
    return LinearMetric(partial(fit, shrinkage=shrinkage))


ENTRY = MethodEntry(
    name="within-class",
    family="linear",
    build=build,
    space=lambda n_classes: {"shrinkage": FloatDistribution(1e-4, 1.0, log=True)},
    source="Bar-Hillel et al., JMLR 6, 2005 (relevant component analysis)",
    formula="no loss: M = ((1 - shrinkage) S_w + shrinkage tr(S_w)/D I)^-1, S_w the within-class scatter",
    embeds_with="features",
)
