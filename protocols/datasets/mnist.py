"""MNIST: 70,000 handwritten digits of 28 x 28 gray pixels in ten classes, read from its four files, packed or not.

The two parts that were published divide every class and are read as one; the protocols cut the classes, 0 to 4 and 5 to
9. An image is named by its part and its number there, "train #17", and is in the order of these names.

Source: LeCun et al., "Gradient-Based Learning Applied to Document Recognition", Proceedings of the IEEE, 1998
"""

import gzip
import zlib
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from protocols.datasets.archive import DEPTH, find
from protocols.datasets.files import readable
from protocols.datasets.index import ImageIndex, canonical_order
from protocols.datasets.standard import STANDARD
from protocols.errors import DataError

NAME = "mnist"
_PARTS = {"train": "train", "test": "t10k"}  # a part's name here and in its files' names
_IMAGES, _LABELS = 0x00000803, 0x00000801  # the first four bytes: unsigned bytes in three dimensions, in one


@dataclass(frozen=True, eq=False)
class _Digits:
    """Reads an image out of its part; as plain data it reaches every worker, which reads the files once for itself."""

    paths: tuple[Path, ...]
    places: NDArray[np.int64]  # (N,) number of each image in the parts laid end to end

    def __call__(self, image: int) -> NDArray[np.uint8]:
        gray = _pixels(self.paths)[self.places[image]]
        return np.repeat(gray[:, :, None], 3, axis=2)


def mnist_index(root: Path) -> ImageIndex:
    """Index the data set below an absolute folder.

    Raises:
        DataError: if one of the four files is missing, damaged, or does not fit its neighbour.
        OSError: if a file cannot be read.
    """
    paths = tuple(_needed(root, f"{part}-images-idx3-ubyte") for part in _PARTS.values())
    parts = [_values(path, _IMAGES) for path in paths]
    lists = [_needed(root, f"{part}-labels-idx1-ubyte") for part in _PARTS.values()]
    digits = [_values(path, _LABELS) for path in lists]
    for path, images, listed in zip(lists, parts, digits, strict=True):
        if len(images) != len(listed):
            raise DataError(f"{path}: {len(listed):,} labels for {len(images):,} images. Fetch both files again.")
    names = [f"{part} #{number}" for part, listed in zip(_PARTS, digits, strict=True) for number in range(len(listed))]
    labels = np.concatenate(digits)
    places = np.argsort(labels, kind="stable")
    classes = canonical_order(map(str, labels.tolist()))
    pixels = np.concatenate(parts)
    return ImageIndex(
        name=NAME,
        location=f"{NAME}:{root}",
        classes=classes,
        targets=np.unique(labels[places], return_inverse=True)[1].astype(np.int64),
        files=tuple(names[place] for place in places.tolist()),
        image_hashes=tuple(sha256(pixels[place].tobytes()).hexdigest() for place in places.tolist()),
        reader=_Digits(paths, places.astype(np.int64)),
        standard_name=NAME,
    )


@lru_cache(maxsize=1)
def _pixels(paths: tuple[Path, ...]) -> NDArray[np.uint8]:
    """(N, 28, 28) of the parts laid end to end."""
    return np.concatenate([_values(path, _IMAGES) for path in paths])


def _needed(root: Path, name: str) -> Path:
    found = find(root, name) or find(root, f"{name}.gz") or find(root, name.replace("-idx", ".idx"))
    if found is None:
        raise DataError(
            f"{root}: no {name} or {name}.gz in it or up to {DEPTH} folders below. {STANDARD[NAME].title} is read from "
            f"{STANDARD[NAME].layouts}."
        )
    return found


def _values(path: Path, magic: int) -> NDArray[np.uint8]:
    """The array of a file: four bytes that name its type and dimensions, their sizes, the values."""
    with readable(path):
        data = path.read_bytes()
    try:
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged ({error}). Fetch it again.") from None
    n_dimensions = magic & 0xFF
    start = 4 * (1 + n_dimensions)
    header = np.frombuffer(data[:start].ljust(start, b"\0"), ">u4")
    if header[0] != magic or len(data) - start != header[1:].prod(dtype=np.int64):
        raise DataError(
            f"{path}: not the file that was wanted: {len(data):,} bytes that do not begin and end as {n_dimensions} "
            "dimensions of bytes do. Fetch it again."
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(header[1:].astype(int))
