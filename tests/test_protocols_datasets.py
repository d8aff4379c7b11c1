"""Data sets from folders: layouts, order, hash, what is skipped, what is refused, and the scan before training."""

import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from protocols.datasets import check_decodes, load_dataset, scan
from protocols.errors import DataError

DATA = Path(__file__).parents[2] / "shared" / "data"


def _image(path: Path, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng([seed, *str(path.name).encode()]).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def _classes(root: Path, *labels: str, images: int = 2) -> Path:
    for place, label in enumerate(labels):
        for number in range(images):
            _image(root / label / f"{number}.png", seed=place)
    return root


def _refusal(root: Path | str) -> str:
    with pytest.raises(DataError) as caught:
        load_dataset(str(root))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Order, labels and hash


def test_classes_are_in_numeric_order_where_all_labels_are_integers(tmp_path: Path) -> None:
    assert load_dataset(str(_classes(tmp_path / "a", "10", "9", "1", "007"))).classes == ("1", "007", "9", "10")
    assert load_dataset(str(_classes(tmp_path / "b", "10", "9", "x"))).classes == ("10", "9", "x")


def test_targets_start_at_0_whatever_the_labels(tmp_path: Path) -> None:
    index = load_dataset(str(_classes(tmp_path, "1", "5", "9")))
    assert index.targets.tolist() == [0, 0, 1, 1, 2, 2]
    assert index.targets.dtype == np.int64


def test_images_of_classes_are_found_by_name(tmp_path: Path) -> None:
    index = load_dataset(str(_classes(tmp_path, "ant", "bee", "cat", images=3)))
    assert index.files[:4] == ("ant/0.png", "ant/1.png", "ant/2.png", "bee/0.png")
    assert index.images_of("bee").tolist() == [3, 4, 5]
    assert index.indices_of(["cat", "ant"]).tolist() == [0, 1, 2, 6, 7, 8]
    assert index.indices_of([]).tolist() == []
    with pytest.raises(DataError, match=r"no class 'bees' among 3\. Did you mean 'bee'"):
        index.indices_of(["bees"])


def test_the_index_does_not_depend_on_place_or_listing_order(tmp_path: Path, monkeypatch) -> None:
    first = load_dataset(str(_classes(tmp_path / "here", "b", "a", "c")))
    copy = shutil.copytree(tmp_path / "here", tmp_path / "elsewhere" / "under another name")
    forward = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter(sorted(forward(folder), reverse=True)))
    second = load_dataset(str(copy))
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter(sorted(forward(folder))))
    third = load_dataset(str(copy))
    assert first.content_hash == second.content_hash == third.content_hash
    assert first.files == second.files == third.files
    assert len(first.content_hash) == 12


def test_the_hash_changes_with_a_label_a_byte_a_super_class_and_a_side(tmp_path: Path) -> None:
    def hashed(name: str, *labels: str) -> str:
        return load_dataset(str(_classes(tmp_path / name, *labels))).content_hash

    plain = hashed("plain", "a", "b", "c", "d")
    changed = _classes(tmp_path / "changed", "a", "b", "c", "d")
    _image(changed / "c" / "1.png", seed=99)
    other_image = load_dataset(str(changed)).content_hash
    other_label = hashed("label", "a", "b", "c", "e")
    one_super = hashed("super", "s/a", "s/b", "t/c", "t/d")
    one_side = hashed("side", "train/a", "train/b", "test/c", "test/d")
    other_side = hashed("other side", "train/a", "train/b", "train/c", "test/d")
    assert len({plain, other_image, other_label, one_super, one_side, other_side}) == 6


def test_an_index_travels_to_another_process(tmp_path: Path) -> None:
    for text in (str(_classes(tmp_path, "a", "b")), "shapes:centred?train=2&test=2"):
        index = load_dataset(text)
        copy = pickle.loads(pickle.dumps(index))
        np.testing.assert_array_equal(copy.read(3), index.read(3))
        assert load_dataset(index.location).content_hash == copy.content_hash == index.content_hash


# Layouts


def test_a_folder_of_classes_with_junk_is_read_and_the_junk_is_listed(tmp_path: Path) -> None:
    root = _classes(tmp_path / "mine", *(f"class {letter}" for letter in "abcdefgh"), images=4)
    (root / "empty").mkdir()
    (root / "class a" / "nested" / "deeper").mkdir(parents=True)
    (root / ".DS_Store").write_bytes(b"\0")
    (root / "class b" / "._0.png").write_bytes(b"\0")
    (root / "notes.txt").write_text("hello")
    _image(root / ".cache" / "0.png")
    index = load_dataset(str(root))
    assert (index.name, index.location, index.n_classes, index.n_images) == ("mine", str(root), 8, 32)
    assert index.super_classes is None
    assert index.test_classes is None
    assert index.skipped == (
        ".DS_Store: hidden",
        ".cache: hidden",
        "class a/nested: folder without images",
        "class b/._0.png: hidden",
        "empty: folder without images",
        "notes.txt: not an image ending",
    )


