"""How a decoded image becomes the trunk's input tensor.

Resize brings the shorter side to `resize_px` with Pillow's bilinear filter. Evaluation cuts the centre out of that,
exactly as torchvision does on Pillow images. Training cuts a random box by the rule of torchvision's RandomResizedCrop
and resamples it with torchvision's antialiased uint8 kernel, at most one gray level from Pillow's. Then, on the uint8
crop, come channel order (gray is the ITU-R 601 luma of Pillow's mode "L"), range, mean and deviation. All randomness
of a training image comes from the one seed given with it, so order, batch and workers change nothing.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as vision

from protocols.draws import note
from protocols.spec import Input, Transforms

Pixels = NDArray[np.uint8]

_LUMA = (19595, 38470, 7471)  # ITU-R 601 weights of R, G, B in units of 2 ** -16, as Pillow rounds them


class Box(NamedTuple):
    """A crop in pixels of the resized image."""

    top: int
    left: int
    height: int
    width: int


@dataclass(frozen=True)
class ImageTransforms:
    """The transforms of one protocol; images are (H, W, 3) uint8 RGB, tensors (C, crop_px, crop_px) float32."""

    transforms: Transforms
    input: Input

    @property
    def n_channels(self) -> int:
        """Channels the trunk sees: 3, or 1 for gray."""
        return 1 if self.input.channels == "gray" else 3

    def eval_tensor(self, image: Pixels) -> Tensor:
        """The evaluation tensor of an image of any size."""
        return self.eval_from_resized(self.resize(image))

    def train_tensor(self, image: Pixels, seed: int) -> Tensor:
        """A training tensor of an image of any size, random by `seed` alone."""
        return self.train_from_resized(self.resize(image), seed)

    def resize(self, image: Pixels) -> Pixels:
        """The image with its shorter side at `resize_px`."""
        return resize(image, self.transforms.resize_px)

    def eval_from_resized(self, resized: Pixels) -> Tensor:
        """The evaluation tensor of what `resize` returned."""
        return to_input(_tensor(_cut(resized, self.centre(*resized.shape[:2]))), self.input)

    def train_from_resized(self, resized: Pixels, seed: int) -> Tensor:
        """A training tensor of what `resize` returned, random by `seed` alone."""
        height, width = resized.shape[:2]
        box, flipped = self.draw(height, width, seed)
        crop = _tensor(_cut(resized, box))
        if self.transforms.train_crop == "random-resized":
            crop = _resampled(crop, self.transforms.crop_px)
        return to_input(crop.flip(1) if flipped else crop, self.input)

    def draw(self, height: int, width: int, seed: int) -> tuple[Box, bool]:
        """All that is random in a training image of a resized height x width: its crop, and whether it is flipped."""
        generator = np.random.default_rng(seed)
        if self.transforms.train_crop == "centre":
            box = self.centre(height, width)
        else:
            box = random_box(height, width, self.transforms, generator)
        flipped = bool(generator.random() < self.transforms.flip_probability)
        note(box.height * box.width / (height * width), box.width / box.height, flipped)
        return box, flipped

    def centre(self, height: int, width: int) -> Box:
        """The crop in the middle, as torchvision places it."""
        side = self.transforms.crop_px
        top, left = round((height - side) / 2), round((width - side) / 2)  # a half goes to the even neighbour
        return Box(top, left, side, side)


def resize(image: Pixels, resize_px: int) -> Pixels:
    """The image with its shorter side at `resize_px`; the longer side is rounded down, as torchvision does."""
    height, width = image.shape[:2]
    shorter, longer = min(height, width), max(height, width)
    if shorter == resize_px:
        return image
    longer = resize_px * longer // shorter
    size = (resize_px, longer) if width <= height else (longer, resize_px)
    return np.array(Image.fromarray(image).resize(size, Image.Resampling.BILINEAR))


def random_box(height: int, width: int, transforms: Transforms, generator: np.random.Generator) -> Box:
    """A box of random area and aspect within height x width: ten tries, then the largest centred box allowed."""
    low, high = transforms.crop_aspect
    for _ in range(10):
        area = height * width * generator.uniform(*transforms.crop_area)
        aspect = math.exp(generator.uniform(math.log(low), math.log(high)))
        box_width, box_height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < box_width <= width and 0 < box_height <= height:
            top = int(generator.integers(height - box_height, endpoint=True))
            left = int(generator.integers(width - box_width, endpoint=True))
            return Box(top, left, box_height, box_width)
    box_height, box_width = height, width
    if width / height < low:
        box_height = round(width / low)
    elif width / height > high:
        box_width = round(height * high)
    return Box((height - box_height) // 2, (width - box_width) // 2, box_height, box_width)


def to_input(crop: Tensor, wanted: Input) -> Tensor:
    """A uint8 crop (H, W, 3) RGB in the trunk's channel order and range, (C, H, W) float32; or a batch of crops.

    With `per_image` the image, all its channels together, gets mean 0 and variance 1; a constant image becomes zeros.
    Only single images can be standardised so.
    """
    red, green, blue = crop.unbind(-1)
    if wanted.channels == "gray":
        luma = _LUMA[0] * red.to(torch.int32) + _LUMA[1] * green.to(torch.int32) + _LUMA[2] * blue.to(torch.int32)
        planes = [(luma + (1 << 15) >> 16).to(torch.uint8)]
    else:
        planes = [blue, green, red] if wanted.channels == "BGR" else [red, green, blue]
    if wanted.per_image:
        return _standardised(torch.stack(planes))
    # In this order it is exact for both 255 and 1; numbers, not tensors, so that nothing is copied to a device.
    scaled = [plane.to(torch.float32).mul_(wanted.scale).div_(255) for plane in planes]
    centred = [plane.sub_(mean).div_(std) for plane, mean, std in zip(scaled, wanted.mean, wanted.std, strict=True)]
    return torch.stack(centred, dim=-3)


def _standardised(planes: Tensor) -> Tensor:
    # Sums of integers, so that no order of summation can change a bit and a constant image has variance 0 exactly.
    wide, count = planes.to(torch.int64), planes.numel()
    total = int(wide.sum())
    spread = count * int(wide.square().sum()) - total**2  # count ** 2 times the variance
    if spread == 0:
        return torch.zeros(planes.shape, dtype=torch.float32)
    return ((wide * count - total).to(torch.float64) / math.sqrt(spread)).to(torch.float32).contiguous()


def _cut(image: Pixels, box: Box) -> Pixels:
    return image[box.top : box.top + box.height, box.left : box.left + box.width]


def _resampled(crop: Tensor, side: int) -> Tensor:
    """A (H, W, 3) uint8 crop as (side, side, 3) uint8."""
    resampled: Tensor = vision.resize(
        crop.permute(2, 0, 1), [side, side], interpolation=InterpolationMode.BILINEAR, antialias=True
    )
    return resampled.permute(1, 2, 0)


def _tensor(crop: Pixels) -> Tensor:
    """A copy of a crop: the image may be read-only memory, which torch does not know."""
    return torch.from_numpy(crop.copy())
