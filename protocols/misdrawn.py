"""Whether crops and flips are spread as a protocol says, by draws for a square image, whose spread is known.

Of a crop so small that every aspect fits, area and aspect are as they were drawn: these are judged. Of a larger one
the aspect depends on what fits, and where nothing fits there is a largest box instead. Sides are whole pixels, so each
has the benefit of half a pixel. Chance is allowed more than it takes: honest draws of one protocol in a hundred million
would be blamed.
"""

import math
from collections.abc import Sequence

from protocols.spec import Transforms
from protocols.transforms import Box

DEVIATIONS = 6.0  # of a count from what is expected
EXPONENT = 20.0  # no draw of n in the first share t of a range: (1 - t) ** n < exp(-20) for t = 20 / n


def misdrawn(drawn: Sequence[tuple[Box, bool]], side: int, transforms: Transforms) -> str | None:
    """What about crops and flips for an image of side x side is not the protocol's, or None where all is."""
    n, probability = len(drawn), transforms.flip_probability
    n_flipped = sum(flipped for _, flipped in drawn)
    if abs(n_flipped - n * probability) > DEVIATIONS * math.sqrt(n * probability * (1 - probability)):
        return f"{n_flipped} of {n} flipped where the probability is {probability:g}"
    boxes = [box for box, _ in drawn]
    if transforms.train_crop == "random-resized":
        return _misplaced(boxes, side, transforms)
    crop, edge = transforms.crop_px, round((side - transforms.crop_px) / 2)
    return next((f"{box} is not the centre" for box in boxes if box != (edge, edge, crop, crop)), None)


def _misplaced(boxes: Sequence[Box], side: int, transforms: Transforms) -> str | None:
    (low, high), (narrow, wide) = transforms.crop_area, transforms.crop_aspect
    limit = min(1 / wide, narrow)  # of the areas to which every aspect fits
    small = [box for box in boxes if (box.height - 0.5) * (box.width - 0.5) <= limit * side**2]
    expected = len(boxes) * _share_below(limit, low, high)
    if len(small) < expected - DEVIATIONS * math.sqrt(expected):
        return f"{len(small)} of {len(boxes)} crops have an area up to {limit:.3g} where {expected:.0f} are expected"
    if not small or not expected:
        return None
    gap, top = min(1.0, EXPONENT / len(small)), min(limit, high)
    slack, stretch = gap * (top - low), (wide / narrow) ** gap
    shares = [
        ((box.height - 0.5) * (box.width - 0.5) / side**2, (box.height + 0.5) * (box.width + 0.5) / side**2)
        for box in small
    ]
    aspects = [((box.width - 0.5) / (box.height + 0.5), (box.width + 0.5) / (box.height - 0.5)) for box in small]
    return _outside("areas", shares, (low, low + slack), (top - slack, high)) or _outside(
        "aspects", aspects, (narrow, narrow * stretch), (wide / stretch, wide)
    )


def _outside(
    name: str, found: Sequence[tuple[float, float]], smallest: tuple[float, float], largest: tuple[float, float]
) -> str | None:
    """Where the range of values, each known to lie between two, does not begin and end where it should."""
    (low, below), (above, high) = smallest, largest
    least, most = min(low_end for low_end, _ in found), max(high_end for _, high_end in found)
    inside = min(high_end for _, high_end in found) >= low and max(low_end for low_end, _ in found) <= high
    if inside and least <= below and most >= above:
        return None
    return f"crops have {name} from {least:.3g} to {most:.3g} where {low:.3g} to {high:.3g} is to be drawn"


def _share_below(limit: float, low: float, high: float) -> float:
    """Of areas drawn between two."""
    if low == high:
        return float(low <= limit)
    return min(1.0, max(0.0, (limit - low) / (high - low)))
