"""ITML: the metric nearest to the Euclidean one, in LogDet divergence, that keeps drawn pairs apart or together.

min over M > 0 and xi of D(M, I) + gamma D(diag xi, diag xi_0), D the LogDet divergence, so that |x_i - x_j|^2_M is
<= xi_ij for pairs of one class and >= xi_ij for pairs of two; xi_0 is the 5th percentile of squared distances between
drawn images for the former and the 95th for the latter. Bregman projections, one constraint after the other; with
p = |v|^2_M, v = x_i - x_j and d = 1 (one class) or -1 (two):
  a = min(l, d gamma / (gamma + 1) (1/p - 1/xi)),  l <- l - a,  xi <- gamma xi / (gamma + d a xi),
  M <- M + d a / (1 - d a p) M v v' M.
The paper prints d/2 (1/p - gamma/xi), which is this at gamma = 1; this is the exact projection for every gamma.

Per fold: `n_constraints` pairs, half of each kind, drawn from the job's stream among at most `base.MOST_IMAGES` images.
Source: Davis et al., ICML 2007.
"""

from functools import partial

import numpy as np
from optuna.distributions import FloatDistribution, IntDistribution
from scipy.linalg.blas import dsymv, dsyr

from benchmark.methods.entry import MethodEntry
from benchmark.methods.linear.base import (
    Labels,
    LinearMap,
    LinearMetric,
    Matrix,
    differences,
    drawn_pairs,
    some_classes,
)

MOST_SWEEPS = 50  # over all constraints
TOLERANCE = 1e-3  # relative change of the multipliers in a sweep, below which it was the last
PERCENTILES = (5, 95)


def fit(
    features: Matrix, labels: Labels, random: np.random.Generator, *, gamma: float, n_constraints: int
) -> LinearMap:
    """The map L with L'L = M; the summary tells how many constraints needed slack, and the most of it."""
    chosen = some_classes(labels, random)
    features, labels = features[chosen], labels[chosen]
    similar, dissimilar = (
        differences(features, drawn_pairs(labels, n_constraints // 2, same_class, random))
        for same_class in (True, False)
    )
    near, far = np.percentile(_some_squared_distances(features, random), PERCENTILES)
    apart = np.concatenate([similar, dissimilar])
    signs = np.repeat([1.0, -1.0], [len(similar), len(dissimilar)])
    bounds = np.where(signs > 0, near, far)
    used = np.square(apart).sum(axis=1) > 0  # two copies of one image can be neither nearer nor farther
    apart, signs, bounds = apart[used], signs[used], bounds[used]
    order = random.permutation(len(apart))
    metric, slack_bounds, n_sweeps = projected(apart[order], signs[order], bounds[order], gamma)
    slack = signs[order] * (slack_bounds / bounds[order] - 1)  # how much of the bound was given up
    summary = {
        "constraints": len(apart),
        "sweeps": n_sweeps,
        "with_slack": int((slack > 0).sum()),
        "most_slack": float(slack.max(initial=0.0)),
        "log_det_divergence": float(np.trace(metric) - np.linalg.slogdet(metric)[1] - len(metric)),
    }
    return LinearMap(np.asarray(np.linalg.cholesky(metric).T, np.float64), summary)


def projected(apart: Matrix, signs: Matrix, bounds: Matrix, gamma: float) -> tuple[Matrix, Matrix, int]:
    """M (D, D), the bounds after their slack (P,), and the sweeps that were needed.

    Args:
        apart: (P, D) differences; none is zero.
        signs: (P,) 1 for "at most its bound", -1 for "at least".
        bounds: (P,) positive squared distances.
        gamma: how dear slack is; at infinity there is none.
    """
    metric = np.eye(apart.shape[1], order="F")  # its upper triangle is kept up to date: half the work
    multipliers, slack_bounds = np.zeros(len(apart)), bounds.astype(np.float64)
    share = 1.0 if np.isinf(gamma) else gamma / (gamma + 1)
    n_sweeps, before = 0, np.full(len(apart), np.inf)
    while n_sweeps < MOST_SWEEPS and _moved(before, multipliers):
        n_sweeps, before = n_sweeps + 1, multipliers.copy()
        for at, (difference, sign) in enumerate(zip(apart, signs, strict=True)):
            along = dsymv(1.0, metric, difference)
            distance = difference @ along
            step = min(multipliers[at], sign * share * (1 / distance - 1 / slack_bounds[at]))
            multipliers[at] -= step
            slack_bounds[at] /= 1 + sign * step * slack_bounds[at] / gamma
            metric = dsyr(sign * step / (1 - sign * step * distance), along, a=metric, overwrite_a=1)
    return np.triu(metric) + np.triu(metric, 1).T, slack_bounds, n_sweeps


def _moved(before: Matrix, multipliers: Matrix) -> bool:
    return bool(np.linalg.norm(multipliers - before) > TOLERANCE * np.linalg.norm(multipliers))


def _some_squared_distances(features: Matrix, random: np.random.Generator, n_pairs: int = 10_000) -> Matrix:
    first, second = random.integers(len(features), size=(2, n_pairs))
    squared: Matrix = np.square(features[first] - features[second])[first != second].sum(axis=1)
    return squared


def build(*, n_classes: int, embedding_dim: int, gamma: float, n_constraints: int) -> LinearMetric:
    """The metric."""
    return LinearMetric(partial(fit, gamma=gamma, n_constraints=n_constraints))


ENTRY = MethodEntry(
    name="itml",
    family="linear",
    build=build,
    space=lambda n_classes: {
        "gamma": FloatDistribution(1e-3, 1e3, log=True),
        "n_constraints": IntDistribution(200, 20_000, log=True),
    },
    source="Davis et al., ICML 2007",
    formula="min D_ld(M, I) + gamma D_ld(xi, xi_0), |x_i - x_j|^2_M <= xi in one class, >= xi in two",
    embeds_with="features",
)
