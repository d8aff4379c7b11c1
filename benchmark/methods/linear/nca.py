"""Neighbourhood components analysis: scikit-learn's, which maximises the soft share of neighbours of the own class.

Sum over i of p_i, p_i = sum over j of i's class of softmax_j(-|L x_i - L x_j|^2), j != i; L-BFGS on L, at most
`MOST_STEPS` steps. The start is `scale` times the identity: it decides how many neighbours the softmax sees at first,
and it is all that is searched. Larger folds than `base.MOST_IMAGES` are cut: its cost is quadratic in the images.
"""

import warnings
from functools import partial

import numpy as np
from optuna.distributions import FloatDistribution
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from benchmark.methods.entry import MethodEntry
from benchmark.methods.linear.base import Labels, LinearMap, LinearMetric, Matrix, some_classes

MOST_STEPS = 50  # scikit-learn's default


def fit(features: Matrix, labels: Labels, random: np.random.Generator, *, scale: float) -> LinearMap:
    """The learnt L (D, D)."""
    chosen = some_classes(labels, random)
    analysis = NeighborhoodComponentsAnalysis(init=scale * np.eye(features.shape[1]), max_iter=MOST_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is in the summary
        analysis.fit(features[chosen], labels[chosen])
    return LinearMap(analysis.components_, {"steps": int(analysis.n_iter_), "images": int(chosen.sum())})


def build(*, n_classes: int, embedding_dim: int, scale: float) -> LinearMetric:
    """The metric."""
    return LinearMetric(partial(fit, scale=scale))


ENTRY = MethodEntry(
    name="nca",
    family="linear",
    build=build,
    space=lambda n_classes: {"scale": FloatDistribution(0.3, 30.0, log=True)},
    source="Goldberger et al., NIPS 2004; scikit-learn's NeighborhoodComponentsAnalysis",
    formula="max sum_i sum_(j of i's class) softmax_j(-|L x_i - L x_j|^2), from L = scale I",
    embeds_with="features",
)