def test_super_class_folders_become_part_of_the_label(tmp_path: Path) -> None:
    index = load_dataset(str(_classes(tmp_path, "Greek/01", "Greek/02", "Latin/01")))
    assert index.classes == ("Greek/01", "Greek/02", "Latin/01")
    assert index.super_classes == ("Greek", "Greek", "Latin")


def test_train_and_test_folders_are_the_official_sides(tmp_path: Path) -> None:
    train, test = [f"train/{letter}" for letter in "abcdef"], [f"test/{letter}" for letter in "ghijk"]
    index = load_dataset(str(_classes(tmp_path, *train, *test)))
    assert index.classes == tuple("abcdefghijk")
    assert index.test_classes == frozenset("ghijk")  # five, where half of eleven would be another cut
    assert index.files[0] == "train/a/0.png"


def test_sides_may_hold_super_classes(tmp_path: Path) -> None:
    index = load_dataset(str(_classes(tmp_path, "train/s/a", "train/t/b", "test/s/c")))
    assert index.classes == ("s/a", "s/c", "t/b")
    assert index.super_classes == ("s", "s", "t")
    assert index.test_classes == {"s/c"}


def test_a_class_on_both_sides_is_refused_by_name(tmp_path: Path) -> None:
    root = _classes(tmp_path, *(f"train/{letter}" for letter in "abcdefgh"), *(f"test/{letter}" for letter in "aijkl"))
    assert "in train/ and in test/: a." in _refusal(root)


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    index = load_dataset(str(_classes(tmp_path, "bus", "train", "tram")))
    assert index.classes == ("bus", "train", "tram")
    assert index.test_classes is None


def test_half_a_pair_of_sides_is_refused(tmp_path: Path) -> None:
    assert "has train/ but no class folders in the other" in _refusal(_classes(tmp_path / "1", "train/a", "train/b"))
    three = _classes(tmp_path / "2", "train/a", "test/b", "val/a")
    assert "holds val beside train/ and test/" in _refusal(three)


def test_mixed_and_wrong_depths_are_refused_with_an_example(tmp_path: Path) -> None:
    mixed = _refusal(_classes(tmp_path / "mixed", "a", "b/c"))
    assert "mixes class/image (a/0.png) with super/class/image (b/c/0.png)" in mixed
    assert "1.png lies in no class folder" in _refusal(_image(_classes(tmp_path / "top", "a", "b") / "1.png").parent)
    assert "a/b/c/0.png lies too deep" in _refusal(_classes(tmp_path / "deep", "a/b/c", "a/b/d"))


def test_what_is_no_data_set_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "no image in this folder (0 other entries). Wanted: class/image" in _refusal(tmp_path / "empty")
    assert "1 class with 2 images; at least 2 classes" in _refusal(_classes(tmp_path / "one", "a"))
    assert "each of the 3 classes has one image" in _refusal(_classes(tmp_path / "lone", "a", "b", "c", images=1))
    (tmp_path / "set.zip").write_bytes(b"PK")
    assert "is a file; unpack it" in _refusal(tmp_path / "set.zip")
    assert "no such folder" in _refusal(f"folder:{tmp_path / 'gone'}")


def test_classes_with_one_image_are_allowed_and_counted(tmp_path: Path) -> None:
    _classes(tmp_path, "a", "c")
    _image(tmp_path / "b" / "0.png")
    assert load_dataset(str(tmp_path)).lone_classes == ("b",)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("shapes:shiftd", "no data set named 'shapes:shiftd'. Did you mean 'shapes:shifted'?"),
        ("shapes", "Did you mean 'shapes:"),
        ("shape:centred", "no such folder. Did you mean 'shapes:centred'? Known: shapes:centred, shapes:shifted, or"),
        ("shapes:shifted?trian=5", "no option 'trian'. Did you mean 'train'?"),
        ("shapes:shifted?train=1", "train is '1'; wanted a whole number from 2"),
        ("shapes:shifted?seed=x", "seed is 'x'; wanted a whole number from 0"),
        ("/no/such/place", "/no/such/place: no such folder. Known:"),
    ],
)
def test_unknown_data_sets_and_options_are_answered_with_what_is_known(text: str, answer: str) -> None:
    assert answer in _refusal(text)


# File systems


def test_links_are_followed_but_never_in_circles(tmp_path: Path) -> None:
    root = _classes(tmp_path / "set", "a", "b")
    _classes(tmp_path / "outside", "c")
    (root / "c").symlink_to(tmp_path / "outside" / "c")
    (root / "a" / "up").symlink_to(root)
    index = load_dataset(str(root))
    assert index.classes == ("a", "b", "c")
    assert index.skipped == ("a/up: link to a folder above it",)


