"""Antialiased crops of a whole batch on the device that holds the images: two matrix products an image, no host work.

Bilinear resampling with antialias weights the pixels along a line by a triangle as wide as the reduction, so a crop is
rows x pixels x columns with two small matrices that follow from the box alone. Like Pillow, the columns come first and
their result is rounded to whole gray levels; a level differs by at most one from torchvision's uint8 kernel, which a
CPU uses because it is faster there.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from protocols.transforms import Box


def resampled_batch(images: Sequence[Tensor], boxes: Sequence[Box], side: int) -> Tensor:
    """The box of each (H, W, 3) uint8 image, (B, side, side, 3) uint8 on the device of the images."""
    device = images[0].device
    tallest, widest = max(box.height for box in boxes), max(box.width for box in boxes)
    crops = torch.zeros(len(images), 3, tallest, widest, device=device)
    for crop, image, (top, left, height, width) in zip(crops, images, boxes, strict=True):
        crop[:, :height, :width] = image[top : top + height, left : left + width].permute(2, 0, 1)
    rows = _weights([box.height for box in boxes], tallest, side, device)
    columns = _weights([box.width for box in boxes], widest, side, device)
    narrowed = (crops @ columns.transpose(1, 2)[:, None]).round_()
    levels = (rows[:, None] @ narrowed).round_().clamp_(0, 255)
    return levels.to(torch.uint8).permute(0, 2, 3, 1)


def _weights(lengths: Sequence[int], longest: int, side: int, device: torch.device) -> Tensor:
    """(B, side, longest) float32: how much each pixel of a line of each length counts in each resampled pixel."""
    host = torch.tensor(lengths, dtype=torch.float64)[:, None, None] / side
    scale = (host.pin_memory() if device.type == "cuda" else host).to(device, non_blocking=True)
    centre = (torch.arange(side, device=device)[:, None] + 0.5) * scale
    pixel = torch.arange(longest, device=device) + 0.5
    weights = (1 - (pixel - centre).abs() / scale.clamp_min(1)).clamp_min_(0)
    weights *= pixel < scale * side  # what lies beyond the line is padding
    return (weights / weights.sum(2, keepdim=True)).float()
