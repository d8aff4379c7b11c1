"""Embeddings without training: a linear metric fitted to the frozen trunk's features, or those features themselves."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.jobs import Job
from benchmark.methods.baselines import principal_components
from benchmark.methods.entry import MethodEntry
from benchmark.methods.linear.base import LinearMetric, Reduction
from benchmark.methods.registry import build_method
from benchmark.seeding import derived_seed
from benchmark.training.failure import FoldFailure, raised_by_method
from benchmark.training.features import FrozenFeatures
from protocols.fold import FoldImages, Indices
from protocols.model import normalised


class LinearModel:
    """Reduction and linear map of one fold; (N, dim) float32 embeddings on the CPU, normalised as the protocol says."""

    def __init__(
        self, job: Job, bench: Bench, entry: MethodEntry, images: FoldImages, features: FrozenFeatures
    ) -> None:
        """Fit to the training images.

        Raises:
            FoldFailure: if the hyper-parameters are not the method's, or its solver fails.
        """
        self._features, self._embedding, self._threads = features, bench.protocol.embedding, bench.threads
        random = np.random.default_rng(derived_seed(job.seed, "method"))
        try:
            metric = build_method(entry, len(images.images_by_class), self._embedding.dim, dict(job.hyperparameters))
            assert isinstance(metric, LinearMetric)
            with threadpool_limits(bench.threads):  # otherwise the last bits follow from this machine's cores
                given = features(images.train)
                self._reduction = Reduction.fitted(given, self._embedding.dim)
                fitted = metric.fit(self._reduction(given), images.labels[images.train], random)
        except BenchmarkError as error:
            raise FoldFailure("method-error", str(error)) from None
        except (ArithmeticError, ValueError, MemoryError, np.linalg.LinAlgError) as error:
            raise raised_by_method(error) from error
        self._matrix = fitted.matrix
        self.summary: dict[str, Any] = {"reduced_to": len(self._reduction.components), **fitted.summary}

    def embed(self, indices: Indices) -> torch.Tensor:
        """The embeddings of images of one side."""
        with threadpool_limits(self._threads):
            mapped = self._reduction(self._features(indices)) @ self._matrix.T
        return normalised(_filled(mapped.astype(np.float32), self._embedding.dim), self._embedding.normalisation)


def pretrained_embeddings(bench: Bench, features: FrozenFeatures, indices: Indices) -> torch.Tensor:
    """(N, n_folds x dim) float32 principal components of the features of these images, not normalised.

    The first `dim` columns are the narrow embedding.
    """
    width = bench.n_folds * bench.protocol.embedding.dim
    with threadpool_limits(bench.threads):
        return _filled(principal_components(features(indices), width), width)


def _filled(embeddings: NDArray[np.float32], width: int) -> torch.Tensor:
    """Zeros in the columns that are missing; they change no distance."""
    return torch.from_numpy(np.pad(embeddings, ((0, 0), (0, width - embeddings.shape[1]))))