def test_a_broken_link_to_an_image_is_refused_with_its_path(tmp_path: Path) -> None:
    _classes(tmp_path, "a", "b")
    (tmp_path / "a" / "5.jpg").symlink_to(tmp_path / "gone.jpg")
    assert f"{tmp_path / 'a' / '5.jpg'}: a broken link" in _refusal(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep such a name")
def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    _classes(tmp_path, "a", "b")
    os.rename(os.fsencode(tmp_path / "a"), os.fsencode(tmp_path) + b"/\xff")  # noqa: PTH104 - a name of raw bytes
    assert r"\udcff': the name is not UTF-8. Rename it, or set PYTHONUTF8=1" in _refusal(tmp_path)


def test_names_with_accents_and_chinese_are_read_under_the_c_locale(tmp_path: Path) -> None:
    root = _classes(tmp_path / "données à moi", "größe", "图像 一")
    wanted = load_dataset(str(root))
    code = "import sys; from protocols.datasets import *; i = load_dataset(sys.argv[1]); check_decodes(i); "
    code += "print(i.content_hash, ascii(i.classes))"
    environment = {"LC_ALL": "C", "PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[1])}
    found = subprocess.run(
        [sys.executable, "-c", code, str(root)], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == f"{wanted.content_hash} {wanted.classes!a}"


@contextmanager
def _ordinary_user() -> Iterator[None]:
    """The rights of a user whom permissions bind: the superuser reads everything."""
    superuser = os.geteuid() == 0
    if superuser:
        os.seteuid(65534)
    try:
        yield
    finally:
        if superuser:
            os.seteuid(0)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("closed", ["a/1.png", "b", "."])
def test_what_may_not_be_read_is_refused_with_its_path(closed: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path, whose parents are closed to others
        Path(folder).chmod(0o755)
        root = _classes(Path(folder) / "set", "a", "b")
        target = root / closed
        target.chmod(0)
        with _ordinary_user():
            if not os.access(folder, os.R_OK, effective_ids=True):
                pytest.skip("the folder for temporary files is closed to ordinary users")
            assert f"{target}: cannot be read (Permission denied)" in _refusal(root)
        target.chmod(stat.S_IRWXU)


# Before training


def test_damaged_images_are_named_before_training(tmp_path: Path) -> None:
    index = load_dataset(str(_classes(tmp_path, "a", "b", "c", images=4)))
    check_decodes(index)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "whole.jpg")
    data = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "b" / "0.png").write_bytes(data[: len(data) * 6 // 10])
    for number in range(3):
        (tmp_path / "c" / f"{number}.png").write_text("not a picture")
    (tmp_path / "whole.jpg").unlink()
    index = load_dataset(str(tmp_path))
    problems = scan(index)
    assert [problem.files for problem in problems if problem.kind == "unreadable"] == [
        (name,) for name in ("b/0.png", "c/0.png", "c/1.png", "c/2.png")
    ]
    assert "truncated" in problems[0].reason
    with pytest.raises(DataError, match=r"4 of 12 images do not decode: b/0\.png, c/0\.png, c/1\.png and 1 more\. The"):
        check_decodes(index)


def test_a_text_file_named_jpg_is_never_silently_dropped(tmp_path: Path) -> None:
    _classes(tmp_path, "a", "b")
    (tmp_path / "a" / "readme.JPG").write_text("text")
    index = load_dataset(str(tmp_path))
    assert index.n_images == 5
    assert [problem.files for problem in scan(index)] == [("a/readme.JPG",)]


def test_exact_duplicates_are_listed_within_and_across_sides(tmp_path: Path) -> None:
    root = _classes(tmp_path, "train/a", "train/b", "test/c", "test/d", images=3)
    assert scan(load_dataset(str(root))) == []
    shutil.copy(root / "train/a/0.png", root / "test/d/copy.png")
    shutil.copy(root / "train/b/1.png", root / "train/b/again.png")
    across, within = scan(load_dataset(str(root)))
    assert across.kind == "duplicate-across-sides"
    assert across.files == ("train/a/0.png", "test/d/copy.png")
    assert across.reason == "same bytes on the train and the test side, in classes a, d"
    assert (within.kind, within.files) == ("duplicate", ("train/b/1.png", "train/b/again.png"))


@pytest.mark.skipif(not DATA.is_dir(), reason="the Omniglot archives are not beside this checkout")
def test_omniglot_is_read_as_alphabet_character_image(tmp_path: Path) -> None:
    with zipfile.ZipFile(DATA / "images_background_small1.zip") as archive:
        archive.extractall(tmp_path)
    index = load_dataset(str(tmp_path / "images_background_small1"))
    assert (index.n_classes, index.n_images, index.skipped) == (136, 2720, ())
    assert set(index.super_classes) == {"Balinese", "Early_Aramaic", "Greek", "Korean", "Latin"}
    assert scan(index) == []
    image = index.read(0)
    assert image.shape == (105, 105, 3)
    assert set(np.unique(image)) == {0, 255}
