"""Image tensors made on the device: resized images go there once, as uint8, and crops are cut and resampled there.

What is random in a training image is drawn on the host from its seed, as on a CPU, so crop and flip are the same on
every device; pixels are within a gray level of the CPU's. The device is never waited for. Evaluation images are slices:
exact.

How many images stay is decided by what the device has free at the moment, not by its size: several workers share it,
and none of them can know what the others' networks take. An image that may not stay is sent at each use, which changes
no value.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import torch
from torch import Tensor

from protocols.resampling import resampled_batch
from protocols.transforms import Box, ImageTransforms, Pixels, to_input

LEFT_FREE = 0.5  # of a CUDA device: for the networks and evaluations of all its workers; images of all fill the rest

Memory = Callable[[], tuple[int, int]]  # bytes of a device that are free now, and all that it has


class DeviceImages:
    """Batches of one data set on `device`; `resized` gives the image of an index, (H, W, 3) uint8 on the host."""

    def __init__(
        self,
        transform: ImageTransforms,
        device: torch.device,
        resized: Callable[[int], Pixels],
        memory: Memory | None = None,
    ) -> None:
        """`memory` tells of the device in place of the device itself."""
        self._transform, self._device, self._resized = transform, device, resized
        self._resident: dict[int, Tensor] = {}
        self._memory = memory or partial(_memory_of, device)

    def eval(self, images: Sequence[int]) -> Tensor:
        """Evaluation tensors, (B, C, crop_px, crop_px) float32."""
        sent = self._sent(images)
        boxes = [self._transform.centre(image.shape[0], image.shape[1]) for image in sent]
        return to_input(torch.stack(_cut(sent, boxes)), self._transform.input)

    def train(self, images: Sequence[int], seeds: Sequence[int]) -> Tensor:
        """Training tensors, (B, C, crop_px, crop_px) float32; image k is random by `seeds[k]` alone."""
        sent = self._sent(images)
        drawn = [
            self._transform.draw(image.shape[0], image.shape[1], seed) for image, seed in zip(sent, seeds, strict=True)
        ]
        boxes = [box for box, _ in drawn]
        if self._transform.transforms.train_crop == "centre":
            crops = torch.stack(_cut(sent, boxes))
        else:
            crops = resampled_batch(sent, boxes, self._transform.transforms.crop_px)
        flipped = [place for place, (_, is_flipped) in enumerate(drawn) if is_flipped]
        for place in flipped:
            crops[place] = crops[place].flip(1)
        return to_input(crops, self._transform.input)

    def sharing_nothing(self, resized: Pixels) -> Self:
        """The same path for one image alone, which is none of the data set's."""
        return type(self)(self._transform, self._device, lambda _: resized)

    def _sent(self, images: Sequence[int]) -> list[Tensor]:
        """The images on the device, which is asked for its memory once a batch, where an image is not there yet."""
        room: int | None = None
        sent = []
        for image in images:
            if (found := self._resident.get(image)) is None:
                found = self._send(image)
                room = _room(*self._memory()) if room is None else room
                if found.nbytes <= room:
                    room -= found.nbytes
                    self._resident[image] = found
            sent.append(found)
        return sent

    def _send(self, image: int) -> Tensor:
        host = torch.from_numpy(self._resized(image).copy())
        return (host.pin_memory() if self._device.type == "cuda" else host).to(self._device, non_blocking=True)


def _cut(images: Sequence[Tensor], boxes: Sequence[Box]) -> list[Tensor]:
    return [
        image[top : top + height, left : left + width]
        for image, (top, left, height, width) in zip(images, boxes, strict=True)
    ]


def _memory_of(device: torch.device) -> tuple[int, int]:
    """Nothing is kept twice in the memory of the host."""
    return torch.cuda.mem_get_info(device) if device.type == "cuda" else (0, 0)


def _room(free_bytes: int, total_bytes: int) -> int:
    """Bytes that further images may take now."""
    return free_bytes - int(LEFT_FREE * total_bytes)
