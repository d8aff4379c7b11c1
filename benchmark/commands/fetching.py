"""Fetching a data set from the command line: shows how it goes, and what `mlrc data list` knows of each data set."""

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from benchmark.console import say
from protocols.datasets.fetch import Fetched
from protocols.datasets.files import size_text
from protocols.datasets.folder import LAYOUTS
from protocols.datasets.shapes import DIFFICULTIES, N_ANGLES, SHAPES
from protocols.datasets.sources import SOURCES
from protocols.datasets.standard import STANDARD
from protocols.errors import DataError, did_you_mean

PAUSE_S = 10.0  # between two lines on one task, where there is no terminal


class FetchProgress:
    """Listens to `protocols.datasets.fetch.fetch`: a bar on a terminal, elsewhere a line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._task, self._total, self._done, self._told_at = "", 0, 0, 0.0
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._bar = self._bars.add_task("", total=None, visible=False)

    def __enter__(self) -> Self:
        """Begin to show."""
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it stands."""
        self._bars.stop()

    def begin(self, task: str, total: int | None, done: int = 0) -> None:
        """Name the task, its size, and from where it goes on."""
        self._task, self._total, self._done, self._told_at = task, total or 0, done, time.monotonic()
        self._bars.reset(self._bar, description=task, total=total, completed=done, visible=True)
        if self._bars.disable:
            size = f", {size_text(total)}" if total else ""
            self.say(f"{task}{size}{f', {size_text(done)} of it are here' if done else ''}")

    def advance(self, n_bytes: int) -> None:
        """Move the bar, or say how far it is now and then."""
        self._done += n_bytes
        self._bars.advance(self._bar, n_bytes)
        if self._bars.disable and time.monotonic() - self._told_at >= PAUSE_S:
            self._told_at = time.monotonic()
            share = f"{100 * self._done // self._total} %, " if self._total else ""
            self.say(f"{self._task}: {share}{size_text(self._done)}")

    def say(self, text: str) -> None:
        """One line as it is."""
        say(text, self._console)


def fetched_line(done: Fetched) -> dict[str, Any]:
    """What was fetched as plain JSON values."""
    return {
        "name": done.name,
        "data": f"{done.name}:{done.folder}",
        "folder": str(done.folder),
        "is_new": done.is_new,
        "n_images": done.n_images,
        "n_classes": done.n_classes,
        "differs_from_published": list(done.differs_from_published),
        "archives": list(done.archives),
    }


def fetched_text(done: Fetched) -> str:
    """What was fetched in a few lines, with the next command."""
    how = "is in" if done.is_new else "is already in"
    lines = [
        f"{STANDARD[done.name].title} {how} {done.folder}: {done.n_images:,} images of {done.n_classes:,} classes."
    ]
    lines += [f"Unlike the published counts: {line}." for line in done.differs_from_published]
    lines.append(f"Next: mlrc data check {done.name}:{done.folder}" if done.is_new else "Nothing left to do.")
    return "\n".join(lines)


def known_datasets() -> list[dict[str, Any]]:
    """Each data set that can be named: counts, how to name it, layouts, terms, whether it can be fetched."""
    lines = [_standard_line(name) for name in STANDARD]
    nothing: dict[str, Any] = {"classes": None, "images": None, "counts": {}, "page": None, "caution": None}
    lines.append(
        {"name": "folder", "title": "a folder of images"}
        | nothing
        | {"data": "PATH or folder:PATH", "layouts": LAYOUTS, "terms": "your own", "fetch": "nothing to fetch"}
    )
    for difficulty, values in DIFFICULTIES.items():
        lines.append(
            {"name": f"shapes:{difficulty}", "title": f"striped shapes, {difficulty}"}
            | nothing
            | {
                "classes": len(SHAPES) * N_ANGLES,
                "images": len(SHAPES) * N_ANGLES // 2 * (values.train + values.test),
                "data": f"shapes:{difficulty}?train={values.train}&test={values.test}&seed=0, each option or none",
                "layouts": "generated, needs no file",
                "terms": "none",
                "fetch": "nothing to fetch",
            }
        )
    return lines


def known_dataset(name: str) -> dict[str, Any]:
    """The line of one data set; DataError, with the nearest name, if there is none."""
    lines = {line["name"]: line for line in known_datasets()}
    if name not in lines:
        raise DataError(f"no data set named {name!r}.{did_you_mean(name.casefold(), lines)} Known: {', '.join(lines)}.")
    return lines[name]


def _standard_line(name: str) -> dict[str, Any]:
    published, source = STANDARD[name], SOURCES[name]
    return {
        "name": name,
        "title": published.title,
        "classes": published.counts["classes"],
        "images": published.counts["images"],
        "counts": published.counts,
        "data": f"{name}:PATH",
        "layouts": published.layouts,
        "terms": source.terms,
        "page": source.page,
        "caution": published.caution or None,
        "fetch": f"yes, {size_text(source.size)}" if source.is_open else "by hand",
        "by_hand": source.by_hand or None,
    }
