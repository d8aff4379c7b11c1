"""What was drawn for training images: the share of the image in each crop, the crop's aspect, and how many flips.

Whoever wants to know says so with `noted_in`; the draws are noted where they are made, on every device, so one that
does not follow the protocol is told as it was.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class Draws:
    """A tally, the same in whatever order the images came."""

    n_images: int = 0
    n_flipped: int = 0
    smallest_area: float = math.inf  # share of the resized image
    largest_area: float = -math.inf
    smallest_aspect: float = math.inf  # width / height
    largest_aspect: float = -math.inf

    def add(self, area: float, aspect: float, flipped: bool) -> None:
        """Note one draw."""
        self.n_images += 1
        self.n_flipped += flipped
        self.smallest_area = min(area, self.smallest_area)
        self.largest_area = max(area, self.largest_area)
        self.smallest_aspect = min(aspect, self.smallest_aspect)
        self.largest_aspect = max(aspect, self.largest_aspect)

    def told(self) -> dict[str, Any]:
        """For a record: `n_images`, `n_flipped` and, where there were any, smallest and largest `area` and `aspect`."""
        counts: dict[str, Any] = {"n_images": self.n_images, "n_flipped": self.n_flipped}
        if not self.n_images:
            return counts
        area, aspect = (self.smallest_area, self.largest_area), (self.smallest_aspect, self.largest_aspect)
        return counts | {"area": [round(share, 4) for share in area], "aspect": [round(ratio, 4) for ratio in aspect]}


_noting: ContextVar[Draws | None] = ContextVar("noting", default=None)


@contextmanager
def noted_in(draws: Draws) -> Iterator[None]:
    """Have `draws` note what is drawn meanwhile."""
    token = _noting.set(draws)
    try:
        yield
    finally:
        _noting.reset(token)


def note(area: float, aspect: float, flipped: bool) -> None:
    """To be called with every draw, by what draws."""
    draws = _noting.get()
    if draws is not None:
        draws.add(area, aspect, flipped)
