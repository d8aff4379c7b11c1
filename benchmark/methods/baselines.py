"""What no method may fall below: the image itself, the network before its first step, the trunk as it was trained.

A baseline is evaluated like a method and never trained, so it has no loss and nothing to search.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from benchmark.errors import BenchmarkError
from benchmark.methods.entry import MethodEntry


class NoLoss(nn.Module):
    """Stands where a loss would; a baseline that reaches a training step is a slip, and says so."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Refuse.

        Raises:
            BenchmarkError: always.
        """
        raise BenchmarkError("a baseline has no loss and is never trained; evaluate it as it stands.")


def build(*, n_classes: int, embedding_dim: int) -> nn.Module:
    """A module without weights."""
    return NoLoss()


UNTRAINED = MethodEntry(
    name="untrained",
    family="baseline",
    build=build,
    space=lambda n_classes: {},
    source="choice of this project",
    formula="no loss: the embeddings of the network at step 0",
)

PIXELS = MethodEntry(
    name="pixels",
    family="baseline",
    build=build,
    space=lambda n_classes: {},
    source="choice of this project",
    formula="no loss: the trunk's input tensor, flattened",
    embeds_with="pixels",
)

PRETRAINED = MethodEntry(
    name="pretrained",
    family="baseline",
    build=build,
    space=lambda n_classes: {},
    source="Musgrave et al., ECCV 2020, section 4.1; the fit: testers of pytorch-metric-learning",
    formula="no loss: the trunk's features, standardised, PCA (both fitted on the test features themselves)",
    embeds_with="features",
)


def exact_solver(n_images: int, width: int) -> str:
    """The cheaper of scikit-learn's two exact ways to the principal components of (n_images, width) features."""
    return "covariance_eigh" if width <= n_images else "full"


def principal_components(features: NDArray[np.float32], dim: int) -> NDArray[np.float32]:
    """(N, F) -> (N, dim): standardised and projected on their own first directions; fewer where there are fewer.

    The first columns are those of a narrower projection, so one matrix holds the embeddings of both settings.
    """
    scaled = StandardScaler().fit_transform(features.astype(np.float64))
    components = PCA(min(dim, *features.shape), svd_solver=exact_solver(*features.shape)).fit_transform(scaled)
    return np.asarray(components, np.float32)
