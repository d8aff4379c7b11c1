"""Line charts as geometry: where each point, tick and mark lies, in the pixels of an SVG that a template writes.

A template draws them with classes, so that one picture follows the light and the dark theme. Paths are relative and in
whole pixels: a site has thousands of them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 26, 36
AIR = 0.04  # of the height, above the highest and below the lowest value
MOST_POINTS = 48  # of one line; more cannot be told apart at this width

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A labelled place on an axis."""

    at: int
    label: str


@dataclass(frozen=True, kw_only=True)
class Path:
    """One stroke; its look is a class of the style sheet."""

    d: str
    look: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A drawn chart; `says` tells those who cannot see it what it shows."""

    says: str
    x_label: str
    y_label: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    paths: tuple[Path, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    bottom: int = HEIGHT - BOTTOM
    top: int = TOP
    right: int = WIDTH - RIGHT


class Plane:
    """Data coordinates as pixels."""

    def __init__(self, xs: Iterable[float], ys: Iterable[float]) -> None:
        self.x_low, self.x_high = span(xs)
        low, high = span(ys)
        self.y_low, self.y_high = low - AIR * (high - low), high + AIR * (high - low)

    def x(self, value: float) -> int:
        """The pixel column of a value."""
        return round(LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - LEFT - RIGHT))

    def y(self, value: float) -> int:
        """The pixel row of a value."""
        return round(HEIGHT - BOTTOM - (value - self.y_low) / (self.y_high - self.y_low) * (HEIGHT - BOTTOM - TOP))

    def line(self, points: Points, most: int = MOST_POINTS) -> str:
        """A polyline, thinned to what can be seen."""
        return _strokes([(self.x(x), self.y(y)) for x, y in _thinned(points, most)], "l")

    def steps(self, points: Points) -> str:
        """A staircase: each value holds until the next one."""
        corners: list[tuple[int, int]] = []
        for x, y in points:
            corners += [(self.x(x), corners[-1][1])] if corners else []
            corners.append((self.x(x), self.y(y)))
        return _strokes(corners, "l")

    def dots(self, points: Points) -> str:
        """A round dot at each point: strokes of no length with round ends."""
        return _strokes([(self.x(x), self.y(y)) for x, y in points], "m", "h0")

    def crosses(self, xs: Iterable[float]) -> str:
        """A small cross on the bottom line at each x."""
        return "".join(f"M{self.x(x) - 3} {HEIGHT - BOTTOM - 3}l6 6m0-6l-6 6" for x in xs)

    def verticals(self, xs: Iterable[float]) -> str:
        """A line from top to bottom at each x."""
        return "".join(f"M{self.x(x)} {TOP}V{HEIGHT - BOTTOM}" for x in xs)

    def chart(self, says: str, x_label: str, y_label: str, paths: Iterable[Path], *, counts: bool = False) -> Chart:
        """The whole, with about five ticks on each axis; `counts`: x is a number of things, so its ticks are whole."""
        x_ticks = ticks(self.x_low, self.x_high, 6)
        if counts:
            x_ticks = [(value, f"{value:,.0f}") for value, _ in x_ticks if value.is_integer()]
        return Chart(
            says=says,
            x_label=x_label,
            y_label=y_label,
            x_ticks=tuple(Tick(at=self.x(value), label=text) for value, text in x_ticks),
            y_ticks=tuple(Tick(at=self.y(value), label=text) for value, text in ticks(self.y_low, self.y_high, 5)),
            paths=tuple(path for path in paths if path.d),
        )


def span(values: Iterable[float]) -> tuple[float, float]:
    """The lowest and highest value, apart even where all are one."""
    found = list(values)
    low, high = min(found, default=0.0), max(found, default=1.0)
    return (low, high) if high > low else (low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2)


def ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round numbers within [low, high], about so many at most, each with its text; steps are 1, 2 or 5 times 10^k."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(n * step, f"{n * step:,.{digits}f}") for n in range(first, last + 1)]


def _thinned(points: Points, most: int) -> Points:
    if len(points) <= most:
        return points
    stride = (len(points) - 1) / (most - 1)
    return [points[round(n * stride)] for n in range(most)]


def _strokes(pixels: Sequence[tuple[int, int]], command: str, mark: str = "") -> str:
    """A path from pixel to pixel, each place told relative to the one before."""
    if not pixels:
        return ""
    parts = [f"M{pixels[0][0]} {pixels[0][1]}{mark}"]
    for (x0, y0), (x1, y1) in pairwise(pixels):
        parts.append(f"{command}{x1 - x0}{'' if y1 < y0 else ' '}{y1 - y0}{mark}")
    return "".join(parts)
