"""Image tensors made on the device: resized images go there once, as uint8, and crops are cut and resampled there.

What is random in a training image is drawn on the host from its seed, as on a CPU, so crop and flip are the same on
every device; pixels are within a gray level of the CPU's. The device is never waited for. Evaluation images are slices:
exact.
"""

from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor

from protocols.resampling import resampled_batch
from protocols.transforms import Box, ImageTransforms, Pixels, to_input

SHARE_OF_MEMORY = 0.5  # of a CUDA device, for resident images; the rest of the data set is sent each time


class DeviceImages:
    """Batches of one data set on `device`; `resized` gives the image of an index, (H, W, 3) uint8 on the host."""

    def __init__(self, transform: ImageTransforms, device: torch.device, resized: Callable[[int], Pixels]) -> None:
        self._transform, self._device, self._resized = transform, device, resized
        self._resident: dict[int, Tensor] = {}
        self._free_bytes = _share_of(device)

    def eval(self, images: Sequence[int]) -> Tensor:
        """Evaluation tensors, (B, C, crop_px, crop_px) float32."""
        sent = [self._image(image) for image in images]
        boxes = [self._transform.centre(image.shape[0], image.shape[1]) for image in sent]
        return to_input(torch.stack(_cut(sent, boxes)), self._transform.input)

    def train(self, images: Sequence[int], seeds: Sequence[int]) -> Tensor:
        """Training tensors, (B, C, crop_px, crop_px) float32; image k is random by `seeds[k]` alone."""
        sent = [self._image(image) for image in images]
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

    def _image(self, image: int) -> Tensor:
        if image in self._resident:
            return self._resident[image]
        host = torch.from_numpy(self._resized(image).copy())
        sent = (host.pin_memory() if self._device.type == "cuda" else host).to(self._device, non_blocking=True)
        if sent.nbytes <= self._free_bytes:
            self._free_bytes -= sent.nbytes
            self._resident[image] = sent
        return sent


def _cut(images: Sequence[Tensor], boxes: Sequence[Box]) -> list[Tensor]:
    return [
        image[top : top + height, left : left + width]
        for image, (top, left, height, width) in zip(images, boxes, strict=True)
    ]


def _share_of(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    return int(SHARE_OF_MEMORY * torch.cuda.get_device_properties(device).total_memory)
