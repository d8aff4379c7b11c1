"""The image policy: every kind of file becomes the RGB that the policy states, and a damaged one is named."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from protocols.datasets.images import decode
from protocols.errors import DataError

COLOURS = np.random.default_rng(0).integers(0, 256, (7, 5, 3), dtype=np.uint8)
GRAY = COLOURS[:, :, 0]


def _bytes(image: Image.Image, kind: str, **options) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _repeated(gray: np.ndarray) -> np.ndarray:
    return np.stack([gray] * 3, axis=2)


def _palette(transparency: bytes | int | None) -> tuple[bytes, np.ndarray]:
    indices = np.arange(35, dtype=np.uint8).reshape(7, 5)
    table = np.random.default_rng(1).integers(0, 256, (256, 3), dtype=np.uint8)
    image = Image.frombytes("P", (5, 7), indices.tobytes())
    image.putpalette(table.tobytes())
    options = {} if transparency is None else {"transparency": transparency}
    return _bytes(image, "PNG", **options), table[indices]


@pytest.mark.parametrize("transparency", [None, 3, bytes(range(0, 250, 7))], ids=["none", "one index", "levels"])
def test_palette_entries_arrive_as_stored_whatever_their_transparency(transparency) -> None:
    data, wanted = _palette(transparency)
    np.testing.assert_array_equal(decode(data), wanted)


def test_alpha_is_discarded_and_the_colour_below_is_kept() -> None:
    alpha = np.random.default_rng(2).integers(0, 256, (7, 5, 1), dtype=np.uint8)
    rgba = _bytes(Image.fromarray(np.concatenate([COLOURS, alpha], axis=2)), "PNG")
    gray_alpha = _bytes(Image.fromarray(np.concatenate([GRAY[:, :, None], alpha], axis=2)), "PNG")
    np.testing.assert_array_equal(decode(rgba), COLOURS)
    np.testing.assert_array_equal(decode(gray_alpha), _repeated(GRAY))


def test_rgb_and_gray_and_1_bit_arrive_exactly() -> None:
    np.testing.assert_array_equal(decode(_bytes(Image.fromarray(COLOURS), "PNG")), COLOURS)
    np.testing.assert_array_equal(decode(_bytes(Image.fromarray(GRAY), "BMP")), _repeated(GRAY))
    one_bit = Image.fromarray(GRAY > 127)
    assert one_bit.mode == "1"
    np.testing.assert_array_equal(decode(_bytes(one_bit, "PNG")), _repeated(np.where(GRAY > 127, 255, 0)))


def test_cmyk_is_converted_by_ink_and_black() -> None:
    inks = np.random.default_rng(3).integers(0, 256, (7, 5, 4), dtype=np.uint8)
    data = _bytes(Image.frombytes("CMYK", (5, 7), inks.tobytes()), "TIFF")
    wanted = (255 - inks[:, :, :3].astype(float)) * (255 - inks[:, :, 3:].astype(float)) / 255
    assert np.abs(decode(data) - wanted).max() <= 1
    assert decode(_bytes(Image.frombytes("CMYK", (5, 7), inks.tobytes()), "JPEG")).shape == (7, 5, 3)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_every_16_bit_gray_is_divided_by_257_and_rounded(kind: str) -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    decoded = decode(_bytes(Image.fromarray(values), kind))
    np.testing.assert_array_equal(decoded, _repeated(np.round(values / 257)))


def test_32_bit_integers_count_as_16_bit_where_they_fit_and_are_refused_elsewhere() -> None:
    values = np.array([[0, 257], [40_000, 65_535]], dtype=np.int32)
    np.testing.assert_array_equal(decode(_bytes(Image.fromarray(values), "TIFF"))[:, :, 0], np.round(values / 257))
    with pytest.raises(DataError, match="0 to 131070 do not fit 16 bits"):
        decode(_bytes(Image.fromarray(values * 2), "TIFF"))


def test_floating_point_pixels_are_refused_with_their_path(tmp_path: Path) -> None:
    path = tmp_path / "depth.tif"
    Image.fromarray(np.ones((2, 2), np.float32)).save(path)
    with pytest.raises(DataError, match=r"depth\.tif: pixels of type 'F'"):
        decode(path)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG", "WEBP"])
def test_orientation_tags_are_ignored(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    lossless = {"lossless": True} if kind == "WEBP" else {}
    image = Image.fromarray(COLOURS)
    np.testing.assert_array_equal(
        decode(_bytes(image, kind, exif=exif, **lossless)), decode(_bytes(image, kind, **lossless))
    )


def test_an_animation_is_its_first_frame() -> None:
    frames = [Image.fromarray(np.full((4, 4), level, np.uint8)) for level in (10, 200)]
    data = _bytes(frames[0], "GIF", save_all=True, append_images=frames[1:])
    np.testing.assert_array_equal(decode(data), np.full((4, 4, 3), 10))


@pytest.mark.parametrize("tolerant", [False, True], ids=["as is", "another library tolerates truncation"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM"])
def test_a_file_cut_at_60_percent_is_an_error_with_its_path(tmp_path: Path, monkeypatch, kind, tolerant) -> None:
    noise = np.random.default_rng(4).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = _bytes(Image.fromarray(noise), kind)
    assert decode(whole).shape == (64, 64, 3)
    path = tmp_path / "größe 图.jpg"
    path.write_bytes(whole[: len(whole) * 6 // 10])
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", tolerant)
    with pytest.raises(DataError, match=r"größe 图\.jpg: .*; replace or remove the file"):
        decode(path)


@pytest.mark.parametrize("content", [b"", b"a text, not a picture\n", b"<html>404</html>", b"\xff\xd8\xff"])
def test_what_is_no_image_is_an_error_of_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        decode(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.png: cannot be read \(No such file or directory\)"):
        decode(tmp_path / "gone.png")
