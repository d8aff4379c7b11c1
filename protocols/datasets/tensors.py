"""Image tensors by index: evaluation and training tensors of a data set, decoded once where memory or a cache allows.

If the evaluation tensors of the whole data set fit `LIMIT_BYTES`, each is kept after its first use, and where training
sees what evaluation sees, a batch is one gather. Elsewhere crops are cut out of the cache on disk, if there is one; or
else resized uint8 images are kept until they fill `LIMIT_BYTES`, and the rest is decoded each time. Nothing of this
changes a value. Every tensor that is handed out is counted, and what was drawn for it is noted.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from protocols.datasets.cache import PixelCache
from protocols.datasets.device import DeviceImages
from protocols.datasets.index import ImageIndex
from protocols.draws import Draws, noted_in
from protocols.spec import Input, Transforms
from protocols.transforms import ImageTransforms, Pixels

LIMIT_BYTES = 512 * 2**20  # of each of the two kinds that are kept in memory

Indices = NDArray[np.int64] | Sequence[int]


def fits_memory(index: ImageIndex, resize_px: int) -> bool:
    """Whether the resized images of a data set, if they were square, fit `LIMIT_BYTES`."""
    return 3 * resize_px**2 * index.n_images <= LIMIT_BYTES


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
    """Tensors of the images of one data set under one protocol's transforms."""

    def __init__(
        self,
        index: ImageIndex,
        transforms: Transforms,
        input: Input,
        cache: PixelCache | None = None,
        device: str = "cpu",
    ) -> None:
        """Nothing is decoded before it is asked for, and with the `cache` of these images nothing at all.

        On a CUDA `device` crops are made there, from images that stay there once they are sent.
        """
        self._index, self._cache = index, cache
        self.transform = ImageTransforms(transforms, input)
        self._shape = (self.transform.n_channels, transforms.crop_px, transforms.crop_px)
        fits = 4 * index.n_images * int(np.prod(self._shape)) <= LIMIT_BYTES
        self._kept = torch.empty(index.n_images, *self._shape) if fits else None  # evaluation tensors
        self._is_kept = np.zeros(index.n_images, bool)
        self._resized = _Resized(LIMIT_BYTES)
        on_device = torch.device(device).type == "cuda" and not input.per_image
        self._on_device = DeviceImages(self.transform, torch.device(device), self._resize) if on_device else None
        self._times_opened = np.zeros(index.n_images, np.int64)
        self.drawn = Draws()

    def eval(self, indices: Indices) -> Tensor:
        """Evaluation tensors, (B, C, crop_px, crop_px) float32 in the order asked.

        Raises:
            DataError: if an image does not decode; its path is named.
        """
        wanted = np.asarray(indices, np.int64)
        if self._on_device is not None:
            batch = self._on_device.eval(wanted.tolist())
        elif self._kept is None:
            batch = torch.empty(len(wanted), *self._shape)
            for place, image in enumerate(wanted.tolist()):
                batch[place] = self.transform.eval_from_resized(self._resize(image))
        else:
            for image in wanted[~self._is_kept[wanted]].tolist():
                self._kept[image] = self.transform.eval_from_resized(self._read(image))
                self._is_kept[image] = True
            batch = self._kept.index_select(0, torch.from_numpy(wanted))
        self.count_opened(wanted)
        return batch

    def train(self, indices: Indices, seeds: Sequence[int]) -> Tensor:
        """Training tensors, (B, C, crop_px, crop_px) float32; image k is random by `seeds[k]` alone.

        Raises:
            DataError: if an image does not decode; its path is named.
            ValueError: if there is not one seed for each image.
        """
        if len(seeds) != len(indices):
            raise ValueError(f"{len(indices)} images and {len(seeds)} seeds; wanted one seed for each image")
        if not self.transform.transforms.is_random:
            return self.eval(indices)
        wanted = np.asarray(indices, np.int64)
        with noted_in(self.drawn):
            if self._on_device is not None:
                batch = self._on_device.train(wanted.tolist(), seeds)
            else:
                batch = torch.empty(len(wanted), *self._shape)
                for place, (image, seed) in enumerate(zip(wanted.tolist(), seeds, strict=True)):
                    batch[place] = self.transform.train_from_resized(self._resize(image), seed)
        self.count_opened(wanted)
        return batch

    def eval_probe(self, image: Pixels) -> Tensor:
        """The evaluation tensor of an image that is not of the data set, made by the path of all others."""
        if self._on_device is None:
            return self.transform.eval_tensor(image)
        return self._on_device.sharing_nothing(self.transform.resize(image)).eval([0])[0].cpu()

    def train_probe(self, image: Pixels, seed: int) -> Tensor:
        """The same, a training tensor."""
        if self._on_device is None or not self.transform.transforms.is_random:
            return self.transform.train_tensor(image, seed)
        return self._on_device.sharing_nothing(self.transform.resize(image)).train([0], [seed])[0].cpu()

    def times_opened(self, indices: Indices) -> NDArray[np.int64]:
        """How often each of these images was handed out through this object, in the order asked."""
        times: NDArray[np.int64] = self._times_opened[np.asarray(indices, np.int64)]
        return times

    def count_opened(self, indices: Indices) -> None:
        """Count images as opened once more, also those of which something else than the tensor is used."""
        np.add.at(self._times_opened, np.asarray(indices, np.int64), 1)

    def fresh(self) -> Self:
        """The same images and caches with an empty record of what was opened and drawn: for each job of a process."""
        other = copy(self)
        other._times_opened, other.drawn = np.zeros_like(self._times_opened), Draws()
        return other

    def _resize(self, image: int) -> Pixels:
        kept = self._resized.images.get(image)
        if kept is not None:
            return kept
        resized = self._read(image)
        if self._cache is None:
            self._resized.keep(image, resized)
        return resized

    def _read(self, image: int) -> Pixels:
        return self.transform.resize(self._index.read(image)) if self._cache is None else self._cache.image(image)
