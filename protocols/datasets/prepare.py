"""Makes the cache of a data set: one process at a time, on all cores, so that it may be killed at any moment.

The unfinished file has the form of the finished one without its end. Pixels are appended, then their rows are written
into the table; after a kill the images whose row and checksum fit are kept and the rest is decoded again, so the
finished file has the same bytes however often it was begun. It gets its name when it is whole.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from protocols.datasets import Problem, decoding_problem, refuse_undecodable
from protocols.datasets.cache import HEADER_BYTES, ROW, SEAL_BYTES, VARIABLE, PixelCache, header, seal, sizes
from protocols.datasets.index import ImageIndex
from protocols.disk import refuse_unless_room, writable
from protocols.errors import DataError
from protocols.transforms import Pixels, resize

_CHUNK = 256  # images decoded between two writes: seconds of work on one core, tens of megabytes
_LONGEST = 2**31  # bytes of an image; more is asked for only by a damaged row
_SAMPLE = 64  # images that are decoded to tell how large the file will be
_MEND = f"Mend that and give the same command, which goes on from here, or set {VARIABLE} to another folder."
_ROOM = f"Make room, set {VARIABLE} to a folder on another disk, or run with --no-cache."


class Watcher:
    """Hears how a preparation goes; this one keeps it to itself."""

    def waits(self) -> None:
        """Another process is making the same cache."""

    def begins(self, n_images: int, n_ready: int, n_bytes: int) -> None:
        """So many images are there from before; the file will have about `n_bytes`."""

    def advances(self, n_ready: int) -> None:
        """So many images are in the file now."""


def prepare(index: ImageIndex, resize_px: int, path: Path, watcher: Watcher | None = None) -> bool:
    """Make the cache unless a sound one is there; waits while another process makes it.

    Returns:
        Whether anything was made.

    Raises:
        DataError: if images do not decode (all are looked at, and what was made is removed), the disk has too little
            room, or a file cannot be written.
    """
    watcher = watcher or Watcher()
    unfinished = path.with_suffix(".partial")
    with writable(path, _MEND), _alone(path, watcher):
        if _is_sound(path, index, resize_px):
            return False
        path.unlink(missing_ok=True)  # of no use, and as large as the new one
        held = unfinished.stat().st_size if unfinished.exists() else 0
        needed = _expected_bytes(index, resize_px)
        refuse_unless_room(path.parent, needed - held, f"a cache of {index.n_images:,} images at {resize_px} px", _ROOM)
        with unfinished.open("r+b" if held else "w+b") as file:
            problems = _fill(file, index, resize_px, needed, watcher)
        if problems:
            unfinished.unlink()  # with the images mended it is another data set
            refuse_undecodable(index, problems)
        unfinished.replace(path)
    return True


def _fill(file: BinaryIO, index: ImageIndex, resize_px: int, needed: int, watcher: Watcher) -> list[Problem]:
    """Go on with an unfinished file to its end, unless there are images that do not decode."""
    head = header(index, resize_px)
    table = _begun(file, head, index.n_images)
    n_ready = int((table["height"] > 0).sum())
    end = HEADER_BYTES + table.nbytes + int(sizes(table).sum())
    watcher.begins(index.n_images, n_ready, needed)
    problems: list[Problem] = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for first in range(n_ready, index.n_images, _CHUNK):
            chunk = range(first, min(first + _CHUNK, index.n_images))
            decoded = list(pool.map(partial(_decoded, index, resize_px), chunk))
            problems += [found for found in decoded if isinstance(found, Problem)]
            if not problems:
                end = _append(file, table, first, end, [found for found in decoded if not isinstance(found, Problem)])
            watcher.advances(chunk.stop)
    if not problems:
        file.seek(end)
        file.write(seal(head, table))
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    return problems


def _append(file: BinaryIO, table: NDArray[np.void], first: int, end: int, images: Sequence[Pixels]) -> int:
    """Write the next images and then their rows; returns where the pixels now end."""
    file.seek(end)
    for number, pixels in enumerate(images, first):
        table[number] = (*pixels.shape[:2], crc32(pixels.data))
        end += file.write(pixels.data)
    file.flush()
    file.seek(HEADER_BYTES + first * ROW.itemsize)
    file.write(table[first : first + len(images)].tobytes())
    file.flush()
    return end


def _begun(file: BinaryIO, head: bytes, n_images: int) -> NDArray[np.void]:
    """The table of an unfinished file with the rows of the images, from the first on, that are whole in it."""
    table = np.zeros(n_images, ROW)
    file.seek(0)
    if file.read(HEADER_BYTES) == head and len(found := file.read(table.nbytes)) == table.nbytes:
        rows = np.frombuffer(found, ROW)
        for number, n_bytes in enumerate(sizes(rows).tolist()):
            pixels = file.read(min(n_bytes, _LONGEST))
            if not pixels or len(pixels) != n_bytes or crc32(pixels) != rows["checksum"][number]:
                break
            table[number] = rows[number]
    else:
        file.seek(0)
        file.truncate()
        file.write(head + table.tobytes())
    return table


def _decoded(index: ImageIndex, resize_px: int, image: int) -> Pixels | Problem:
    try:
        return np.ascontiguousarray(resize(index.read(image), resize_px))
    except DataError as error:
        return decoding_problem(index, image, error)


def _expected_bytes(index: ImageIndex, resize_px: int) -> int:
    """About how large the file will be, from images all over the data set; exact where there are few."""
    sample = np.linspace(0, index.n_images - 1, min(_SAMPLE, index.n_images)).astype(int).tolist()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        decoded = pool.map(partial(_decoded, index, resize_px), sample)
        found = [pixels.nbytes for pixels in decoded if not isinstance(pixels, Problem)]
    mean = sum(found) / max(len(found), 1)
    return round(index.n_images * (mean + ROW.itemsize)) + HEADER_BYTES + SEAL_BYTES


def _is_sound(path: Path, index: ImageIndex, resize_px: int) -> bool:
    if not path.exists():
        return False
    try:
        PixelCache(path, index, resize_px).check()
    except DataError:
        return False
    return True


@contextmanager
def _alone(path: Path, watcher: Watcher) -> Iterator[None]:
    """No other process makes this cache meanwhile. The system holds the lock, so it ends with its process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        watcher.waits()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
