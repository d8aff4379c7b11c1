"""Means with their intervals as marks on a common scale, one small SVG a row: a bar from end to end, a dot at the mean.

A place on a scale, not the length of a bar, tells the value, so that the scale need not begin at zero: it spans the
methods that are no baselines. What lies beyond is an arrow at the edge.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reports.site.charts import Tick, ticks

WIDTH, HEIGHT = 220, 16
MARGIN = 8  # pixels at both ends, for dots and arrows


@dataclass(frozen=True, kw_only=True)
class Mark:
    """One row: the paths of its interval, its mean, and its arrow if it lies beyond the scale."""

    interval: str = ""
    mean: str = ""
    beyond: str = ""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """From the lowest to the highest end of some intervals, in fractions."""

    low: float
    high: float

    def x(self, value: float) -> int:
        """The pixel column of a value."""
        return round(MARGIN + (value - self.low) / (self.high - self.low) * (WIDTH - 2 * MARGIN))

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """A few round numbers, in percent."""
        return tuple(
            Tick(at=self.x(value / 100), label=text) for value, text in ticks(100 * self.low, 100 * self.high, 4)
        )

    @property
    def grid(self) -> str:
        """A vertical stroke at each tick."""
        return "".join(f"M{tick.at} 0v{HEIGHT}" for tick in self.ticks)

    def mark(self, mean: float | None, half_width: float | None) -> Mark:
        """One mean; nothing where there is none."""
        middle = HEIGHT // 2
        if mean is None:
            return Mark()
        if mean < self.low:
            return Mark(beyond=f"M8 {middle - 4}l-6 4 6 4z")
        if mean > self.high:
            return Mark(beyond=f"M{WIDTH - 8} {middle - 4}l6 4-6 4z")
        at = self.x(mean)
        dot = f"M{at} {middle}h0"
        if half_width is None:
            return Mark(mean=dot)
        start, end = (min(max(self.x(mean + side * half_width), 0), WIDTH) for side in (-1, 1))
        return Mark(interval=f"M{start} {middle}h{max(end - start, 1)}", mean=dot)


def scale(intervals: Iterable[tuple[float, float | None]], others: Sequence[float] = ()) -> Scale:
    """The scale of some means and half widths; other means widen it only where they lie near."""
    ends = [mean + side * (half_width or 0.0) for mean, half_width in intervals for side in (-1, 1)] or list(others)
    low, high = max(min(ends, default=0.0), 0.0), min(max(ends, default=1.0), 1.0)
    if high - low < 1e-4:
        low, high = max(low - 0.005, 0.0), min(high + 0.005, 1.0)
    reach = high - low
    near = [value for value in others if low - reach <= value <= high + reach]
    return Scale(low=min([low, *near]), high=max([high, *near]))
