"""Crops by matrix products equal torchvision's and Pillow's antialiased ones to a gray level, whatever their sizes."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as vision

from protocols.catalogue import MLRC_V1
from protocols.resampling import resampled_batch
from protocols.transforms import Box, random_box


def picture(height: int, width: int, seed: int) -> torch.Tensor:
    """(H, W, 3) uint8 of smooth waves with noise: natural images are neither flat nor white."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / random.uniform(3, 40) + y / random.uniform(3, 40)) for _ in range(3)]
    levels = 127 + 90 * np.stack(waves, axis=2) + random.normal(0, 20, (height, width, 3))
    return torch.from_numpy(levels.clip(0, 255).astype(np.uint8))


def by_torchvision(image: torch.Tensor, box: Box, side: int) -> torch.Tensor:
    crop = vision.resized_crop(
        image.permute(2, 0, 1), *box, size=[side, side], interpolation=InterpolationMode.BILINEAR, antialias=True
    )
    return crop.permute(1, 2, 0)


def batch() -> tuple[list[torch.Tensor], list[Box]]:
    """Images of several shapes with boxes of the train transform, the smallest and the largest possible among them."""
    generator = np.random.default_rng(0)
    images = [picture(height, width, seed) for seed, (height, width) in enumerate([(256, 256), (256, 391), (610, 256)])]
    boxes = [random_box(*image.shape[:2], MLRC_V1.transforms, generator) for image in images for _ in range(4)]
    images = [image for image in images for _ in range(4)]
    whole = [Box(0, 0, *image.shape[:2]) for image in images[::4]]
    return [*images, *images[::4], images[0]], [*boxes, *whole, Box(100, 80, 3, 5)]


@pytest.mark.parametrize("side", [227, 64])
def test_a_batch_of_crops_is_within_a_gray_level_of_torchvision_and_pillow(side: int) -> None:
    images, boxes = batch()
    found = resampled_batch(images, boxes, side)
    assert found.shape == (len(images), side, side, 3)
    assert found.dtype == torch.uint8
    for crop, image, box in zip(found, images, boxes, strict=True):
        area = (box.left, box.top, box.left + box.width, box.top + box.height)
        pillow = Image.fromarray(image.numpy()).crop(area).resize((side, side), Image.Resampling.BILINEAR)
        # Releases of Pillow differ in which pass comes first where height and width shrink differently.
        for wanted, mean in ((by_torchvision(image, box, side), 0.1), (torch.from_numpy(np.array(pillow)), 0.3)):
            apart = (crop.int() - wanted.int()).abs()
            assert apart.max() <= 1, box
            assert apart.float().mean() < mean, box


def test_a_crop_does_not_depend_on_its_batch() -> None:
    images, boxes = batch()
    together = resampled_batch(images, boxes, 64)
    for place in (0, 5, len(images) - 1):
        alone = resampled_batch([images[place]], [boxes[place]], 64)[0]
        assert (alone.int() - together[place].int()).abs().max() <= 1  # products of other shapes may round otherwise
        assert (alone != together[place]).float().mean() < 0.001
