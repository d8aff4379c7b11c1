"""One image file to one array, always (height, width, 3) uint8 RGB: the image policy of every protocol.

Gray is repeated over the three channels. 1-bit becomes 0 and 255. Palette and CMYK are converted to RGB. Alpha is
discarded and the colour below it kept as stored, so nothing is blended with a background. 16-bit gray is divided by 257
and rounded; of 16-bit colour Pillow delivers the high byte. 32-bit integer gray is read as 16-bit where it fits and
refused where it does not; floating-point and Lab pixels have no agreed range and are refused. An animation is its
first frame. Orientation tags are ignored, as the published numbers ignore them. A truncated file is an error.
"""

from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, UnidentifiedImageError

from protocols.errors import DataError

ENDINGS = frozenset(  # compared in lower case
    (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
)

_DIRECT = frozenset({"1", "L", "RGB", "RGBX", "CMYK", "YCbCr", "HSV"})  # modes that convert to RGB in one step
_WITH_ALPHA = frozenset({"P", "PA", "LA", "La", "RGBA", "RGBa"})  # a palette may hold transparency
_ORIENTATION_TAG = 0x0112
_BACK_TO_STORED = {  # orientation tag -> what undoes the turn that Pillow gives a TIFF while loading
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def decode(source: Path | bytes) -> NDArray[np.uint8]:
    """Decode one image file, or its bytes.

    Returns:
        (H, W, 3) uint8 RGB, contiguous and writable.

    Raises:
        DataError: if the file is missing, unreadable, truncated, no image, or of a pixel type that is refused; the
            path is named.
    """
    ImageFile.LOAD_TRUNCATED_IMAGES = False  # some libraries switch it on for the whole process
    try:
        with Image.open(BytesIO(source) if isinstance(source, bytes) else source) as image:
            return _as_rgb(_as_stored(image))
    except MemoryError:  # no fault of the file
        raise
    except DataError as error:
        raise DataError(f"{_name(source)}: {error}") from None
    except Exception as error:  # Pillow's decoders raise nearly any type on a damaged file
        raise DataError(f"{_name(source)}: {_reason(error, source)}; replace or remove the file.") from error


def image_kind(path: Path) -> str:
    """What an image file is before the policy turns it into RGB: "JPEG CMYK", "PNG I;16", "GIF P, 3 frames".

    The letters are Pillow's names of pixel types: L gray, P palette, A alpha, 16 bits where it says so, else 8.

    Raises:
        DataError: if the file is missing or no image; the path is named. Its pixels are not decoded.
    """
    try:
        with Image.open(path) as image:
            n_frames = getattr(image, "n_frames", 1)
            wide = " of 16 bits" if image.format == "PNG" and _stores_16_bit_colour(image) else ""
            return f"{image.format} {image.mode}{wide}" + (f", {n_frames} frames" if n_frames > 1 else "")
    except Exception as error:  # as above
        raise DataError(f"{path}: {_reason(error, path)}; replace or remove the file.") from error


def is_web_page(head: bytes) -> bool:
    """Whether the first bytes of a file are those of an HTML page, which no image and no archive is."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return text.startswith(b"<!doctype html") or (text.startswith(b"<") and b"<html" in text[:4096])


def _as_stored(image: Image.Image) -> Image.Image:
    """The first frame as its rows are stored."""
    if image.format != "TIFF":  # Pillow turns no other format of `ENDINGS` by itself
        return image
    orientation = image.getexif().get(_ORIENTATION_TAG, 1)
    image.load()
    back = _BACK_TO_STORED.get(orientation)
    return image if back is None else image.transpose(back)


def _as_rgb(image: Image.Image) -> NDArray[np.uint8]:
    if image.mode.startswith("I"):
        return _gray_from_16_bit(np.asarray(image))
    if image.mode in _WITH_ALPHA:
        image = image.convert("RGBA")  # by way of RGBA, which drops alpha without blending
    elif image.mode not in _DIRECT:
        raise DataError(f"pixels of type {image.mode!r} have no agreed range. Convert it to 8-bit RGB or gray.")
    return np.array(image.convert("RGB"))


def _gray_from_16_bit(values: NDArray[np.integer]) -> NDArray[np.uint8]:
    wide = values.astype(np.int64)
    if wide.min() < 0 or wide.max() > 65535:
        raise DataError(f"gray values {wide.min()} to {wide.max()} do not fit 16 bits. Convert it to 8-bit or 16-bit.")
    gray = ((wide + 128) // 257).astype(np.uint8)  # value / 257 to the nearest; 257 is odd, so there is no tie
    return np.repeat(gray[:, :, None], 3, axis=2)


def _stores_16_bit_colour(image: Image.Image) -> bool:
    """Of which Pillow's mode keeps silent."""
    return any("16" in str(tile[3]) for tile in getattr(image, "tile", ())) and "16" not in image.mode


def _reason(error: Exception, source: Path | bytes) -> str:
    if isinstance(error, UnidentifiedImageError):
        head = _head(source)
        return "empty" if not head else "a web page" if is_web_page(head) else "not an image that can be read"
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be read ({error.strerror})"
    text = " ".join(str(error).split()) or type(error).__name__
    return f"cannot be decoded ({text})"


def _head(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    with source.open("rb") as file:
        return file.read(4096)


def _name(source: Path | bytes) -> str:
    return f"image of {len(source)} bytes" if isinstance(source, bytes) else str(source)
