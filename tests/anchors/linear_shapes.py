"""The linear metrics on the centred striped shapes against the published figures: a table, then one JSON line.

As the article did it: raw pixels, PCA to 48 dimensions on the seen half, Recall@1 among the images of the unseen half,
30 images a class, ten seeds. Exit code 1 if a seed lies outside the published range, widened by `SLACK`.

    python tests/anchors/linear_shapes.py [N_SEEDS]
"""

import json
import sys

import numpy as np
import torch

from benchmark.methods.linear import euclidean, nca, whitened, within_class
from benchmark.methods.linear.base import LinearMap, Matrix, Reduction
from protocols.datasets import load_dataset
from protocols.metrics import evaluate

PUBLISHED = {  # smallest and largest Recall@1 over ten seeds
    "euclidean": (0.361, 0.424),
    "whitened": (0.896, 0.933),
    "within-class": (0.980, 0.994),
    "nca": (0.911, 0.974),
}
SLACK = 0.02
DIM = 48
N_SEEDS = 10


def recall_at_1(seed: int) -> dict[str, float]:
    """Recall@1 on the unseen half of one drawing of the shapes, by method."""
    index = load_dataset(f"shapes:centred?train=30&test=30&seed={seed}")
    pixels = np.stack([index.read(image)[..., 0].ravel() for image in range(index.n_images)]).astype(np.float32) / 255
    unseen = np.zeros(index.n_images, bool)
    unseen[index.indices_of(index.test_classes or ())] = True
    reduction = Reduction.fitted(pixels[~unseen], DIM)
    labels, random = index.targets[~unseen], np.random.default_rng(seed)
    features = reduction(pixels[~unseen])
    maps = {
        "euclidean": euclidean.fit(features, labels, random),
        "whitened": whitened.fit(features, labels, random),
        "within-class": within_class.fit(features, labels, random, shrinkage=1e-4),
        "nca": nca.fit(features, labels, random, scale=1 / reduction.scale),  # the identity on the unscaled features
    }
    seen_by = {name: _mapped(reduction(pixels[unseen]), fitted) for name, fitted in maps.items()}
    wanted = torch.from_numpy(index.targets[unseen])
    return {name: evaluate(found, wanted).metrics["precision_at_1"] for name, found in seen_by.items()}


def outside(found: dict[str, list[float]]) -> list[str]:
    """The methods of which a seed lies outside the widened range."""
    bounds = {name: (low - SLACK, high + SLACK) for name, (low, high) in PUBLISHED.items()}
    return [name for name, (low, high) in bounds.items() if min(found[name]) < low or max(found[name]) > high]


def _mapped(features: Matrix, fitted: LinearMap) -> torch.Tensor:
    return torch.from_numpy((features @ fitted.matrix.T).astype(np.float32))


def main(n_seeds: int) -> int:
    """Print what was found; 1 if it does not agree."""
    by_seed = [recall_at_1(seed) for seed in range(n_seeds)]
    found = {name: [line[name] for line in by_seed] for name in PUBLISHED}
    print(f"{'':14}{'min':>7}{'mean':>7}{'max':>7}   published min and max")
    for name, values in found.items():
        low, high = PUBLISHED[name]
        print(f"{name:14}{min(values):7.3f}{np.mean(values):7.3f}{max(values):7.3f}   {low:.3f} {high:.3f}")
    print(json.dumps({"recall_at_1": found, "outside": outside(found), "seeds": n_seeds}))
    return int(bool(outside(found)))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else N_SEEDS))
