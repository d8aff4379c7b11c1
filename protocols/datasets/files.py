"""What the readers of data sets on disk share: images by number, hashes, refusals that name the path, sizes."""

import os
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from protocols.datasets.images import decode
from protocols.errors import DataError


@dataclass(frozen=True)
class FileReader:
    """The `reader` of an index whose images are files; as plain data it reaches every worker."""

    root: Path
    files: tuple[str, ...]  # relative to the root

    def __call__(self, image: int) -> NDArray[np.uint8]:
        """One image, (H, W, 3) uint8 RGB."""
        return decode(self.root / self.files[image])


def file_hashes(root: Path, files: Iterable[str]) -> tuple[str, ...]:
    """SHA-256 of the bytes of each file, in their order; a DataError names a file that cannot be read."""

    def of(file: str) -> str:
        with readable(root / file):
            return sha256((root / file).read_bytes()).hexdigest()

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return tuple(pool.map(of, files))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns a refusal of the file system into a DataError that names the path."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(
            f"{error.filename or path}: cannot be read ({reason}). Mend its permissions or remove it."
        ) from None


def refuse_unless_folder(root: Path, wanted: str) -> None:
    """A DataError that ends in `wanted`, a sentence, if the root is a file or nothing."""
    if not root.is_dir():
        found = "is a file; unpack it and give the folder" if root.exists() else "no such folder"
        raise DataError(f"{root}: {found}. {wanted}")


def few(names: Collection[str], limit: int = 3) -> str:
    """The first of some names in their order, and how many more there are."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(sorted(names)[:limit]) + more


def size_text(n_bytes: float) -> str:
    """A size in the unit that suits it, by powers of 1000 as file systems and shops count."""
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" or n_bytes >= 100 else f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.0f} GB" if n_bytes >= 100 else f"{n_bytes:.3g} GB"
