"""The cache of a data set: each image decoded and resized once, in one file that every process maps into its memory.

The file is a header (one JSON line, padded), a table (height, width and checksum of each image), the pixels in the
order of the index as (H, W, 3) uint8 RGB, and the SHA-256 of header and table. It belongs to the bytes of the images,
the length of the shorter side and the versions of what decodes and resizes; a file made of anything else is refused,
and so is one that was cut or changed: header, table and sizes when it is opened, each image when it is first used.
"""

import json
import os
import sys
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import features

from protocols.datasets.index import ImageIndex
from protocols.errors import DataError
from protocols.transforms import Pixels

VARIABLE = "MLRC_CACHE"
HEADER_BYTES = 512
ROW = np.dtype([("height", "<u4"), ("width", "<u4"), ("checksum", "<u4")])  # of the table; 0 x 0 is not there yet
SEAL_BYTES = 32

# Of the form of the file, of the policy in protocols/datasets/images.py and of protocols.transforms.resize: raise it
# when one of them changes, and every cache made before is made anew.
_SCHEMA = 1


def cache_folder() -> Path:
    """The folder that `MLRC_CACHE` names, or else the one that the system keeps for what can be made again.

    Raises:
        DataError: if there is neither.
    """
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser().absolute()
    try:
        home = Path.home()
    except RuntimeError:
        raise DataError(f"this user has no home folder to keep a cache in. Set {VARIABLE} to a folder.") from None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "mlrc" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "mlrc"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "mlrc"


def cache_path(folder: Path, index: ImageIndex, resize_px: int) -> Path:
    """The place of a data set's cache in a folder."""
    return folder / f"{index.content_hash}-{resize_px}px.pixels"


def header(index: ImageIndex, resize_px: int) -> bytes:
    """What a cache of these images begins with."""
    held = {"resize_px": resize_px, "n_images": index.n_images, **_made_of(index)}
    return json.dumps(held, sort_keys=True).encode().ljust(HEADER_BYTES - 1) + b"\n"


def seal(head: bytes, table: NDArray[np.void]) -> bytes:
    """What a finished cache ends with."""
    return sha256(head + table.tobytes()).digest()


def sizes(table: NDArray[np.void]) -> NDArray[np.int64]:
    """Bytes of each image of a table."""
    found: NDArray[np.int64] = 3 * table["height"].astype(np.int64) * table["width"].astype(np.int64)
    return found


class PixelCache:
    """The resized images of a data set out of a finished cache, read-only; pages are shared with other processes."""

    def __init__(self, path: Path, index: ImageIndex, resize_px: int) -> None:
        """Map the file and check all but the pixels.

        Raises:
            DataError: if there is none, or it is cut, damaged, or made of other images or by other decoders.
        """
        self.path = path
        head = header(index, resize_px)
        try:
            self._file: NDArray[np.uint8] = np.asarray(np.memmap(path, np.uint8, mode="r"))
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
            raise self._refusal(f"cannot be read ({getattr(error, 'strerror', None) or error})") from None
        first = HEADER_BYTES + index.n_images * ROW.itemsize
        if self._file[:HEADER_BYTES].tobytes() != head:
            raise self._refusal("made of other images or by another Pillow")
        if len(self._file) < first + SEAL_BYTES:
            raise self._refusal("cut")
        self._table = self._file[HEADER_BYTES:first].view(ROW)
        self._starts = first + np.concatenate([[0], np.cumsum(sizes(self._table))])
        if self._file[-SEAL_BYTES:].tobytes() != seal(head, self._table):
            raise self._refusal("cut or damaged")
        if len(self._file) != self._starts[-1] + SEAL_BYTES:
            raise self._refusal("cut or lengthened")
        self._is_sound = np.zeros(index.n_images, bool)

    def image(self, image: int) -> Pixels:
        """One resized image, (H, W, 3) uint8, not writable.

        Raises:
            DataError: if its pixels are not those that were written; they are compared at the first use.
        """
        pixels = self._file[self._starts[image] : self._starts[image + 1]]
        row = self._table[image]
        if not self._is_sound[image]:
            if crc32(pixels.data) != row["checksum"]:
                raise self._refusal(f"damaged at image {image}")
            self._is_sound[image] = True
        return pixels.reshape(row["height"], row["width"], 3)

    def check(self) -> None:
        """Compare the pixels of every image; a DataError tells the first that is damaged."""
        for image in range(len(self._table)):
            self.image(image)

    def _refusal(self, found: str) -> DataError:
        return DataError(f"{self.path}: {found}; wanted the cache of this data set. Remove the file; it is made anew.")


def known_to_decode(folder: Path, index: ImageIndex) -> bool:
    """Whether `remember_decoding` was called for images of the same bytes, with the same decoders."""
    try:
        found: object = json.loads(_note(folder, index).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return found == _made_of(index)


def remember_decoding(folder: Path, index: ImageIndex) -> None:
    """Note that every image decodes; where nothing can be written, nothing is remembered."""
    note = _note(folder, index)
    partial = note.with_suffix(f".{os.getpid()}.partial")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(_made_of(index), sort_keys=True) + "\n", encoding="utf-8")
        partial.replace(note)
    except OSError:
        return


def _note(folder: Path, index: ImageIndex) -> Path:
    return folder / f"{index.content_hash}.decodes"


def _made_of(index: ImageIndex) -> dict[str, object]:
    """The images by their bytes, and the versions of all that decides what they look like."""
    codecs = {name: features.version(name) for name in ("jpg", "libjpeg_turbo", "jpg_2000", "webp")}
    return {
        "schema": _SCHEMA,
        "images": sha256("\n".join(index.image_hashes).encode()).hexdigest(),
        "decoders": {"pillow": PIL.__version__, **codecs},
    }
