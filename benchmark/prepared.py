"""Decoding before training: the cache of a data set is found or made, and every image is known to decode.

A data set whose resized images fit memory needs no cache, as each process keeps its images once they are decoded; for
any other one it is made. One that is there is used whatever the size.
"""

from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmark.console import say
from benchmark.interruption import leave_if_asked
from protocols.datasets import check_decodes
from protocols.datasets.cache import PixelCache, cache_folder, cache_path, known_to_decode, remember_decoding
from protocols.datasets.files import size_text
from protocols.datasets.index import ImageIndex
from protocols.datasets.prepare import Watcher, prepare
from protocols.datasets.tensors import fits_memory
from protocols.errors import DataError

_LINES = 10  # in all, where there is no terminal


def ready_images(index: ImageIndex, resize_px: int, console: Console) -> Path | None:
    """The cache that a run reads, or None where it needs none; every image decodes.

    Raises:
        DataError: if an image does not decode, or a cache that is needed cannot be made.
    """
    folder = cache_folder()
    path = cache_path(folder, index, resize_px)
    if fits_memory(index, resize_px) and not path.exists():
        if not known_to_decode(folder, index):
            check_decodes(index)
            remember_decoding(folder, index)
        return None
    try:
        PixelCache(path, index, resize_px)
    except DataError:
        make_cache(index, resize_px, path, console)
    return path


def make_cache(index: ImageIndex, resize_px: int, path: Path, console: Console) -> bool:
    """Make the cache at `path` and show how it goes; False if it was there and sound.

    Raises:
        DataError: as `protocols.datasets.prepare.prepare`.
    """
    with _Shown(path, console) as shown:
        return prepare(index, resize_px, path, shown)


class _Shown(Watcher):
    """A bar with the time left on a terminal, plain lines elsewhere."""

    def __init__(self, path: Path, console: Console) -> None:
        self._path, self._console = path, console
        self._n_images, self._tenth = 0, 0
        self._bar = Progress(
            TextColumn("decoding"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def waits(self) -> None:
        """Say so: it may take long."""
        self._say(f"Another process is making {self._path}; waiting for it.")

    def begins(self, n_images: int, n_ready: int, n_bytes: int) -> None:
        """Say what is made, where, and how large it will be."""
        self._n_images, self._tenth = n_images, _LINES * n_ready // n_images
        before = f" ({n_ready:,} are there from before)" if n_ready else ""
        self._say(f"Decoding {n_images:,} images once{before} into {self._path}, about {size_text(n_bytes)}.")
        self._bar.update(self._task, total=n_images, completed=n_ready)
        self._bar.start()

    def advances(self, n_ready: int) -> None:
        """Move the bar, or say each tenth; Ctrl-C ends it here."""
        leave_if_asked()
        self._bar.update(self._task, completed=n_ready)
        tenth = _LINES * n_ready // self._n_images
        if self._bar.disable and tenth > self._tenth:
            self._tenth = tenth
            self._say(f"{n_ready:,} of {self._n_images:,} images decoded")

    def _say(self, text: str) -> None:
        say(text, self._console)
