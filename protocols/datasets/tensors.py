"""Image tensors by index: evaluation and training tensors of a data set, decoded once where memory allows.

If the evaluation tensors of the whole data set fit `LIMIT_BYTES`, each is kept after its first use, and where training
sees what evaluation sees, a batch is one gather. Elsewhere resized uint8 images are kept until they fill `LIMIT_BYTES`,
and the rest is decoded each time. Neither changes a value. An image counts as opened once its tensor was handed out.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.datasets.index import ImageIndex
from protocols.spec import Input, Transforms
from protocols.transforms import ImageTransforms, Pixels

LIMIT_BYTES = 512 * 2**20  # of each of the two caches

Indices = NDArray[np.int64] | Sequence[int]


@dataclass
class _Resized:
    """Resized images by index, kept first come, first served: with random access no order of eviction does better."""

    free_bytes: int
    images: dict[int, Pixels] = field(default_factory=dict)

    def keep(self, image: int, resized: Pixels) -> None:
        if resized.nbytes <= self.free_bytes:
            self.free_bytes -= resized.nbytes
            self.images[image] = resized


class ImageTensors:
    """Tensors of the images of one data set under one protocol's transforms, on the CPU."""

    def __init__(self, index: ImageIndex, transforms: Transforms, input: Input) -> None:
        """Nothing is decoded before it is asked for."""
        self._index = index
        self.transform = ImageTransforms(transforms, input)
        self._shape = (self.transform.n_channels, transforms.crop_px, transforms.crop_px)
        fits = 4 * index.n_images * int(np.prod(self._shape)) <= LIMIT_BYTES
        self._kept = torch.empty(index.n_images, *self._shape) if fits else None  # evaluation tensors
        self._is_kept = np.zeros(index.n_images, bool)
        self._resized = _Resized(LIMIT_BYTES)
        self._opened = np.zeros(index.n_images, bool)

    def eval(self, indices: Indices) -> Tensor:
        """Evaluation tensors, (B, C, crop_px, crop_px) float32 in the order asked.

        Raises:
            DataError: if an image does not decode; its path is named.
        """
        wanted = np.asarray(indices, np.int64)
        if self._kept is None:
            batch = torch.empty(len(wanted), *self._shape)
            for place, image in enumerate(wanted.tolist()):
                batch[place] = self.transform.eval_from_resized(self._resize(image))
        else:
            for image in wanted[~self._is_kept[wanted]].tolist():
                self._kept[image] = self.transform.eval_tensor(self._index.read(image))
                self._is_kept[image] = True
            batch = self._kept.index_select(0, torch.from_numpy(wanted))
        self._opened[wanted] = True
        return batch

    def train(self, indices: Indices, seeds: Sequence[int]) -> Tensor:
        """Training tensors, (B, C, crop_px, crop_px) float32; image k is random by `seeds[k]` alone.

        Raises:
            DataError: if an image does not decode; its path is named.
            ValueError: if there is not one seed for each image.
        """
        if len(seeds) != len(indices):
            raise ValueError(f"{len(indices)} images and {len(seeds)} seeds; wanted one seed for each image")
        if self.transform.training_is_evaluation:
            return self.eval(indices)
        wanted = np.asarray(indices, np.int64)
        batch = torch.empty(len(wanted), *self._shape)
        for place, (image, seed) in enumerate(zip(wanted.tolist(), seeds, strict=True)):
            batch[place] = self.transform.train_from_resized(self._resize(image), seed)
        self._opened[wanted] = True
        return batch

    def opened(self, indices: Indices) -> int:
        """How many distinct images among these were handed out through this object."""
        return int(self._opened[np.unique(np.asarray(indices, np.int64))].sum())

    def fresh(self) -> Self:
        """The same images and caches with an empty record of what was opened: one for each job of a process."""
        other = copy(self)
        other._opened = np.zeros_like(self._opened)
        return other

    def _resize(self, image: int) -> Pixels:
        kept = self._resized.images.get(image)
        if kept is not None:
            return kept
        resized = self.transform.resize(self._index.read(image))
        self._resized.keep(image, resized)
        return resized
