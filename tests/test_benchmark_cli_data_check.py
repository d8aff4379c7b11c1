"""`mlrc data check` on a data set in which everything is wrong that has been seen wrong: all of it is named."""

import shutil
from pathlib import Path
from zlib import compress, crc32

import numpy as np
import pytest
from conftest import Command
from PIL import Image
from standard_trees import HTML, cub_tree

from protocols.datasets import image_kinds, load_dataset, scan
from protocols.datasets.images import image_kind, is_web_page
from protocols.errors import DataError


def picture(path: Path, seed: int, mode: str = "RGB") -> None:
    noise = np.random.default_rng(seed).integers(0, 256, (40, 50, len(mode)), dtype=np.uint8)
    Image.frombytes(mode, (50, 40), noise.tobytes()).save(path)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Class folders as a mirror of CUB-200-2011 has them."""
    root = tmp_path / "birds"
    for number in range(1, 9):
        folder = root / f"{number:03d}.Bird"
        folder.mkdir(parents=True)
        for k in range(3):
            picture(folder / f"{k}.jpg", 10 * number + k)
    data = (root / "001.Bird/0.jpg").read_bytes()
    (root / "001.Bird/cut.jpg").write_bytes(data[: len(data) * 6 // 10])
    (root / "001.Bird/.DS_Store").write_bytes(b"\0")
    (root / "002.Bird/empty.jpg").write_bytes(b"")
    (root / "002.Bird/notes.txt").write_text("seen on Monday", encoding="utf-8")
    (root / "003.Bird/page.jpg").write_text(HTML, encoding="utf-8")
    shutil.copy(root / "002.Bird/1.jpg", root / "002.Bird/again.jpg")
    shutil.copy(root / "004.Bird/1.jpg", root / "007.Bird/copy.jpg")
    picture(root / "005.Bird/print.jpg", 1, "CMYK")
    Image.fromarray((np.arange(400).reshape(20, 20) * 100).astype(np.uint16)).save(root / "006.Bird/deep.png")
    frames = [Image.fromarray(np.full((20, 20), value, np.uint8)) for value in (0, 200)]
    frames[0].save(root / "008.Bird/moves.gif", save_all=True, append_images=frames[1:])
    (root / "009.Empty").mkdir()
    return root


def test_everything_wrong_is_named_with_its_reason(mlrc: Command, damaged: Path) -> None:
    checked = mlrc("data", "check", f"cub200:{damaged}", "--json")
    assert checked.code == 2
    found = checked.json
    reasons = {problem["files"][0]: problem["reason"] for problem in found["unreadable"]}
    assert list(reasons) == ["001.Bird/cut.jpg", "002.Bird/empty.jpg", "003.Bird/page.jpg"]
    assert "truncated" in reasons["001.Bird/cut.jpg"]
    assert reasons["002.Bird/empty.jpg"] == f"{damaged}/002.Bird/empty.jpg: empty; replace or remove the file."
    assert reasons["003.Bird/page.jpg"] == f"{damaged}/003.Bird/page.jpg: a web page; replace or remove the file."
    (across,), (within,) = found["duplicates_across_sides"], found["duplicates"]
    assert across["files"] == ["004.Bird/1.jpg", "007.Bird/copy.jpg"]
    assert across["reason"].startswith("same bytes in both halves of the classes, train and test")
    assert set(within["files"]) == {"002.Bird/1.jpg", "002.Bird/again.jpg"}
    assert found["image_kinds"] == {"JPEG RGB": 27, "JPEG CMYK": 1, "PNG I;16": 1, "GIF P, 2 frames": 1}
    assert [problem["files"] for problem in found["unusual"]] == [
        ["005.Bird/print.jpg"], ["006.Bird/deep.png"], ["008.Bird/moves.gif"],
    ]  # fmt: skip
    assert found["skipped"] == [
        "001.Bird/.DS_Store: hidden",
        "002.Bird/notes.txt: not an image ending",
        "009.Empty: folder without images",
    ]
    assert "images: found 32, published 11,788" in found["differs_from_published"]
    assert "some of its images are in ImageNet" in found["caution"]


def test_all_of_it_is_on_the_terminal_too(mlrc: Command, damaged: Path) -> None:
    shown = " ".join(mlrc("data", "check", f"cub200:{damaged}").out.split())
    for part in ("cut.jpg", "empty; replace", "a web page;", "again.jpg", "copy.jpg", "JPEG CMYK: 1", "ImageNet"):
        assert part in shown
    assert "Mend or remove what cannot be read." in shown
    assert shown.endswith("The counts are not the published ones: an incomplete data set, or another one.")


def test_counts_that_are_not_the_published_ones_fail_the_check_though_every_image_is_sound(
    mlrc: Command, tmp_path: Path
) -> None:
    root = cub_tree(tmp_path / "birds")
    checked = mlrc("data", "check", f"cub200:{root}", "--json")
    assert (checked.code, checked.json["unreadable"]) == (2, [])
    assert "classes: found 8, published 200" in checked.json["differs_from_published"]
    assert "Every image can be read." in mlrc("data", "check", f"cub200:{root}").out
    alone = mlrc("data", "check", root / "images")  # no counts are published of a folder
    assert (alone.code, alone.out.splitlines()[-1]) == (0, "Every image can be read.")


def test_a_long_list_is_cut_on_the_terminal_and_whole_as_json(mlrc: Command, tmp_path: Path) -> None:
    root = cub_tree(tmp_path / "birds", per_class=4)
    for path in root.glob("images/*/*.jpg"):
        path.write_bytes(b"")
    assert len(mlrc("data", "check", f"cub200:{root}", "--json").json["unreadable"]) == 32
    assert "and 12 more; --json has all" in mlrc("data", "check", f"cub200:{root}").out


def test_a_folder_without_sides_is_halved_as_the_protocols_halve_it(tmp_path: Path) -> None:
    for label in "abcd":
        (tmp_path / label).mkdir()
        for k in range(2):
            picture(tmp_path / label / f"{k}.png", ord(label) + 100 * k)
    shutil.copy(tmp_path / "a/0.png", tmp_path / "b/2.png")
    shutil.copy(tmp_path / "c/0.png", tmp_path / "b/3.png")
    assert [problem.kind for problem in scan(load_dataset(str(tmp_path)))] == ["duplicate", "duplicate-across-sides"]


def test_16_bit_colour_is_told_though_its_mode_is_silent(tmp_path: Path) -> None:
    chunks = b"\0\0\0\x01\0\0\0\x01\x10\x02\0\0\0"  # 1 x 1 pixel, 16 bits, RGB

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + crc32(kind + data).to_bytes(4, "big")

    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", chunks) + chunk(b"IDAT", compress(bytes(7))) + chunk(b"IEND", b"")
    (tmp_path / "deep.png").write_bytes(png)
    assert image_kind(tmp_path / "deep.png") == "PNG RGB of 16 bits"
    with pytest.raises(DataError, match=r"gone\.png: cannot be read \(No such file"):
        image_kind(tmp_path / "gone.png")


def test_generated_images_have_no_kinds_of_files() -> None:
    assert image_kinds(load_dataset("shapes:centred?train=2&test=2")) is None


@pytest.mark.parametrize(
    ("head", "is_page"),
    [
        (HTML.encode(), True),
        (b"\xef\xbb\xbf\r\n <!-- moved --> <HTML>", True),
        (b"<!doctype html>\n<title>Log in</title>", True),  # HTML needs no more
        (b"<?xml version='1.0'?><Error/>", False),
        (b"\x1f\x8b<html>", False),
        (b"", False),
    ],
)
def test_a_web_page_is_known_by_its_first_bytes(head: bytes, is_page: bool) -> None:
    assert is_web_page(head) == is_page
