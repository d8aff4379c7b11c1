"""What a method may see beside its batch: no more than the protocol allows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn


@dataclass(frozen=True, eq=False, kw_only=True)
class Context:
    """Handed to a method's hooks.

    `images_by_class[c]` are the training images of class c, as indices for `embed`. `embed(indices)` returns their
    (K, D) float32 embeddings by the current network, through the train transform, without gradient.
    `trainable_parameters` are those of trunk and embedder. `generator` is the method's own random stream.
    `normalise(vectors)` applies the protocol's rule for embeddings to the rows of (K, D) and passes the gradient on.
    `reset_optimiser(parameters)` makes the optimiser forget what it has gathered about some of the method's weights.
    `class_names[c]` and `super_classes[c]` (None where the data set has none) are the data set's names, for a record or
    a given hierarchy.
    """

    n_classes: int
    embedding_dim: int
    images_by_class: Sequence[npt.NDArray[np.int64]]
    embed: Callable[[npt.NDArray[np.int64]], torch.Tensor]
    trainable_parameters: Sequence[nn.Parameter]
    generator: torch.Generator
    normalise: Callable[[torch.Tensor], torch.Tensor]
    reset_optimiser: Callable[[Iterable[nn.Parameter]], None]
    class_names: Sequence[str] = ()
    super_classes: Sequence[str] | None = None
